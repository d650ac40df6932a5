//! `List` and `Watch`.

use super::Daemon;
use super::fair_listing::choose;
use crate::config::MAX_PRINCIPALS;
use crate::decide::Figures;
use crate::principals::Member;
use crate::server::epoll::Slot;
use crate::server::reply::again;
use plimsoll_kernel::clock;
use plimsoll_unit::Nanos;
use plimsoll_wire::messages::{Id, Listing, Principal};
use plimsoll_wire::varlink::MAX_REPLY;
use serde_json::value::{RawValue, to_raw_value};
use std::collections::HashMap;

/// Most bytes of a reply outside the principals of its listing.
const AROUND: usize = 64 << 10;
/// Most bytes of one principal in a listing, provided the path of its page is no longer than that
/// of a socket may be.
const LARGEST: usize = 1600;
/// Most principals in a listing: all that the broker accepts by default, and as many groups.
const MOST: usize = (MAX_REPLY - AROUND) / LARGEST;
const _: () = assert!(MOST > 2 * MAX_PRINCIPALS);
/// The name of a principal whose name is not told.
const HIDDEN: &str = "another user's";

impl Daemon {
    /// The encoded listing for a user: as of the last tick and of every answered call.
    pub(super) fn listing(&mut self, uid: u32) -> Option<&RawValue> {
        let now = clock::now();
        let named_for = self.named_for(uid);
        self.serving.shown().renew(now, self.timers.next_tick());
        if self.serving.shown().of(named_for).is_none() {
            let encoded = self.encode_listing(now, named_for)?;
            self.serving.shown().keep(named_for, encoded);
        }
        let shown = self.serving.shown();
        shown.use_it();
        shown.of(named_for)
    }

    /// The user to whom only its own principals are named; `None` for one who is told all names.
    fn named_for(&self, uid: u32) -> Option<u32> {
        let sees_all = self.settings.is_ruler(uid) || self.settings.shows_others;
        (!sees_all).then_some(uid)
    }

    /// A principal in a message to a user: its id, and its name if that user may know it.
    pub(super) fn called(&self, member: &Member, uid: u32) -> String {
        if self.named_for(uid).is_none_or(|uid| member.owner.is(uid)) {
            format!("principal {} ({})", member.id, member.name)
        } else {
            format!("principal {}", member.id)
        }
    }

    /// Encodes the listing; never longer than a reply may be.
    fn encode_listing(&mut self, now: Nanos, named_for: Option<u32>) -> Option<Box<RawValue>> {
        let mut most = MOST;
        loop {
            let encoded = to_raw_value(&self.make_listing(now, most, named_for)).ok()?;
            if most == 0 || encoded.get().len() <= MAX_REPLY - AROUND {
                return Some(encoded);
            }
            most /= 2;
        }
    }

    fn make_listing(&mut self, now: Nanos, most: usize, named_for: Option<u32>) -> Listing {
        let domain = self.core.domain(None).unwrap_or_default();
        let all: Vec<Figures> = self.core.iter().collect();
        let count = all.len();
        let members = &mut self.members;
        let figures = choose(all, most, |id| {
            members.get(id).map(|member| member.owner.uid)
        });
        let left_out = count.saturating_sub(figures.len());
        let shown = figures.iter().filter_map(|figures| {
            let member = members.get_mut(figures.id)?;
            let shown = member.show(figures, now);
            let shown = if named_for.is_none_or(|uid| member.owner.is(uid)) {
                shown
            } else {
                nameless(shown)
            };
            Some((figures.parent, shown))
        });
        Listing {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            capacity: domain.capacity,
            outsiders: domain.outsiders,
            reserve: domain.reserve.saturating_add(domain.expected),
            budget: domain.budget,
            domain: self.sensing.domain().name(),
            unseen: self.sensing.domain().is_unseen(),
            principals: nest(shown.collect()),
            left_out: left_out as u64,
            pinned: self.acting.pinned().cloned(),
            revocations: self.core.revocations(),
            refaulted: self.acting.refaulted(),
        }
    }

    /// Sends a listing if this is a watcher that is due. One that has not read the last listing is
    /// skipped.
    pub(super) fn show_again(&mut self, slot: Slot, now: Nanos) {
        let watcher = self.serving.take_watcher(slot, now);
        let Some(uid) = watcher.filter(|&uid| self.time.may(uid, now)) else {
            return;
        };
        let encoded = again(&self.listing(uid));
        if let Ok(encoded) = encoded {
            self.send(slot, &encoded, now);
        }
    }
}

