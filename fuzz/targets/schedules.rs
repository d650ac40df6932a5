//! Reads bytes as lines of a trace, and simulates it under each scheduler and collector, on one processor and
//! on two: whatever the lines say, each simulation ends; what is allocated is freed, live or garbage then;
//! and every scheduler lets the same threads do the same.

#![no_main]

use plimsoll_policy::phases::{Quanta, Rule};
use plimsoll_sim::threads::heap::Algorithm;
use plimsoll_sim::threads::{Settings, Survey, Traced, simulate};
use plimsoll_trace::order::Filed;
use plimsoll_trace::{Event, Header, Trace, text};
use plimsoll_unit::{Bytes, Nanos};
use std::sync::Arc;

/// Quanta so short that some tens of events take several.
const QUANTA: Quanta = Quanta {
    time: Nanos(10_000),
    bytes: Bytes(200),
    most: Nanos(50_000),
};
/// The most that the threads of a program compute together, nanoseconds: ten thousand quanta. One thread
/// alone may compute for as long as it likes, because that is simulated at once.
const MOST_COMPUTED: u64 = 100_000_000;
/// The largest heap, bytes. An object that has no room in it is refused.
const LARGEST: u64 = 1 << 28;

/// Whether it is simulated in less than a moment.
fn is_short(trace: &Trace) -> bool {
    let mut computed = 0u64;
    for next in Filed::new(trace) {
        if let Event::Compute { time } = next.expect("what was written can be read").1 {
            computed = computed.saturating_add(time);
        }
    }
    computed <= MOST_COMPUTED || trace.streams().len() == 1
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut lines = bytes;
    let Ok(made) = text::read(&mut lines, "typed", &Header::default(), Vec::new()) else {
        return;
    };
    let trace = Trace::from_source(Arc::new(made), "written").expect("what was written is a trace");
    if !is_short(&trace) {
        return;
    }
    let survey = Survey::of(&trace).expect("what was written can be read");
    let heap = survey
        .largest_live
        .saturating_mul(4)
        .saturating_add(100)
        .min(LARGEST);
    let mut first = None;
    for collector in Algorithm::ALL {
        for rule in Rule::ALL {
            for processors in [1, 2] {
                let settings = Settings {
                    processors,
                    quanta: QUANTA,
                    priorities: processors == 2,
                    ..Settings::new(rule, collector, Bytes(heap))
                };
                let mut program = Traced::new(&trace, &survey, 1.0);
                let Ok(outcome) = simulate(&mut program, &settings) else {
                    continue;
                };
                assert_eq!(
                    outcome.allocated,
                    outcome.freed + outcome.live + outcome.garbage
                );
                let same = (
                    outcome.threads,
                    outcome.events,
                    outcome.objects,
                    outcome.computed,
                );
                assert_eq!(*first.get_or_insert(same), same, "{rule:?} {collector:?}");
            }
        }
    }
});
