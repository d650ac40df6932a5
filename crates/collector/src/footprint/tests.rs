//! Decisions, and their effect.

use super::*;
use plimsoll_heap::Residency;
use plimsoll_unit::index::MIB;
use std::time::Duration;

/// The allowance is the room that there is, plus the holes, which a heap fills without growing.
#[test]
fn holes_are_filled_where_memory_is_short_too() {
    let seen = Seen {
        ended: sizing::Ended {
            live: Bytes::mib(100),
            growth: Bytes::mib(50),
            ..sizing::Ended::default()
        },
        holes: Bytes::ZERO,
        bound: Bound::Domain {
            capacity: Bytes::mib(128),
            free: Bytes::mib(20),
        },
    };
    let decision = footprint::Footprint::default().after(&seen);
    for young in [false, true] {
        let found = Found {
            composite: 90 * MIB,
            holes: 5 * MIB,
            ..Found::default()
        };
        let ended = Ended {
            young,
            found: &found,
            residency: &Residency::default(),
            took: Duration::ZERO,
            allocated: Bytes::ZERO,
        };
        let growth = |allowance| growth(&decision, 0, (allowance, 50 * MIB), false, &ended);
        let much = growth(60 * MIB);
        // Three quarters of what is left of the free memory after a sixteenth of the capacity.
        assert_eq!((much.bytes, much.allowance), (9 * MIB, 14 * MIB));
        assert!(much.short);
        assert_eq!(
            growth(12 * MIB).allowance,
            12 * MIB,
            "no more than asked for"
        );
    }
}
