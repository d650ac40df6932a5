//! The measurements: `plimsoll-bench NAME` runs one, shows progress, prints its table and writes
//! `bench/results/NAME.json`, `NAME.md` and plots beside them. `make bench-NAME` does the set-up first.

use clap::{Parser, ValueEnum};
use plimsoll_bench::scenarios;
use std::process::ExitCode;

/// Measures Plimsoll on real programs under real memory limits. Needs root: cgroups and swap.
#[derive(Debug, Parser)]
#[command(name = "plimsoll-bench")]
struct Arguments {
    /// What to measure.
    name: Name,
    /// Repetitions of each variant.
    #[arg(long, default_value_t = 5)]
    repeat: usize,
    /// Only variants whose name contains one of these, separated by commas.
    #[arg(long)]
    only: Option<String>,
    /// With `demo`: record it in bench/results, as the others do.
    #[arg(long)]
    save: bool,
    /// With `libgc-kernels`: what it does in the guest that it boots.
    #[arg(long, hide = true)]
    inside: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Name {
    /// The main job with a live screen and a report: `make demo`.
    Demo,
    /// Write the table of targets into the README.
    Figures,
    /// What the broker costs.
    BrokerCost,
    /// Java in a container without swap.
    Container,
    /// Weighted shares: distance and time after each change.
    Shares,
    /// A hog takes half of the memory.
    Hog,
    /// How Java follows a limit, by collector.
    Hotspot,
    /// Our libgc against the system's, in enough memory.
    Libgc,
    /// Our libgc with parts of it turned off.
    LibgcAblation,
    /// Walfield's Table 2 for a libgc program.
    LibgcAdaptive,
    /// The same by other kernels: cgroup v2, no tracking of writes.
    LibgcKernels,
    /// Our libgc against the system's, in too little memory.
    LibgcPressure,
    /// Accounting of shared memory: how true, how dear.
    Sharing,
    /// Throughput against the best static split.
    Split,
    /// The same for a family of services in real want, drawn from a seed.
    SplitWant,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let options = scenarios::Options {
        repeat: arguments.repeat.max(1),
        only: arguments.only,
    };
    if let Err(e) = plimsoll_bench::harness::interrupt::listen() {
        eprintln!("plimsoll-bench: signals will end it without cleaning up: {e}");
    }
    let done = match arguments.name {
        Name::Demo => scenarios::demo::run_demo(arguments.save),
        Name::Figures => plimsoll_bench::report::figures::write(),
        Name::BrokerCost => scenarios::broker_cost::measure(&options),
        Name::Shares => scenarios::shares::measure(&options),
        Name::Hog => scenarios::hog::measure(&options),
        Name::Hotspot => scenarios::hotspot::measure(&options),
        Name::Libgc => scenarios::libgc::plain::measure(&options),
        Name::LibgcAblation => scenarios::libgc::ablation::measure(&options),
        Name::LibgcAdaptive => scenarios::libgc_adaptive::measure(&options),
        Name::LibgcKernels if arguments.inside => {
            scenarios::libgc::kernels::measure_inside(&options)
        }
        Name::LibgcKernels => scenarios::libgc::kernels::measure(&options),
        Name::LibgcPressure => scenarios::libgc::pressure::measure(&options),
        Name::Sharing => scenarios::sharing::measure(&options),
        Name::Container => scenarios::container::measure(&options),
        Name::Split => scenarios::split::measure(&options),
        Name::SplitWant => scenarios::split::want::measure(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("plimsoll-bench: {message}");
            ExitCode::FAILURE
        }
    }
}
