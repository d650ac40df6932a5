//! When a heap is enlarged: if that saves more time than the collection that does it costs.

use crate::hotspot::control::aim::Aim;
use crate::hotspot::control::collection_budget::Allowance;
use crate::hotspot::control::observation::{Seen, slack};
use crate::hotspot::control::watch::Watch;
use plimsoll_unit::Bytes;

/// How many times its cost a collection has to save to be asked for beyond the share.
const PAYS: f64 = 4.0;

/// Whether the reachable size exceeds the present size `now` (bytes) by enough to be worth a
/// collection.
pub(super) fn grows(
    aim: &Aim,
    now: Bytes,
    seen: &Seen,
    watch: &Watch,
    allowance: &Allowance,
) -> bool {
    let more = aim.reachable - now;
    let worth = watch.saved_ns(more, seen);
    !is_close(aim, now, seen) && worth.is_none_or(|saved| saved > allowance.cost())
}

/// Whether the reachable size exceeds the present size `now` (bytes) by too little to be worth a collection.
/// If the steps between sizes are large, a small change of the basis is not.
pub(super) fn is_close(aim: &Aim, now: Bytes, seen: &Seen) -> bool {
    aim.reachable - now <= slack(seen.limit).max(aim.step / 4)
}

/// Whether the heap can grow by more than a quarter after a change of the limit. That is worth one
/// collection because it saves others.
pub(super) fn is_much_more(aim: &Aim, now: Bytes, seen: &Seen, watch: &Watch) -> bool {
    aim.reachable > now + now / 4 && watch.limit.changed_lately(seen)
}

/// Whether a larger heap soon saves several times the pause time that the collection costs which
/// makes it larger. Then it is worth more than the share of the time that such collections may take:
/// a heap that is too small for its program takes the rest of the time for itself.
pub(super) fn pays(
    aim: &Aim,
    now: Bytes,
    seen: &Seen,
    watch: &Watch,
    allowance: &Allowance,
) -> bool {
    let saved = watch.saved_ns(aim.reachable - now, seen);
    allowance.cost() > 0.0 && saved.is_some_and(|saved| saved > PAYS * allowance.cost())
}
