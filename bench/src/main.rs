//! The measurements: `plimsoll-bench NAME` runs one, shows progress, prints its table and writes
//! `bench/results/NAME.json`, `NAME.md`, and plots into `plots`. `make bench-NAME` does the set-up first.

use clap::Parser;
use clap::builder::{PossibleValue, PossibleValuesParser};
use plimsoll_bench::measurement::About;
use plimsoll_bench::measurements::{ALL, named};
use plimsoll_bench::runner::Options;
use plimsoll_bench::{Error, Result, docs, measurement};
use std::process::ExitCode;

/// Names that the command line takes besides those of measurements, with their help.
const BESIDES: [(&str, &str); 2] = [
    ("all", "Every measurement, one after the other"),
    (
        "figures",
        "Write the tables of targets and of measurements into the README and the book, draw plots anew",
    ),
];

/// Measures Plimsoll on real programs under real memory limits. Needs root: cgroups and swap.
#[derive(Debug, Parser)]
#[command(name = "plimsoll-bench")]
struct Arguments {
    /// Name of the measurement.
    #[arg(value_parser = names())]
    name: String,
    /// Repetitions of each variant.
    #[arg(long, default_value_t = 5)]
    repeat: usize,
    /// Only variants whose name contains one of these, separated by commas; `=NAME` is the one of that name.
    /// The rows of the others stay.
    #[arg(long)]
    only: Option<String>,
    #[arg(long, help = help_of_slice())]
    slice: bool,
    #[arg(long, help = help_of_seed())]
    seed: Option<u64>,
    /// Leave the results in bench/out/NAME, not among the recorded ones in bench/results.
    #[arg(long)]
    no_record: bool,
    /// Record anew what is recorded at this commit. Without it, only what is missing is measured.
    #[arg(long, conflicts_with = "no_record")]
    again: bool,
    /// Record the table although some variants have no rows yet; it names them.
    #[arg(long, conflicts_with = "no_record")]
    gaps: bool,
    /// Begin no run after these minutes, nor one that may take longer than what is left of them. The same
    /// command goes on.
    #[arg(long, value_name = "N")]
    minutes: Option<u64>,
    /// Make one run of this variant, in a guest that was booted for it, and print the outcome.
    #[arg(long, hide = true)]
    inside: Option<String>,
}

fn help_of_slice() -> String {
    let with_slice = ALL.iter().map(|one| one.about()).filter(|it| it.slice);
    let names: Vec<&str> = with_slice.map(|about| about.name).collect();
    format!(
        "A part that represents the measurement and takes at most an hour, of {}",
        names.join(", ")
    )
}

fn help_of_seed() -> String {
    let drawn = |about: About| Some(format!("{} ({} when absent)", about.name, about.seed?));
    let drawn: Vec<String> = ALL.iter().filter_map(|one| drawn(one.about())).collect();
    format!(
        "The seed of what is drawn at random, of {}",
        drawn.join(", ")
    )
}

fn names() -> PossibleValuesParser {
    let measurements = ALL.iter().map(|one| one.about());
    let measurements = measurements.map(|about| (about.name, about.question));
    let named = |(name, question)| PossibleValue::new(name).help(question);
    PossibleValuesParser::new(measurements.chain(BESIDES).map(named))
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Err(e) = plimsoll_bench::harness::interrupt::listen() {
        eprintln!("plimsoll-bench: signals will end it without cleaning up: {e}");
    }
    match carry_out(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("plimsoll-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn carry_out(arguments: &Arguments) -> Result<()> {
    let options = Options {
        repeat: arguments.repeat.max(1),
        only: arguments.only.clone(),
        slice: arguments.slice,
        seed: arguments.seed,
        record: !arguments.no_record && arguments.inside.is_none(),
        again: arguments.again,
        gaps: arguments.gaps,
        minutes: arguments.minutes,
        inside: arguments.inside.clone(),
    };
    measurement::check(&arguments.name, &options, ALL)?;
    match (arguments.name.as_str(), named(&arguments.name)) {
        (_, Some(one)) => measurement::run(one, &options),
        ("all", None) => all(&options),
        // The parser accepts no other name than `figures`.
        _ => docs::write(),
    }
}

/// Runs every measurement. The others run even if one fails.
fn all(options: &Options) -> Result<()> {
    let mut failed = Vec::new();
    for one in ALL {
        let name = one.about().name;
        match measurement::run(*one, options) {
            Ok(()) => {}
            Err(Error::Interrupted) => return Err(Error::Interrupted),
            Err(error) => {
                eprintln!("plimsoll-bench: {name}: {error}");
                failed.push(name);
            }
        }
    }
    if failed.is_empty() {
        Ok(())
    } else {
        Err(Error::Several(failed))
    }
}
