//! The end of a collection, after the sweep: gives back memory that is not needed, pages out what there is
//! no room for, and sets how far the heap may grow.

use crate::cycle::Settled;
use crate::footprint::{Surroundings, growth};
use crate::front_end::{Conditions, Scanned};
use crate::pace::{Ended, Growth, Pace};
use crate::young::Young;
use plimsoll_heap::collection::Counted;
use plimsoll_heap::mark::{Marker, Space};
use plimsoll_heap::{Central, Heap, SUPERPAGE};

/// The parts of a collector that the end of a collection changes.
pub(crate) struct Parts<'a, 'm, S: Space> {
    pub(crate) heap: &'a Heap,
    pub(crate) central: &'a mut Central,
    pub(crate) marker: &'a mut Marker<'m, S>,
    pub(crate) pace: &'a mut Pace,
    pub(crate) surroundings: &'a mut Surroundings,
    pub(crate) young: &'a mut Young,
}

/// Settles a collection. `reserve`: bytes of the growth to keep for the steps of the next one.
pub(crate) fn settle<S: Space>(
    parts: Parts<'_, '_, S>,
    counted: &Counted<'_>,
    ended: &Ended<'_>,
    reserve: usize,
    (conditions, scanned): (&Conditions, &Scanned),
) -> Settled {
    let Parts {
        heap,
        central,
        marker,
        pace,
        surroundings,
        young,
    } = parts;
    // Where memory was not short, free memory that is in swap is dropped, and the rest stays for now.
    let fills = pace.fills(central);
    let keeps = !surroundings.short && !surroundings.is_cliff();
    let keep = if keeps { usize::MAX } else { fills };
    let (mut given, mut idle) = central.give_back(heap, keep);
    let note = young.note(ended);
    let by_rule = Pace::allowance(ended.found, conditions);
    let told = ended.told(young.mean_cost(ended.young, &note), by_rule);
    let usual = surroundings.allowance(by_rule, &told);
    // A collection of young objects covers only a part of the way to the next whole one, for which
    // there has to be room.
    let (decision, cliff) = surroundings.decide(central, pace, ended, &told, usual, idle);
    let usual = if cliff || decision.short {
        usual
    } else {
        // The policy allows more than libgc's rule, and there is room for it.
        usual.max(surroundings.worth(ended.found, &told, decision.most, conditions))
    };
    let left = ended.young.then(|| young.after_young(&note)).flatten();
    let allowance = left.map_or(usual, |left| usual.min(left));
    let scarce = cliff || decision.short || ended.residency.evicted > 0;
    heap.set_scarce(scarce);
    if scarce && idle > fills {
        given += central.give_back(heap, fills).0;
        idle = fills;
    }
    surroundings.short = decision.short && !cliff;
    surroundings.tight = cliff && (decision.short || Pace::growth(ended.found, usual) == 0);
    let mut paged_out = 0;
    if surroundings.short || ended.residency.evicted > 0 {
        let most = decision.shed.length() / SUPERPAGE;
        paged_out = counted.page_out(central, marker, most);
        heap.cool(central);
    }
    let absent = ended.residency.absent + paged_out;
    surroundings.held.settle(absent, central.used(), idle);
    let wanted = Pace::growth(ended.found, allowance);
    pace.note_holes(ended.found, allowance);
    let granted = surroundings.is_granted();
    let growth = Growth {
        cliff,
        finalizes: scanned.finalizes,
        ..growth(&decision, paged_out, (allowance, wanted), granted, ended)
    };
    pace.grow(central, ended.allocated, &growth, reserve);
    if !ended.young {
        // This allowance includes the reserve for the steps of the next collection, which is set
        // aside only once.
        young.after_whole(&note, growth.allowance);
    }
    let (held, fills) = (&mut surroundings.held, pace.fills(central));
    given += held.give_back_unused(heap, central, fills, scarce);
    Settled { given, paged_out }
}
