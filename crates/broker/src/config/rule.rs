//! Rules: they give values to a program by its cgroup, unit, user and executable.

use super::names::uid_of;
use plimsoll_programs::STEERED;
use plimsoll_wire::messages::{Priority, Weight};
use plimsoll_wire::standing::Standing;
use serde::Deserialize;

/// The adapters that programs have in them, and `none`.
const NOT_OURS: [&str; 3] = ["mmtk", "self", "none"];

/// The adapters that a rule may give: those that `plimsoll` brings, those that programs have in them, and
/// `none`. A program may name others by itself.
pub fn adapters() -> impl Iterator<Item = &'static str> {
    let ours = STEERED.iter().map(|runtime| runtime.name());
    ours.chain(NOT_OURS)
}

/// One `[[rule]]`. All conditions that are given must hold; a rule needs at least one.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rule {
    /// Glob over the cgroup's path under the mount (`/user.slice/*`).
    pub cgroup: Option<String>,
    /// Glob over the systemd unit's name (`postgresql.service`).
    pub unit: Option<String>,
    /// A user's name or number.
    pub user: Option<String>,
    /// Glob over the executable's path (`*/java`).
    pub executable: Option<String>,
    /// 1 to 10000.
    pub weight: Option<i64>,
    /// -100 to 100.
    pub priority: Option<i64>,
    /// One of [`adapters`].
    pub adapter: Option<String>,
    /// 1 to 10000: weight of the user's group against other users' groups, in the system's broker.
    pub user_weight: Option<i64>,
    /// -100 to 100: priority of the user's group, likewise.
    pub user_priority: Option<i64>,
    /// Uid of `user`, resolved when the file was read.
    #[serde(skip)]
    pub(super) uid: Option<u32>,
    /// The checked weight and priority for a program, and those for a user's group.
    #[serde(skip)]
    pub(super) standing: Standing,
    #[serde(skip)]
    pub(super) user_standing: Standing,
}

/// Properties of a program that rules match against.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Path of its cgroup under the mount; that of the memory controller's hierarchy if there is
    /// one.
    pub cgroup: String,
    /// Name of its systemd unit; empty when it is in none.
    pub unit: String,
    /// Name of its unit under the system's manager; empty when it is in none. A user can make units
    /// and cgroups inside its own unit, but no unit of the system's manager.
    pub system_unit: String,
    /// Real uid.
    pub uid: u32,
    /// Path of its executable; empty when unreadable.
    pub executable: String,
}

/// Values that the matching rules gave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Given {
    /// A weight.
    pub weight: Option<Weight>,
    /// A priority.
    pub priority: Option<Priority>,
    /// An adapter.
    pub adapter: Option<String>,
}

impl Given {
    pub(super) fn fill(&mut self, rule: &Rule) {
        self.stand(rule.standing);
        if self.adapter.is_none() {
            self.adapter.clone_from(&rule.adapter);
        }
    }

    pub(super) fn fill_for_user(&mut self, rule: &Rule) {
        self.stand(rule.user_standing);
    }

    fn stand(&mut self, standing: Standing) {
        self.weight = self.weight.or(standing.weight);
        self.priority = self.priority.or(standing.priority);
    }
}

impl Rule {
    /// Whether every given condition holds.
    #[must_use]
    pub fn matches(&self, facts: &Facts) -> bool {
        let glob = |pattern: &Option<String>, text: &str| {
            pattern
                .as_deref()
                .is_none_or(|pattern| matches_glob(pattern, text))
        };
        glob(&self.cgroup, &facts.cgroup)
            && glob(&self.unit, &facts.unit)
            && glob(&self.executable, &facts.executable)
            && self.uid.is_none_or(|uid| uid == facts.uid)
    }

