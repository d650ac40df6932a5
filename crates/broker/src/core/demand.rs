//! How much of its own memory a principal can make use of.
//!
//! - Without a living process: nothing.
//! - Passive: what it uses, some headroom, and what it is about to grow by.
//! - Adaptive: what its adapter says at the most; where its collector is known, no more than what
//!   keeps collecting below a thousandth of its time. An idle program therefore wants little. One
//!   that grows fast wants what it is about to have: it has woken, and its adapter has not told
//!   yet.
//!
//! While everybody's wish fits, nobody is asked to give up what it has.

use super::Nanos;
use super::node::{Node, Reported};
use plimsoll_policy::shares::{Collector, useful_demand};
use plimsoll_wire::messages::Kind;

/// Bytes.
const MIB: u64 = 1 << 20;
const HEADROOM_LEAST: u64 = 16 * MIB;
/// Thousandths of its time in collections below which more memory is of no use.
const COLLECTING: u32 = 1;
/// The same with which a program lends what it is guaranteed: a twentieth of its time bounds what
/// others can cost it.
const LENDING: u32 = 50;
/// Growth within [`HORIZON`] by less than this part is no waking: a quarter.
const WAKING: u64 = 4;
/// How far ahead growth is taken into account.
pub(super) const HORIZON: Nanos = 1_000_000_000;

/// What a principal wants for itself, whatever it has now; not steadied.
pub(super) fn wanted(node: &Node) -> u64 {
    match node.kind {
        Kind::Group => 0,
        // Without a process there is also no program whose report could be believed.
        Kind::Process if node.absent => 0,
        Kind::Process if node.adaptive => {
            let told = adaptive(&node.reported, &node.collector);
            told.max(waking(node.uses, node.trend(HORIZON)))
        }
        Kind::Process => passive(node.uses, node.trend(HORIZON)),
    }
}

fn passive(uses: u64, trend: i64) -> u64 {
    with_headroom(uses).saturating_add(trend.max(0) as u64)
}

fn waking(uses: u64, trend: i64) -> u64 {
    let growth = trend.max(0) as u64;
    match growth > uses / WAKING {
        true => uses.saturating_add(growth),
        false => 0,
    }
}

fn adaptive(reported: &Reported, collector: &Collector) -> u64 {
    let most = reported.demand.unwrap_or(u64::MAX);
    let least = reported.floor.unwrap_or(0);
    useful(reported, collector)
        .map_or(most, |useful| useful.min(most))
        .max(least)
}

/// Beyond this, collecting costs less than it is worth to anybody. `None` while the collector is not known.
fn useful(reported: &Reported, collector: &Collector) -> Option<u64> {
    let room = room(COLLECTING, collector)?;
    Some(with_headroom(floor(reported, collector)).saturating_add(room))
}

/// With so much a program lends the rest of what it is guaranteed.
pub(super) fn modest(node: &Node) -> u64 {
    let room = room(LENDING, &node.collector).filter(|_| node.adaptive);
    room.map_or(u64::MAX, |room| {
        floor(&node.reported, &node.collector).saturating_add(room)
    })
}

/// The room for garbage with which it spends `permille` thousandths of its time in collections.
/// `None` while the collector is not known.
fn room(permille: u32, collector: &Collector) -> Option<u64> {
    let room = useful_demand(collector, permille).checked_sub(collector.live);
    room.filter(|_| collector.is_known())
}

/// What a program holds besides its live objects needs room as well.
fn floor(reported: &Reported, collector: &Collector) -> u64 {
    reported.floor.unwrap_or(0).max(collector.live)
}

fn with_headroom(bytes: u64) -> u64 {
    bytes.saturating_add((bytes / 8).max(HEADROOM_LEAST))
}

/// Follows `new` without its noise: up at once, down when it is well below.
pub(super) fn steadied(held: u64, new: u64) -> u64 {
    let band = (held / 16).max(MIB);
    if new > held || new == 0 || new.saturating_add(band) < held {
        new
    } else {
        held
    }
}

/// The same for what others are lent by, in both directions: each change moves memory of all.
pub(super) fn calmed(held: u64, new: u64) -> u64 {
    match held.abs_diff(new) > held / 8 {
        true => new,
        false => held,
    }
}

/// The collector's figures, taken over only when one of them moved much: the square-root rule
/// should not move memory for noise. With a rate that is wrong by half, rooms differ by a quarter
/// from the best ones, and that costs a thirtieth of the time in collections: less than those with
/// which a heap follows a new limit.
pub(super) fn steadied_collector(held: Collector, reported: &Reported) -> Collector {
    let new = Collector {
        live: reported.live.unwrap_or(0),
        allocation_rate: reported.allocation_rate.unwrap_or(0),
        collection_speed: reported.collection_speed.unwrap_or(0),
    };
    let moved = held.live.abs_diff(new.live) > held.live / 8
        || turned(held.allocation_rate, new.allocation_rate)
        || turned(held.collection_speed, new.collection_speed);
    if moved { new } else { held }
}

/// By two and a half times, up or down.
fn turned(old: u64, new: u64) -> bool {
    let (less, more) = (old.min(new), old.max(new));
    more.saturating_mul(2) > less.saturating_mul(5)
}
