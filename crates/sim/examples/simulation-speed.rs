//! How many events a second of processor time are simulated on this machine, under each collector and
//! scheduler:
//! `cargo run --release -p plimsoll-sim --example simulation-speed [PROGRAM [SHORTEN [ROUNDS [CELL]]]]`.
//! Everything is in memory, on one thread. `CELL` is a part of the names of those that are wanted.

use plimsoll_kernel::clock;
use plimsoll_policy::phases::{Quanta, Rule};
use plimsoll_sim::threads::heap::Algorithm;
use plimsoll_sim::threads::{Settings, Survey, Traced, simulate};
use plimsoll_trace::Trace;
use plimsoll_trace::synth::{self, table};
use plimsoll_unit::{Bytes, Nanos};
use std::sync::Arc;

/// As in `plimsoll-bench sim-speed`.
const HEAP: u64 = 5;
const QUANTUM: u64 = 10_000;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |place: usize, or: f64| {
        let told = args.get(place).and_then(|it| it.parse().ok());
        told.unwrap_or(or)
    };
    let name = args.first().map_or("lusearch", String::as_str);
    let wanted = args.get(3).map_or("", String::as_str);
    let program = table::find(name).expect("the program is in the table");
    let options = synth::Options {
        shorten: number(1, 10.0),
        ..synth::Options::default()
    };
    let bytes = synth::write(program, &options, Vec::new(), "memory").expect("memory is written");
    let trace = Trace::from_source(Arc::new(bytes), "memory").expect("it is read");
    let survey = Survey::of(&trace).expect("it is read");
    let cells = Algorithm::ALL
        .iter()
        .flat_map(|&collector| Rule::ALL.map(|rule| (collector, rule)));
    for (collector, rule) in cells {
        let cell = format!("{} {}", collector.name(), rule.name());
        if !cell.contains(wanted) {
            continue;
        }
        let settings = Settings {
            quanta: Quanta {
                time: Nanos(QUANTUM),
                ..Quanta::PAPER
            },
            ..Settings::new(rule, collector, Bytes(HEAP * survey.largest_live))
        };
        let speeds = (0..number(2, 3.0) as usize).map(|_| {
            let before = clock::thread_cpu().0;
            let mut program = Traced::new(&trace, &survey, 1.0);
            let outcome = simulate(&mut program, &settings).expect("it ends");
            outcome.events as f64 * 1e3 / (clock::thread_cpu().0 - before) as f64
        });
        let best = speeds.fold(0.0, f64::max);
        println!("{cell:<20} {best:6.1} million events a second at best");
    }
}
