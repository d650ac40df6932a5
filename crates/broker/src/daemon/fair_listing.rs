//! Chooses the principals of a listing when not all fit into a reply: equally many of each user, as
//! far as the user has that many. A user with many principals cannot push out those of another.

use crate::decide::Figures;
use plimsoll_wire::messages::Id;
use std::collections::{BTreeMap, HashMap};

/// The principals of `all` (parents before their children) to show, at most `most`, each under its
/// nearest shown ancestor. `owner` gives the user of a principal.
pub(super) fn choose(
    all: Vec<Figures>,
    most: usize,
    owner: impl Fn(Id) -> Option<u32>,
) -> Vec<Figures> {
    if all.len() <= most {
        return all;
    }
    let owned: Vec<(Figures, u32)> = all
        .into_iter()
        .filter_map(|figures| Some((figures, owner(figures.id)?)))
        .collect();
    let mut left = quotas(owned.iter().map(|(_, uid)| *uid), most);
    // For each principal, shown or not, the parent for the shown principals below it: itself if
    // shown, otherwise its nearest shown ancestor.
    let mut place: HashMap<Id, Option<Id>> = HashMap::with_capacity(owned.len());
    let mut shown = Vec::with_capacity(most);
    for (mut figures, uid) in owned {
        let above = figures
            .parent
            .and_then(|parent| place.get(&parent).copied().flatten());
        match left.get_mut(&uid).filter(|left| **left > 0) {
            Some(left) => {
                *left -= 1;
                place.insert(figures.id, Some(figures.id));
                figures.parent = above;
                shown.push(figures);
            }
            None => {
                place.insert(figures.id, above);
            }
        }
    }
    shown
}

/// Number of principals to show per user: all of them, or an equal part of what users with fewer
/// leave.
fn quotas(owners: impl Iterator<Item = u32>, most: usize) -> HashMap<u32, usize> {
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    for uid in owners {
        *counts.entry(uid).or_default() += 1;
    }
    let mut fewest_first: Vec<(u32, usize)> = counts.into_iter().collect();
    fewest_first.sort_by_key(|(_, count)| *count);
    let users = fewest_first.len();
    let mut left = most;
    let quota = |(index, (uid, count)): (usize, (u32, usize))| {
        let quota = count.min(left / (users - index));
        left -= quota;
        (uid, quota)
    };
    fewest_first.into_iter().enumerate().map(quota).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn figures(id: Id, parent: Option<Id>) -> Figures {
        Figures {
            id,
            parent,
            ..Figures::default()
        }
    }

    #[test]
    fn one_users_many_do_not_push_anothers_out() {
        // A thousand principals of user 7, one of user 8, three of user 9.
        let owner = |id: Id| match id {
            500 => Some(8),
            1002..=1004 => Some(9),
            _ => Some(7),
        };
        let all: Vec<Figures> = (1..=1004).map(|id| figures(id, None)).collect();
        assert_eq!(choose(all.clone(), 1004, owner).len(), 1004);
        let shown = choose(all, 10, owner);
        let ids: Vec<Id> = shown.iter().map(|figures| figures.id).collect();
        assert_eq!(ids, [1, 2, 3, 4, 5, 6, 500, 1002, 1003, 1004]);
    }

    #[test]
    fn who_stands_under_one_that_is_not_shown_stands_under_the_next_above() {
        // A chain 1 - 2 - 3 - 4, in which 2 and 3 belong to a user with too many.
        let all = vec![
            figures(8, None),
            figures(9, None),
            figures(1, None),
            figures(2, Some(1)),
            figures(3, Some(2)),
            figures(4, Some(3)),
        ];
        let owner = |id: Id| Some(if matches!(id, 1 | 4) { 8 } else { 7 });
        let shown = choose(all, 4, owner);
        let places: Vec<(Id, Option<Id>)> = shown
            .iter()
            .map(|figures| (figures.id, figures.parent))
            .collect();
        assert_eq!(places, [(8, None), (9, None), (1, None), (4, Some(1))]);
    }

    proptest! {
        #[test]
        fn every_user_has_its_part(
            counts in prop::collection::vec(1usize..200, 1..20),
            most in 20usize..400,
        ) {
            let owners = counts.iter().enumerate().flat_map(|(uid, count)| vec![uid as u32; *count]);
            let quotas = quotas(owners, most);
            let total: usize = counts.iter().sum();
            prop_assert_eq!(quotas.values().sum::<usize>(), total.min(most));
            for (uid, count) in counts.iter().enumerate() {
                let part = most / counts.len();
                prop_assert!(quotas[&(uid as u32)] >= part.min(*count));
            }
        }
    }
}
