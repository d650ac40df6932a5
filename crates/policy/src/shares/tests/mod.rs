//! Properties of every decision, tried on random trees, and the paper's algorithms, transcribed
//! literally.

mod algorithms;
mod caches;
mod calls;
mod literal;
mod rest;
mod safety;
mod tenants;

use super::{Collector, Principal, Share, Shares};
use plimsoll_unit::Bytes;
use proptest::prelude::*;

/// A principal at the top with round figures.
pub(super) fn simple(weight: u32, uses: u64, demand: u64) -> Principal {
    Principal {
        parent: None,
        weight,
        priority: 0,
        own_weight: 1,
        own_priority: 0,
        uses,
        working_set: 0,
        trend: 0,
        demand,
        max: u64::MAX,
        last_limit: 0,
        last_target: 0,
        reach: u64::MAX,
        claims: 0,
        slight: 0,
        least: 0,
        waits: true,
        modest: u64::MAX,
        collector: Collector::default(),
        lasts_ms: 20_000,
        resizing_ms: 0,
        apart: false,
    }
}

pub(super) fn decide(principals: &[Principal], budget: u64) -> Vec<Share> {
    Shares::default().decide(principals, Bytes(budget)).to_vec()
}

/// Sizes, among them the awkward ones.
fn size() -> impl Strategy<Value = u64> {
    prop_oneof![3 => 0..1u64 << 32, 2 => 0..200u64, 1 => Just(0), 1 => Just(1 << 30)]
}

fn boundless() -> impl Strategy<Value = u64> {
    prop_oneof![2 => size(), 1 => Just(u64::MAX)]
}

fn weight() -> impl Strategy<Value = u32> {
    prop_oneof![2 => 1..100u32, 1 => Just(1), 1 => Just(10_000)]
}

fn collector() -> impl Strategy<Value = Collector> {
    let known = (1..1u64 << 30, 0..1u64 << 30, 1..1u64 << 31).prop_map(
        |(live, allocation_rate, collection_speed)| Collector {
            live,
            allocation_rate,
            collection_speed,
        },
    );
    prop_oneof![Just(Collector::default()), known]
}

fn principal() -> impl Strategy<Value = Principal> {
    let place = (weight(), -1..2i32, weight(), -1..2i32);
    let sizes = (
        size(),
        size(),
        -(1i64 << 31)..1 << 31,
        boundless(),
        boundless(),
        size(),
        boundless(),
    );
    (place, sizes, collector()).prop_map(|(place, sizes, collector)| Principal {
        parent: None,
        weight: place.0,
        priority: place.1,
        own_weight: place.2,
        own_priority: place.3,
        uses: sizes.0,
        working_set: sizes.1,
        trend: sizes.2,
        demand: sizes.3,
        max: sizes.4,
        last_limit: sizes.5,
        last_target: 0,
        reach: u64::MAX,
        claims: 0,
        slight: 0,
        least: 0,
        waits: true,
        modest: sizes.6,
        collector,
        lasts_ms: 20_000,
        resizing_ms: 0,
        apart: false,
    })
}

/// A forest of up to `most` principals.
pub(super) fn forest(most: usize) -> impl Strategy<Value = Vec<Principal>> {
    prop::collection::vec((principal(), any::<u32>()), 1..most).prop_map(|drawn| {
        let place = |(i, (p, parent)): (usize, (Principal, u32))| {
            // About a third stand at the top.
            let parent = (parent % 3 > 0 && i > 0).then(|| parent / 3 % i as u32);
            Principal { parent, ..p }
        };
        drawn.into_iter().enumerate().map(place).collect()
    })
}

/// Up to `most` principals at the top.
pub(super) fn flat(most: usize) -> impl Strategy<Value = Vec<Principal>> {
    prop::collection::vec(principal(), 1..most)
}

pub(super) fn budget() -> impl Strategy<Value = u64> {
    size()
}

/// Sums of a figure over each subtree.
pub(super) fn subtrees(principals: &[Principal], figure: impl Fn(usize) -> u64) -> Vec<u64> {
    let mut sums: Vec<u64> = (0..principals.len()).map(figure).collect();
    for i in (0..principals.len()).rev() {
        if let Some(parent) = principals[i].parent {
            sums[parent as usize] += sums[i];
        }
    }
    sums
}
