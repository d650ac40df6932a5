//! The deterministic simulation of the broker: programs of every kind, hogs, nested domains,
//! restarts and faults in virtual time, from one seed. The rules of `checks` are checked after
//! every tick.
//!
//! `cargo test --release -p plimsoll-broker --test simulation -- [--seconds N] [--seed N]
//! [--programs N] [--long] [--watch-all]`; the environment variables `PLIMSOLL_SIMULATION_SECONDS`, `_SEED`,
//! `_PROGRAMS` and `_LONG` say the same.

mod allocations;
mod checks;
mod kernel;
mod program;
mod random;
mod scenario;
mod world;

use checks::Failure;
use scenario::Scenario;
use std::time::{Duration, Instant};
use world::{Outcome, World};

#[global_allocator]
static ALLOCATOR: allocations::Counting = allocations::Counting;

/// How the simulation is run.
#[derive(Clone, Copy, Debug)]
struct Options {
    seconds: u64,
    /// The only seed to run.
    seed: Option<u64>,
    /// Otherwise the first seed; as many follow as there is time for.
    from: u64,
    programs: Option<usize>,
    long: bool,
    /// Trace all principals of a failing seed, not only the involved ones.
    watch_all: bool,
}

fn main() {
    let options = match options() {
        Ok(options) => options,
        Err(message) => {
            eprintln!("simulation: {message}");
            std::process::exit(2);
        }
    };
    let began = Instant::now();
    let mut total = Outcome::default();
    let (mut passed, mut failed) = (0u64, 0u64);
    let mut seed = options.seed.unwrap_or(options.from);
    loop {
        match run(seed, &options, &[]) {
            (Ok(outcome), _) => {
                passed += 1;
                add(&mut total, &outcome);
            }
            (Err(failure), _) => {
                failed += 1;
                explain(seed, &options, &failure);
            }
        }
        seed += 1;
        if options.seed.is_some()
            || began.elapsed() >= Duration::from_secs(options.seconds)
            || failed >= 5
        {
            break;
        }
    }
    summarise(&total, began.elapsed());
    println!("{passed} passed, {failed} failed");
    std::process::exit(i32::from(failed > 0));
}

/// Runs one seed; also returns the trace lines for the ids in `watch`.
fn run(seed: u64, options: &Options, watch: &[u64]) -> (Result<Outcome, Failure>, Vec<String>) {
    let mut world = World::new(Scenario::draw(seed, options.programs, options.long), watch);
    let result = world.run();
    (result, world.trace().to_vec())
}

/// Runs the seed again and traces the involved principals.
fn explain(seed: u64, options: &Options, failure: &Failure) {
    let watch = if options.watch_all {
        vec![checks::EVERYBODY]
    } else if failure.ids.is_empty() {
        vec![u64::MAX]
    } else {
        failure.ids.clone()
    };
    let (_, trace) = run(seed, options, &watch);
    for line in &trace {
        println!("{line}");
    }
    println!(
        "seed {seed}: rule `{}` broken after {} ms: {}",
        failure.rule,
        failure.at / 1_000_000,
        failure.what
    );
    let programs = options
        .programs
        .map_or(String::new(), |count| format!(" --programs {count}"));
    let long = if options.long { " --long" } else { "" };
    println!(
        "replay: cargo test --release -p plimsoll-broker --test simulation -- --seed {seed}{programs}{long}"
    );
}

fn add(total: &mut Outcome, one: &Outcome) {
    total.ticks += one.ticks;
    total.virtual_ns += one.virtual_ns;
    total.tick_ns += one.tick_ns;
    total.actions += one.actions;
}

fn summarise(total: &Outcome, took: Duration) {
    let hours = total.virtual_ns as f64 / 3.6e12;
    println!(
        "{hours:.1} simulated hours in {:.0} s, {} ticks ({:.0} per second of a core), {} actions",
        took.as_secs_f64(),
        total.ticks,
        total.ticks as f64 / (total.tick_ns as f64 / 1e9).max(1e-9),
        total.actions,
    );
}

fn options() -> Result<Options, String> {
    let environment = |name: &str| std::env::var(format!("PLIMSOLL_SIMULATION_{name}")).ok();
    let mut options = Options {
        seconds: number(environment("SECONDS"))?.unwrap_or(10),
        seed: number(environment("SEED"))?,
        from: 1,
        programs: number(environment("PROGRAMS"))?.map(|count| count as usize),
        long: environment("LONG").is_some(),
        watch_all: false,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || {
            let value = number(words.next())?;
            value.ok_or_else(|| format!("{word} needs a number"))
        };
        match word.as_str() {
            "--seconds" => options.seconds = value()?,
            "--seed" => options.seed = Some(value()?),
            "--from" => options.from = value()?,
            "--programs" => options.programs = Some(value()?.clamp(1, 16_000) as usize),
            "--long" => options.long = true,
            "--watch-all" => options.watch_all = true,
            // Arguments that test runners pass to every test binary.
            "--nocapture" | "--show-output" | "--quiet" | "-q" => {}
            other => {
                return Err(format!(
                    "unknown option {other}; there are --seconds N, --seed N, --from N, --programs N, \
                     --long, --watch-all"
                ));
            }
        }
    }
    Ok(options)
}

fn number(text: Option<String>) -> Result<Option<u64>, String> {
    text.map(|text| {
        text.parse()
            .map_err(|_| format!("`{text}` is not a number"))
    })
    .transpose()
}
