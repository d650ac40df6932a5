//! Caches among collectors: beyond what each keeps, one more byte is worth as much to all.

use super::{Collector, Principal, decide, simple};
use plimsoll_unit::MIB;
use proptest::prelude::*;

/// Seconds per second that one more byte saves a collector with this much memory.
fn worth(collector: &Collector, size: u64) -> f64 {
    let room = (size - collector.live) as f64;
    let speed = collector.collection_speed as f64;
    collector.live as f64 / speed * collector.allocation_rate as f64 / room / room
}

#[test]
fn a_cache_is_worth_what_it_says_at_its_size() {
    for (floor, size, told) in [
        (16, 200, 5_000_000),
        (0, 64, 1000),
        (1000, 1001, 1 << 30),
        (1, 1 << 20, 77),
    ] {
        let cache = Collector::of_cache(floor * MIB, size * MIB, told);
        let per_mib = worth(&cache, size * MIB) * MIB as f64 * 1e9;
        let error = (per_mib / told as f64 - 1.0).abs();
        assert!(error < 0.01, "{floor}, {size}: {per_mib} for {told}");
    }
}

#[test]
fn no_report_is_too_absurd() {
    for size in [0, 1, MIB, u64::MAX] {
        for floor in [0, 1, size, u64::MAX] {
            for told in [0, 1, u64::MAX] {
                let cache = Collector::of_cache(floor, size, told);
                assert!(cache.is_known(), "{floor}, {size}, {told}");
            }
        }
    }
}

proptest! {
    /// Nobody wants more than there is, and nobody keeps anything that it would not miss.
    #[test]
    fn one_more_byte_is_worth_as_much_to_all(
        caches in prop::collection::vec((0..64u64, 65..500u64, 1_000..1_000_000_000u64), 1..6),
        heap in (1..64u64, 1..2000u64),
    ) {
        let (live, rate) = heap;
        let heap = Collector {
            live: live * MIB,
            allocation_rate: rate * MIB,
            collection_speed: 1000 * MIB,
        };
        let cache = |&(floor, size, told): &(u64, u64, u64)| {
            Collector::of_cache(floor * MIB, size * MIB, told)
        };
        let collectors: Vec<Collector> = caches.iter().map(cache).chain([heap]).collect();
        let one = |&collector: &Collector| Principal {
            collector,
            modest: collector.live,
            ..simple(100, 0, u64::MAX)
        };
        let principals: Vec<Principal> = collectors.iter().map(one).collect();
        let shares = decide(&principals, 4 << 30);
        let worths: Vec<f64> = collectors
            .iter()
            .zip(&shares)
            .map(|(collector, share)| worth(collector, share.target))
            .collect();
        let (least, most) = worths.iter().fold((f64::MAX, 0.0_f64), |(least, most), &worth| {
            (least.min(worth), most.max(worth))
        });
        prop_assert!(most / least < 1.05, "{worths:?}, {shares:?}");
    }
}
