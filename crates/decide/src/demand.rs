//! Demand: how much memory of its own a principal can use.
//!
//! - Without a live process: nothing.
//! - Passive: its use, some headroom, and its expected growth.
//! - Adaptive: at most what its adapter says. Where its collector is known, no more than the size
//!   at which collections take less than a thousandth of its time, so an idle program wants
//!   little. A program that grows fast wants the size it is about to reach: it has become active,
//!   and its adapter has not reported that yet.
//!
//! Without lending no collector counts as known. A newcomer does not lend.
//!
//! While all demands fit, nobody is asked to give anything up.

use super::node::{Node, Reported};
use plimsoll_policy::shares::{Collector, useful_demand};
use plimsoll_unit::{MIB, Nanos};
use plimsoll_wire::messages::Kind;

const HEADROOM_LEAST: u64 = 16 * MIB;
/// Thousandths of a program's time spent in collections; below this more memory is of no use.
const COLLECTING: u32 = 1;
/// Likewise, the collection time at which a program lends part of its guarantee. Lending can so
/// cost it at most a twentieth of its time.
const LENDING: u32 = 50;
/// Growth within [`HORIZON`] by less than this part of its use (a quarter) does not count as waking
/// up.
const WAKING: u64 = 4;
/// A program is a newcomer for this long: its figures are those of its start, when it has not
/// all of its memory and others take its processor.
const NEW: Nanos = Nanos::seconds(10);
/// It also is one until the figures of its collector were reported this often.
const FEW_REPORTS: u8 = 2;
/// An allocation rate is multiplied by this at most for the time in which the program waited for a processor,
/// thousandths.
const MOST_WANTED: u32 = 8000;
/// A collector that is this many times faster than its program allocates takes a sixty-fourth of the time
/// with a sixteenth of what lives as room.
const FAST: u64 = 1024;
/// A rate that changes by this factor, 2.5, is another one.
const MUCH: (u64, u64) = (5, 2);
/// The same of what memory is worth to a cache, 1.25: it follows a new limit without a collection.
const MUCH_OF_CACHE: (u64, u64) = (5, 4);
/// How far ahead growth is counted.
pub(super) const HORIZON: Nanos = Nanos::seconds(1);

/// Bytes that a principal wants for itself, whatever it has now; not smoothed.
pub(super) fn wanted(node: &Node, now: Nanos) -> u64 {
    match node.origin.kind {
        Kind::Group => 0,
        // Without a process there is no program whose report could be believed.
        Kind::Process if node.sensed.absent => 0,
        Kind::Process if node.adaptive => {
            let rate = node.adapter.collector.allocation_rate;
            let collector = Collector {
                allocation_rate: node.adapter.rhythm.demanded(rate, now),
                ..node.adapter.collector
            };
            let told = adaptive(&node.reported(), &collector);
            told.max(waking(node.sensed.uses, node.trend(HORIZON)))
        }
        Kind::Process => passive(node.sensed.uses, node.trend(HORIZON)),
    }
}

fn passive(uses: u64, trend: i64) -> u64 {
    with_headroom(uses).saturating_add(trend.max(0) as u64)
}

fn waking(uses: u64, trend: i64) -> u64 {
    let growth = trend.max(0) as u64;
    if growth > uses / WAKING {
        uses.saturating_add(growth)
    } else {
        0
    }
}

fn adaptive(reported: &Reported, collector: &Collector) -> u64 {
    let most = reported.demand.unwrap_or(u64::MAX);
    let least = reported.floor.unwrap_or(0);
    useful(reported, collector)
        .map_or(most, |useful| useful.min(most))
        .max(least)
}

/// Heap size in bytes beyond which more memory saves too little collection time to matter. `None`
/// while the collector is unknown, and for caches: one that is still filling, or asks for keys in turn, gains
/// nothing by a little more memory, and much by a lot.
fn useful(reported: &Reported, collector: &Collector) -> Option<u64> {
    let room = room(COLLECTING, collector).filter(|_| !reported.is_cache())?;
    Some(with_headroom(floor(reported, collector)).saturating_add(room))
}

