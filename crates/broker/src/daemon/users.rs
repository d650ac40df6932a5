//! Users. In the system's broker each user has a group at the top. The requests of its programs
//! count within that group; only the rules of the configuration set how the groups stand to each
//! other.

use super::Daemon;
use super::caller::Caller;
use super::register::Draft;
use crate::config::{Given, name_of};
use crate::decide::{MAX_DEPTH, NewPrincipal};
use crate::principals::{Member, Owner};
use plimsoll_kernel::process::Process;
use plimsoll_unit::Nanos;
use plimsoll_wire::checks;
use plimsoll_wire::messages::{Id, Kind, Max, Set};
use plimsoll_wire::varlink::WireError;

impl Daemon {
    /// The group of a user; made when it does not exist yet. `None` in a broker for its own user
    /// only.
    ///
    /// # Errors
    /// When the page of a new group cannot be made.
    pub(super) fn group_of_user(&mut self, uid: u32, now: Nanos) -> Result<Option<Id>, WireError> {
        if !self.settings.options.system {
            return Ok(None);
        }
        if let Some(id) = self.members.group_of_user(uid) {
            return Ok(Some(id));
        }
        let name = name_of(uid).unwrap_or_else(|| uid.to_string());
        let given = self.settings.config.given_to_user(uid, &[]);
        let new = NewPrincipal {
            name: checks::mend_name(&format!("user {name}")),
            kind: Kind::Group,
            parent: None,
            weight: given.weight.unwrap_or_default(),
            priority: given.priority.unwrap_or_default(),
            max: Max::NONE,
            adaptive: false,
            tenant: true,
            automatic: true,
        };
        let owner = Owner {
            tenant: Some(uid),
            ..Owner::broker(self.settings.uid)
        };
        self.admit(Draft::new(owner, new), now).map(Some)
    }

    /// The user that a principal counts for: the one that registers it, or, if that is root or the
    /// broker's user, the user that the process runs as.
    pub(super) fn counts_with(&self, caller: &Caller, process: Option<&Process>) -> u32 {
        let uid = caller.peer.uid;
        let process = process.filter(|_| self.settings.is_ruler(uid));
        let runs_as = process.and_then(|process| process.uid().ok());
        runs_as.unwrap_or(uid)
    }

    /// The user in whose group a principal is.
    pub(super) fn user_of(&self, id: Id) -> Option<u32> {
        self.line(id).last().and_then(|top| top.owner.tenant)
    }

    /// Whether a principal with that parent is at the top: nothing but the group of a user is above
    /// it.
    pub(super) fn is_top(&self, parent: Option<Id>) -> bool {
        let above = |id| self.members.get(id).is_some_and(Member::is_tenant);
        parent.is_none_or(above)
    }

    /// A principal and its ancestors, upwards.
    pub(super) fn line(&self, id: Id) -> impl Iterator<Item = &Member> + '_ {
        let above = |id: &Id| self.core.figures(*id).and_then(|figures| figures.parent);
        let line = std::iter::successors(Some(id), above).take(MAX_DEPTH + 1);
        line.filter_map(|id| self.members.get(id))
    }

    /// Whether the caller owns a principal. Users without a uid in our user namespace cannot be
    /// told apart; of these, each process owns only what it registered itself.
    pub(super) fn owns(&self, caller: &Caller, member: &Member) -> bool {
        let same = caller.peer.pid > 0 && member.owner.registrar == caller.peer.pid;
        member.owner.uid == caller.peer.uid && (same || self.is_told_apart(member.owner.uid))
    }

    /// Whether that uid stands for one user only.
    pub(super) fn is_told_apart(&self, uid: u32) -> bool {
        self.settings.unmapped != Some(uid)
    }

    /// Gives the group of this principal's user the weight and priority that the rules set for the
    /// units of its programs.
    pub(super) fn stand_in_unit(&mut self, id: Id) {
        let in_unit = self
            .members
            .get(id)
            .is_some_and(|member| !member.unit.is_empty());
        let uid = self.user_of(id).filter(|_| in_unit);
        if let Some(uid) = uid.filter(|_| self.settings.config.rules_users()) {
            let given = self.given_to_user(uid);
            self.stand(uid, given);
        }
    }

    /// Gives the groups of all users what the rules say, after the rules were read again.
    pub(super) fn stand_all(&mut self) {
        let users: Vec<u32> = self
            .members
            .iter()
            .filter_map(|member| member.owner.tenant)
            .collect();
        for uid in users {
            self.stand_anew(uid);
        }
    }

    /// As [`Daemon::stand_all`], for the user of one program that left its unit.
    pub(super) fn stand_without(&mut self, there: Option<Id>) {
        let uid = there.and_then(|id| self.user_of(id));
        if let Some(uid) = uid.filter(|_| self.settings.config.rules_users()) {
            self.stand_anew(uid);
        }
    }

    fn stand_anew(&mut self, uid: u32) {
        let given = self.given_to_user(uid);
        let given = Given {
            weight: Some(given.weight.unwrap_or_default()),
            priority: Some(given.priority.unwrap_or_default()),
            ..given
        };
        self.stand(uid, given);
    }

    fn given_to_user(&self, uid: u32) -> Given {
        let in_units = self.members.iter().filter(|member| !member.unit.is_empty());
        let own = in_units.filter(|member| self.user_of(member.id) == Some(uid));
        let units: Vec<&str> = own.map(|member| member.unit.as_str()).collect();
        self.settings.config.given_to_user(uid, &units)
    }

    fn stand(&mut self, uid: u32, given: Given) {
        let Some(id) = self.members.group_of_user(uid) else {
            return;
        };
        let set = Set {
            id,
            weight: given.weight,
            priority: given.priority,
            ..Set::default()
        };
        if let Err(error) = self.core.set(&set) {
            tracing::warn!(user = uid, %error, "a rule could not be applied to the group of a user");
        }
    }
}
