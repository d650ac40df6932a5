//! Made-up programs have the statistics of Table 1, make sense, and are the same for the same seed.

mod common;

use common::open;
use plimsoll_trace::check::check;
use plimsoll_trace::synth::table::{self, PROGRAMS};
use plimsoll_trace::synth::{Aims, Options, Program, write};
use plimsoll_trace::{Event, ThreadId, Totals, Trace};

fn made(program: &Program, options: &Options) -> Vec<u8> {
    write(program, options, Vec::new(), program.name).unwrap()
}

/// A size that takes about a second here.
fn small(program: &Program) -> Options {
    let (scale, shorten) = match program.name {
        "hsqldb" => (30.0, 1.0),
        "lusearch" => (10.0, 10.0),
        "specjbb2000" => (80.0, 100.0),
        _ => (200.0, 1.0),
    };
    Options {
        scale,
        shorten,
        seed: 7,
    }
}

fn within(what: &str, found: u64, aim: u64, percent: f64) {
    let off = 100.0 * (found as f64 - aim as f64) / aim as f64;
    assert!(
        off.abs() <= percent,
        "{what}: {found}, and {aim} was aimed at ({off:.2} %)"
    );
}

#[test]
fn the_rows_of_table_1_come_out() {
    for program in &PROGRAMS {
        let options = small(program);
        let aims = Aims::of(program, &options);
        let trace = open(made(program, &options)).unwrap();
        let report = check(&trace).unwrap();
        assert!(
            report.faults.is_empty(),
            "{}: {:?}",
            program.name,
            report.faults
        );
        let sum = |of: fn(&Totals) -> u64| report.streams.values().map(of).sum::<u64>();
        let name = program.name;
        assert_eq!(report.streams.len(), program.threads as usize, "{name}");
        within(
            &format!("{name}: objects"),
            sum(|it| it.objects),
            aims.objects,
            1.0,
        );
        within(
            &format!("{name}: bytes"),
            sum(|it| it.allocated),
            aims.bytes,
            1.0,
        );
        within(&format!("{name}: time"), sum(|it| it.time), aims.time, 1.0);
        let live = report.largest_live.unwrap();
        within(
            &format!("{name}: largest live size"),
            live,
            aims.largest_live,
            1.0,
        );
        assert_eq!(trace.largest_live(), Some(live), "{name}");
        // The aim is the row of the table, made smaller.
        let smaller = |row: u64| (row as f64 / options.scale) as u64;
        assert_eq!(aims.largest_live, smaller(program.largest_live), "{name}");
        if options.shorten == 1.0 {
            assert_eq!(
                (aims.objects, aims.bytes),
                (smaller(program.objects), smaller(program.bytes))
            );
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let program = table::find("lusearch").unwrap();
    let with = |seed| Options {
        scale: 500.0,
        shorten: 1.0,
        seed,
    };
    assert_eq!(made(program, &with(1)), made(program, &with(1)));
    assert_ne!(made(program, &with(1)), made(program, &with(2)));
}

/// Bytes allocated by a worker in each tenth of a millisecond of its time.
fn rates(trace: &Trace, thread: ThreadId) -> Vec<u64> {
    let mut rates = Vec::new();
    let mut time = 0;
    for event in trace.stream(thread).unwrap().map(Result::unwrap) {
        match event {
            Event::Compute { time: passed } => time += passed,
            Event::Alloc { size, .. } => {
                rates.resize(rates.len().max((time / 100_000) as usize + 1), 0);
                rates[(time / 100_000) as usize] += size;
            }
            _ => {}
        }
    }
    rates
}

#[test]
fn threads_allocate_in_phases() {
    let program = table::find("specjappserver2004").unwrap();
    let trace = open(made(program, &small(program))).unwrap();
    let mut rates = rates(&trace, ThreadId(9));
    rates.sort_unstable();
    let all: u64 = rates.iter().sum();
    let busiest: u64 = rates.iter().rev().take(rates.len() * 4 / 10).sum();
    assert!(
        busiest * 10 > all * 8,
        "four tenths of the time have most of the bytes: {busiest} of {all}"
    );
}

#[test]
fn a_program_that_is_shortened_too_much_still_fills_its_store() {
    for program in &PROGRAMS {
        let options = Options {
            scale: 300.0,
            shorten: 1e12,
            seed: 3,
        };
        let aims = Aims::of(program, &options);
        let trace = open(made(program, &options)).unwrap();
        let live = check(&trace).unwrap().largest_live.unwrap();
        within(program.name, live, aims.largest_live, 3.0);
    }
}