/// A principal as those see it who may not know what it is: its sizes, which tell where the memory is.
fn nameless(principal: Principal) -> Principal {
    Principal {
        name: HIDDEN.to_owned(),
        pid: None,
        uid: None,
        adapter: None,
        collector: None,
        page: None,
        ..principal
    }
}

/// Nests principals (parents before their children) under their parents.
fn nest(flat: Vec<(Option<Id>, Principal)>) -> Vec<Principal> {
    let mut children: HashMap<Option<Id>, Vec<Principal>> = HashMap::new();
    // Backwards: all children of a principal come before it.
    for (parent, mut principal) in flat.into_iter().rev() {
        principal.children = children.remove(&Some(principal.id)).unwrap_or_default();
        principal.children.reverse();
        children.entry(parent).or_default().push(principal);
    }
    let mut top = children.remove(&None).unwrap_or_default();
    top.reverse();
    top
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_wire::checks;
    use plimsoll_wire::messages::{
        Kind, Order, Priority, Refaults, Revocations, Statistics, Weight,
    };
    use plimsoll_wire::page::Level;

    #[test]
    fn children_stand_under_their_parents_in_order() {
        let principal = |id| Principal {
            id,
            ..Principal::default()
        };
        let flat = vec![
            (None, principal(1)),
            (Some(1), principal(2)),
            (Some(2), principal(3)),
            (Some(1), principal(4)),
            (None, principal(5)),
        ];
        let tree = nest(flat);
        assert_eq!(tree.iter().map(|p| p.id).collect::<Vec<_>>(), [1, 5]);
        assert_eq!(
            tree[0].children.iter().map(|p| p.id).collect::<Vec<_>>(),
            [2, 4]
        );
        assert_eq!(tree[0].children[0].children[0].id, 3);
    }

    #[test]
    fn what_another_users_principal_is_may_be_hidden_and_its_sizes_are_told() {
        let hidden = nameless(Principal {
            id: 7,
            name: "secret".into(),
            pid: Some(9),
            adapter: Some("hotspot".into()),
            page: Some("/p".into()),
            uses: 5,
            limit: 6,
            ..Principal::default()
        });
        assert_eq!((hidden.id, hidden.uses, hidden.limit), (7, 5, 6));
        assert_eq!(hidden.name, HIDDEN);
        assert!(hidden.pid.is_none() && hidden.adapter.is_none() && hidden.page.is_none());
    }

    #[test]
    fn the_largest_principal_is_as_large_as_is_reckoned_with() {
        let most = Some(u64::MAX);
        let largest = Principal {
            id: u64::MAX,
            name: "\"".repeat(checks::MAX_NAME),
            pid: Some(u32::MAX),
            uid: Some(u32::MAX),
            kind: Kind::Process,
            adapter: Some("a".repeat(checks::MAX_ADAPTER)),
            weight: Weight::MOST.get(),
            priority: Priority::LEAST.get(),
            uses: u64::MAX,
            limit: u64::MAX,
            available: u64::MAX,
            owed: u64::MAX,
            share: u64::MAX,
            max: most,
            working_set: most,
            swapped: u64::MAX,
            major_faults: u64::MAX,
            refaults: Some(Refaults {
                file: u64::MAX,
                anon: u64::MAX,
                file_ns: most,
                anon_ns: most,
                swappiness: Some(200),
            }),
            revocations: Revocations {
                asked: u64::MAX,
                paged_out: u64::MAX,
                taken: u64::MAX,
                bound: u64::MAX,
                missed: u64::MAX,
            },
            level: Level::Critical,
            live: most,
            collections: most,
            collection_ms: most,
            stall_rate: most,
            doubted: false,
            demand: u64::MAX,
            target: u64::MAX,
            lacks: u64::MAX,
            at_least: false,
            collector: Some(Statistics {
                heap: most,
                last_pause_us: most,
                longest_pause_us: most,
                faults: most,
                absent: most,
                summaries: most,
                retained: most,
                order: Some(Order::Withdrawn),
            }),
            page: Some("/".repeat(107)),
            children: Vec::new(),
        };
        let encoded = to_raw_value(&largest).unwrap();
        // Including a comma.
        assert!(encoded.get().len() < LARGEST, "{}", encoded.get().len());
    }

    #[test]
    fn a_shared_listing_is_encoded_as_one_that_is_made_anew() {
        let listing = Listing {
            capacity: 7,
            principals: vec![Principal {
                name: "\"quoted\" \u{e9}".into(),
                ..Principal::default()
            }],
            ..Listing::default()
        };
        let raw = to_raw_value(&listing).ok();
        let shared = again(&raw.as_deref()).unwrap();
        assert_eq!(shared, again(&listing).unwrap());
    }
}
