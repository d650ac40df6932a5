//! How many events a second are written and read on this machine: `cargo run --release -p plimsoll-trace
//! --example codec-speed [PROGRAM [SHORTEN]]`. Everything is in memory, on one thread.

use plimsoll_trace::check::check;
use plimsoll_trace::order::Recorded;
use plimsoll_trace::synth::{self, table};
use plimsoll_trace::{Event, Header, ThreadId, Totals, Trace, Writer};
use std::sync::Arc;
use std::time::Instant;

fn main() {
    let mut args = std::env::args().skip(1);
    let name = args.next().unwrap_or_else(|| "lusearch".into());
    let shorten = args.next().and_then(|it| it.parse().ok()).unwrap_or(1.0);
    let program = table::find(&name).expect("the program is in the table");
    let options = synth::Options {
        shorten,
        ..synth::Options::default()
    };
    let started = Instant::now();
    let bytes = synth::write(program, &options, Vec::new(), "memory").expect("memory is written");
    let made = started.elapsed().as_secs_f64();
    let trace = Trace::from_source(Arc::new(bytes.clone()), "memory").expect("it is read");
    let events: u64 = trace
        .streams()
        .values()
        .filter_map(|it| Some(it.totals?.events))
        .sum();
    let told = |what: &str, seconds: f64| {
        println!(
            "{what:<28} {:6.1} million events a second",
            events as f64 / seconds / 1e6
        );
    };
    println!(
        "{name}: {events} events, {} bytes, {:.2} bytes an event",
        bytes.len(),
        bytes.len() as f64 / events as f64
    );
    told("made up and written", made);

    read_streams(&trace, &told);
    write_again(&trace, events, &told);

    let started = Instant::now();
    let count = Recorded::new(&trace).expect("it is read").count();
    assert_eq!(count as u64, events, "all of them");
    told(
        "read in the recorded order",
        started.elapsed().as_secs_f64(),
    );

    let started = Instant::now();
    let report = check(&trace).expect("it is read");
    assert!(report.faults.is_empty(), "{:?}", report.faults);
    told("verified", started.elapsed().as_secs_f64());
    let sum = |of: fn(&Totals) -> u64| report.streams.values().map(of).sum::<u64>();
    println!(
        "{} objects, {} bytes, largest live {:?}, {} threads, {} ns",
        sum(|it| it.objects),
        sum(|it| it.allocated),
        report.largest_live,
        report.streams.len(),
        sum(|it| it.time),
    );
}

fn read_streams(trace: &Trace, told: &dyn Fn(&str, f64)) {
    let started = Instant::now();
    let mut sum = 0;
    for thread in trace.streams().keys() {
        for event in trace.stream(*thread).expect("there is one") {
            if let Event::Alloc { size, .. } = event.expect("it is in order") {
                sum += size;
            }
        }
    }
    told("read, thread by thread", started.elapsed().as_secs_f64());
    println!("  allocated: {sum} bytes");
}

/// Writes the first events again, so that writing alone is measured.
fn write_again(trace: &Trace, events: u64, told: &dyn Fn(&str, f64)) {
    let mut script: Vec<(ThreadId, Event)> = Vec::new();
    for next in Recorded::new(trace).expect("it is read").take(5_000_000) {
        script.push(next.expect("it is in order"));
    }
    for level in [1, 3] {
        let started = Instant::now();
        let mut writer = Writer::new(Vec::new(), "memory", &Header::default()).expect("memory");
        writer.level(level).expect("there is such a level");
        for (thread, event) in &script {
            writer.push(*thread, event).expect("it fits");
        }
        let length = writer.finish().expect("memory").len();
        let seconds = started.elapsed().as_secs_f64() * events as f64 / script.len() as f64;
        told(&format!("written, level {level}"), seconds);
        println!(
            "  {:.2} bytes an event",
            length as f64 / script.len() as f64
        );
    }
}