/// Size in bytes beyond which a program lends its guarantee; `u64::MAX` when it lends nothing. A cache tells
/// what more memory would save, and not what less would cost, so it lends nothing.
pub(super) fn modest(node: &Node, now: Nanos) -> u64 {
    let lends = node.adaptive && !is_new(node, now) && !node.adapter.reported.is_cache();
    let room = room(LENDING, &node.adapter.collector).filter(|_| lends);
    room.map_or(u64::MAX, |room| {
        floor(&node.reported(), &node.adapter.collector).saturating_add(room)
    })
}

/// Bytes of room for garbage with which collections take `permille` thousandths of the time. `None`
/// while the collector is unknown.
fn room(permille: u32, collector: &Collector) -> Option<u64> {
    let room = useful_demand(collector, permille)
        .0
        .checked_sub(collector.live);
    room.filter(|_| collector.is_known())
}

/// Bytes below which the program cannot go: other memory counts as well as live objects.
fn floor(reported: &Reported, collector: &Collector) -> u64 {
    reported.floor.unwrap_or(0).max(collector.live)
}

fn with_headroom(bytes: u64) -> u64 {
    bytes.saturating_add((bytes / 8).max(HEADROOM_LEAST))
}

/// Smooths a demand: rises follow at once, falls only when they are large.
pub(super) fn steadied(held: u64, new: u64) -> u64 {
    let band = (held / 16).max(MIB);
    if new > held || new == 0 || new.saturating_add(band) < held {
        new
    } else {
        held
    }
}

/// Smooths the size beyond which memory is lent, in both directions, because each change moves
/// memory of all members.
pub(super) fn calmed(held: u64, new: u64) -> u64 {
    if held.abs_diff(new) > held / 8 {
        new
    } else {
        held
    }
}

/// Whether a program is a newcomer.
fn is_new(node: &Node, now: Nanos) -> bool {
    now - node.origin.begun < NEW || node.adapter.reports < FEW_REPORTS
}

/// The allocation rate that a program would have if it got all the processor time that it wants, bytes per
/// second. By what it obtains, the memory of a program would follow how many others compute beside it.
fn wanted_rate(rate: u64, wanted: u32) -> u64 {
    let wanted = wanted.clamp(1000, MOST_WANTED);
    rate.saturating_mul(wanted.into()) / 1000
}

/// Takes over the collector's figures, only when one of them moved much, so that the square-root rule
/// does not move memory because of noise. A rate that is wrong by half makes the room differ by a
/// quarter from the best. That costs a thirtieth more collection time: less than the collections by
/// which a heap follows a new limit.
///
/// Another rate counts only when it [stays](super::allocation_rhythm). A program that pauses or works for a
/// moment would move memory, and move it back, by collections of its own and of others.
pub(super) fn steady_collector(node: &mut Node, now: Nanos) {
    let (held, reported) = (node.adapter.collector, &node.adapter.reported);
    let is_cache = reported.is_cache();
    let mut new = match reported.cache.filter(|_| is_cache) {
        Some(cache) => Collector::of_cache(reported.floor.unwrap_or(0), cache.size, cache.worth),
        None => Collector {
            live: reported.told.live.unwrap_or(0),
            allocation_rate: wanted_rate(reported.allocation_rate.unwrap_or(0), node.sensed.wanted),
            collection_speed: reported.collection_speed.unwrap_or(0),
        },
    };
    // Rates that need hardly any room are alike.
    let least = new.collection_speed / FAST;
    let much = if is_cache { MUCH_OF_CACHE } else { MUCH };
    let differs = |old: u64, new: u64| turned(old.max(least), new.max(least), much);
    let differ = differs(held.allocation_rate, new.allocation_rate);
    let counts = node.adapter.rhythm.turns(
        held.allocation_rate,
        new.allocation_rate,
        differ && new.is_known(),
        now,
    );
    if held.is_known() && differ && !counts {
        new.allocation_rate = held.allocation_rate;
    }
    let moved = held.live.abs_diff(new.live) > held.live / 8
        || differs(held.allocation_rate, new.allocation_rate)
        || turned(held.collection_speed, new.collection_speed, MUCH);
    if moved {
        node.adapter.collector = new;
    }
}

/// Whether a rate changed by this factor, a fraction, up or down.
fn turned(old: u64, new: u64, (numerator, denominator): (u64, u64)) -> bool {
    let (less, more) = (old.min(new), old.max(new));
    more.saturating_mul(denominator) > less.saturating_mul(numerator)
}
