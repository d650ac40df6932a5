//! When a limit binds programs of several users, each user has a group for it. This module divides
//! such a limit between the groups.

use crate::decide::{Core, SensedPrincipal, Subtree};
use crate::principals::{Member, Members};
use crate::sense::RootDomain;
use plimsoll_unit::Bytes;
use plimsoll_wire::messages::Id;
use std::path::Path;

/// One user's group for a shared limit.
#[derive(Debug)]
pub(super) struct Part {
    /// The user's group.
    id: Id,
    /// Memory that is accounted to it and its descendants.
    holds: Subtree,
    /// Use of the other users' groups under that limit, as far as it is not counted in
    /// this group's domain; `None` where it was not sensed.
    beside: Option<Bytes>,
}

/// The cgroup whose limit this group is for.
fn limit(member: &Member) -> Option<&Path> {
    let domain = member.domain.as_ref().filter(|_| member.is_automatic());
    domain.and_then(RootDomain::asked)
}

/// Replaces the domain of each such group by its user's part of that domain. `parts` is room that is used
/// again at each tick; `sensed` is ordered by id.
pub(super) fn divide(
    parts: &mut Vec<Part>,
    members: &mut Members,
    core: &Core,
    sensed: &mut [SensedPrincipal],
) {
    parts.clear();
    let groups = members.iter().filter(|member| limit(member).is_some());
    parts.extend(groups.map(|member| Part {
        id: member.id,
        holds: (core.figures(member.id)).map_or(Subtree::default(), |figures| figures.subtree),
        beside: None,
    }));
    let of = |part: &Part| members.get(part.id).and_then(limit);
    parts.sort_unstable_by(|one, other| of(one).cmp(&of(other)));
    for groups in parts.chunk_by_mut(|one, other| of(one) == of(other)) {
        divide_one(groups, sensed);
    }
    for part in parts {
        if let Some((member, bytes)) = members.get_mut(part.id).zip(part.beside) {
            member.beside = bytes;
        }
    }
}

/// Divides between the groups of one limit. `sensed` is ordered by id.
fn divide_one(groups: &mut [Part], sensed: &mut [SensedPrincipal]) {
    for at in 0..groups.len() {
        let (before, after) = (&groups[..at], &groups[at + 1..]);
        let others = before.iter().chain(after).map(|group| group.holds);
        if let Ok(place) = sensed.binary_search_by_key(&groups[at].id, |one| one.id)
            && let Some(domain) = &mut sensed[place].domain
        {
            let whole = *domain;
            *domain = whole.part_beside(others);
            groups[at].beside = Some(whole.used - domain.used);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocations;
    use crate::decide::SensedDomain;

    #[test]
    fn each_group_has_what_the_others_leave_and_nothing_is_allocated() {
        let part = |id, uses| Part {
            id,
            holds: Subtree {
                uses,
                ..Subtree::default()
            },
            beside: None,
        };
        let mut groups = [part(9, 10), part(2, 30), part(4, 100)];
        let whole = SensedDomain {
            capacity: Bytes(120),
            used: Bytes(140),
            ..SensedDomain::default()
        };
        let group = |id| SensedPrincipal {
            id,
            domain: Some(whole),
            ..SensedPrincipal::default()
        };
        // The last group was not sensed; a program between the groups has no limit.
        let program = SensedPrincipal {
            id: 3,
            ..SensedPrincipal::default()
        };
        let mut sensed = [group(2), program, group(9)];
        let before = allocations::count();
        divide_one(&mut groups, &mut sensed);
        assert_eq!(allocations::count(), before);
        let beside = groups.each_ref().map(|group| group.beside);
        assert_eq!(beside, [Some(Bytes(130)), Some(Bytes(110)), None]);
        // A third of the limit belongs to each, so no group pays for a larger one.
        let (second, ninth) = (sensed[0].domain.unwrap(), sensed[2].domain.unwrap());
        assert_eq!(
            (second.capacity, second.used),
            (Bytes(120 - 10 - 40), Bytes(30))
        );
        assert_eq!(
            (ninth.capacity, ninth.used),
            (Bytes(120 - 30 - 40), Bytes(10))
        );
        assert!(sensed[1].domain.is_none());
    }
}