    /// Whether the rule sets the standing of users' groups and matches this user, given by its uid
    /// and by the units of the system's manager in which its programs run.
    pub(super) fn matches_user<'u>(
        &self,
        uid: u32,
        units: impl IntoIterator<Item = &'u str>,
    ) -> bool {
        let in_unit = |pattern: &str| {
            let mut units = units.into_iter().filter(|unit| !unit.is_empty());
            units.any(|unit| matches_glob(pattern, unit))
        };
        self.is_for_users()
            && self.uid.is_none_or(|own| own == uid)
            && self.unit.as_deref().is_none_or(in_unit)
    }

    pub(super) fn is_for_users(&self) -> bool {
        self.user_weight.is_some() || self.user_priority.is_some()
    }

    /// Checks what serde cannot check, and resolves the numbers and the user.
    pub(super) fn check(&mut self) -> Result<(), String> {
        self.standing =
            Standing::read(self.weight, self.priority).map_err(|error| error.message)?;
        self.user_standing = Standing::read(self.user_weight, self.user_priority)
            .map_err(|error| format!("user_{}", error.message))?;
        if self.is_for_users() && (self.cgroup.is_some() || self.executable.is_some()) {
            return Err(
                "user_weight and user_priority go with `user` and `unit` only: what a program is \
                        called, and the cgroups below its unit, are its user's to choose; make a rule of \
                        its own"
                    .into(),
            );
        }
        let known = |adapter: &&String| adapters().any(|known| known == *adapter);
        if let Some(adapter) = self.adapter.as_ref().filter(|adapter| !known(adapter)) {
            return Err(format!(
                "adapter `{}` is not known: give one of {}",
                adapter.escape_debug(),
                adapters().collect::<Vec<_>>().join(", ")
            ));
        }
        if self.cgroup.is_none()
            && self.unit.is_none()
            && self.user.is_none()
            && self.executable.is_none()
        {
            return Err(
                "a rule without a condition: add `executable`, `unit`, `user` or `cgroup` \
                        (`executable = \"*\"` matches every program)"
                    .into(),
            );
        }
        let gives = self.weight.is_some() || self.priority.is_some() || self.adapter.is_some();
        if !gives && !self.is_for_users() {
            return Err(
                "a rule that gives nothing: add `weight`, `priority`, `adapter`, `user_weight` \
                        or `user_priority`"
                    .into(),
            );
        }
        if let Some(user) = &self.user {
            let uid = uid_of(user).ok_or_else(|| {
                format!(
                    "no user is called `{}`: give a name that `getent passwd` lists, or a number",
                    user.escape_debug()
                )
            })?;
            self.uid = Some(uid);
        }
        Ok(())
    }
}

/// Whether `text` matches `pattern`: `*` matches any run of bytes (also `/`), `?` one byte. It
/// backtracks only to the last star, so it takes at most `pattern x text` steps.
#[must_use]
pub fn matches_glob(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(&c) if c == b'?' || c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match star {
                Some((at, from)) => {
                    star = Some((at, from + 1));
                    p = at + 1;
                    t = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&c| c == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_match_like_a_shell_but_over_slashes() {
        for (pattern, text, expect) in [
            ("*/java", "/usr/lib/jvm/bin/java", true),
            ("*/java", "/usr/bin/javac", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("*", "", true),
            ("", "", true),
            ("", "x", false),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b", "xxaxxbx", false),
        ] {
            assert_eq!(
                matches_glob(pattern, text),
                expect,
                "{pattern} against {text}"
            );
        }
    }

    #[test]
    fn a_rule_needs_every_condition() {
        let rule = Rule {
            executable: Some("*/java".into()),
            uid: Some(1000),
            weight: Some(5),
            ..Rule::default()
        };
        let mut facts = Facts {
            executable: "/bin/java".into(),
            uid: 1000,
            ..Facts::default()
        };
        assert!(rule.matches(&facts));
        facts.uid = 1001;
        assert!(!rule.matches(&facts));
    }

    #[test]
    fn a_users_group_goes_by_its_number_and_by_units_of_the_system() {
        let rule = |uid, unit: Option<&str>| Rule {
            uid,
            unit: unit.map(str::to_owned),
            user_weight: Some(300),
            ..Rule::default()
        };
        let units = ["", "db.service"];
        assert!(rule(Some(7), None).matches_user(7, units));
        assert!(!rule(Some(7), None).matches_user(8, units));
        assert!(rule(None, Some("db*")).matches_user(8, units));
        assert!(!rule(None, Some("db*")).matches_user(8, [""]));
        assert!(
            !rule(None, Some("*")).matches_user(8, [""]),
            "no unit is none of all"
        );
        assert!(!rule(Some(7), Some("db*")).matches_user(8, units));
        let plain = Rule {
            user_weight: None,
            weight: Some(3),
            ..rule(Some(7), None)
        };
        assert!(!plain.matches_user(7, units));
    }
}
