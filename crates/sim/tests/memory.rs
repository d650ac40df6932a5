//! The memory of a simulation is that of the live objects and the threads: a trace of ten times the events
//! and the same live size needs no more of it.

use plimsoll_policy::phases::{Quanta, Rule};
use plimsoll_sim::threads::heap::Algorithm;
use plimsoll_sim::threads::{Settings, Survey, Traced, simulate};
use plimsoll_testbed::counting::{Counting, peak_of};
use plimsoll_trace::Trace;
use plimsoll_trace::synth::{self, Options, table};
use plimsoll_unit::{Bytes, Nanos};
use std::sync::Arc;

#[global_allocator]
static COUNTING: Counting = Counting;

/// About 26,000 objects live at once: tables double at other sizes, 20,480 and 32,768.
fn trace(shorten: f64) -> Trace {
    let program = table::find("lusearch").unwrap();
    let options = Options {
        scale: 1.25,
        shorten,
        ..Options::default()
    };
    let bytes = synth::write(program, &options, Vec::new(), "test").unwrap();
    Trace::from_source(Arc::new(bytes), "test").unwrap()
}

#[test]
fn ten_times_the_events_need_no_more_memory() {
    let [short, long] = [100.0, 10.0].map(trace);
    for collector in Algorithm::ALL {
        let [(few, small), (many, large)] = [&short, &long].map(|trace| {
            let survey = Survey::of(trace).unwrap();
            let settings = Settings {
                quanta: Quanta {
                    time: Nanos(10_000),
                    ..Quanta::PAPER
                },
                ..Settings::new(Rule::Larf, collector, Bytes(5 * survey.largest_live))
            };
            let (peak, outcome) =
                peak_of(|| simulate(&mut Traced::new(trace, &survey, 1.0), &settings).unwrap());
            (outcome.events, peak)
        });
        assert!(many > 9 * few && few > 200_000, "{few} and {many} events");
        assert!(
            large * 10 <= small * 11,
            "{collector:?}: {small} and {large} bytes"
        );
    }
}
