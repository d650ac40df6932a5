//! A small virtual machine on MMTk: objects with precise references, several threads, any plan. It runs
//! two benchmarks, and for tests the traps of a heap whose limit moves. It prints one JSON object.
//!
//! | module | is |
//! |---|---|
//! | `vm` | the binding: the type that MMTk knows the machine by, and the instance of MMTk |
//! | `collection` | what MMTk asks of a virtual machine for a collection |
//! | `object` | the layout of objects |
//! | `thread` | a thread of the program: allocation, barriers, roots |
//! | `world` | stopping and resuming the threads |
//! | `heap` | what decides the size of the heap |
//! | `watch` | which of MMTk's calls changed the limit |
//! | `programs` | the programs |
//! | `injected_fault` | a machine that dies or hangs in a collection |

mod collection;
mod heap;
mod injected_fault;
mod object;
mod programs;
mod thread;
mod vm;
mod watch;
mod world;

use clap::{Parser, Subcommand, ValueEnum};
use heap::{HeapKind, Settings, SizeError};
use injected_fault::Trouble;
use mmtk::util::options::PlanSelector;
use plimsoll_mmtk::{Bytes, GiveBack};
use programs::{Keeper, Work, traps};
use serde_json::{Value, json};
use std::time::Instant;

#[derive(Debug, Parser)]
#[command(about = "A small virtual machine on MMTk, for tests and measurements")]
struct Options {
    /// The plan of MMTk: Immix, GenCopy, ...
    #[arg(long, default_value = "GenImmix")]
    plan: PlanSelector,
    /// fixed:N, dynamic:N,N, isla-vista:N, printed:N or after-stalls:N; bytes, or with k, m, g.
    #[arg(long, default_value = "isla-vista:256m")]
    heap: HeapKind,
    /// Follow the broker that the environment names.
    #[arg(long)]
    broker: bool,
    /// A bound, as a broker's, bytes.
    #[arg(long, value_parser = size)]
    bound: Option<u64>,
    /// When free memory is given back to the kernel.
    #[arg(long, default_value = "short")]
    give_back: When,
    /// Threads of the program.
    #[arg(long, default_value_t = 2)]
    threads: u32,
    /// Threads of the collector.
    #[arg(long, default_value_t = 2)]
    workers: usize,
    /// Note in which of MMTk's calls the limit changes.
    #[arg(long)]
    watch: bool,
    /// Die in this collection; the first is 0.
    #[arg(long, conflicts_with = "hang")]
    die: Option<u64>,
    /// Allocate this much before anything can be collected, bytes.
    #[arg(long, value_parser = size)]
    early: Option<u64>,
    /// Never tell the trigger that MMTk can collect.
    #[arg(long)]
    unready: bool,
    /// Never end this collection; the first is 0.
    #[arg(long)]
    hang: Option<u64>,
    #[command(subcommand)]
    program: Program,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum When {
    Never,
    Short,
    Full,
}

#[derive(Debug, Subcommand)]
enum Program {
    /// Trees that die young, beside one that lives.
    Gcbench { depth: u32, iterations: u32 },
    /// Much live data: bytes, and records that are replaced.
    Live {
        #[arg(value_parser = size)]
        bytes: u64,
        operations: u64,
    },
    /// Another thread moves the bound: bytes.
    Moved {
        #[arg(value_parser = size)]
        bounds: Vec<u64>,
    },
    /// Until memory is out.
    Fill,
    /// One large object of this many bytes.
    Large {
        #[arg(value_parser = size)]
        bytes: u64,
    },
    /// Other threads ask for collections.
    Foreign {
        #[arg(value_parser = size)]
        bytes: u64,
    },
    /// A collection is wanted while the program is idle.
    Idle,
    /// Forks, and both processes go on.
    Fork,
    /// Nothing lives, or one object, when the heap is collected.
    Emptied {
        #[arg(long)]
        keep: bool,
    },
    /// Asks for the maximum.
    Maximum,
    /// Allocates this many bytes and keeps none.
    Spend {
        #[arg(value_parser = size)]
        bytes: u64,
    },
}

fn size(text: &str) -> Result<u64, SizeError> {
    heap::bytes(text).ok_or_else(|| SizeError::Bytes(text.to_owned()))
}

fn main() {
    let options = Options::parse();
    let settings = Settings {
        kind: options.heap,
        broker: options.broker,
        give_back: match options.give_back {
            When::Never => GiveBack::Never,
            When::Short => GiveBack::WhenShort,
            When::Full => GiveBack::AfterFull,
        },
        watch: options.watch,
    };
    let dies = options.die.map(Trouble::Dies);
    if let Some(trouble) = dies.or(options.hang.map(Trouble::Hangs)) {
        injected_fault::expect(trouble);
    }
    vm::hold(heap::build(settings, options.plan, options.workers));
    if let Some(bytes) = options.early {
        traps::early(bytes);
    }
    heap::start(!options.unready);
    if let (Some(bound), Some(control)) = (options.bound, heap::control()) {
        control.bound(Bytes(bound));
    }
    let begin = Instant::now();
    let (said, keeper) = run(&options.program, options.threads);
    let seconds = begin.elapsed().as_secs_f64();
    let peak = status("VmHWM:");
    // Everything is dead now. What stays resident?
    let after = keeper.map(|keeper| {
        keeper.collect(2);
        status("VmRSS:")
    });
    let told = json!({
        "plan": format!("{:?}", options.plan),
        "heap": format!("{:?}", options.heap),
        "seconds": seconds,
        "pauses": world::pauses(),
        "peak": peak,
        "after": after,
        "said": said,
        "out_of_memory": collection::out_of_memory(),
        "figures": heap::control().map(figures),
        "watched": options.watch.then(watch::notes),
    });
    println!("{told}");
}

/// Runs the program. Returns what it says, and of a benchmark the one object that still lives.
fn run(program: &Program, threads: u32) -> (Value, Option<Keeper>) {
    match program {
        Program::Gcbench { depth, iterations } => {
            benchmark(|| programs::gcbench(threads, *depth, *iterations))
        }
        Program::Live { bytes, operations } => {
            benchmark(|| programs::live(threads, *bytes, *operations))
        }
        Program::Moved { bounds } => (traps::moved(bounds), None),
        Program::Fill => (traps::fill(), None),
        Program::Large { bytes } => (traps::large(*bytes), None),
        Program::Foreign { bytes } => (traps::foreign(*bytes), None),
        Program::Idle => (traps::idle(), None),
        Program::Fork => (programs::fork(), None),
        Program::Emptied { keep } => (traps::emptied(*keep), None),
        Program::Maximum => (traps::maximum(), None),
        Program::Spend { bytes } => (said(traps::spend(*bytes)), None),
    }
}

fn benchmark(program: impl FnOnce() -> Work) -> (Value, Option<Keeper>) {
    let keeper = Keeper::new();
    let work = keeper.beside(program);
    (said(work), Some(keeper))
}

fn said(work: Work) -> Value {
    json!({ "checked": work.checked, "failed": work.failed })
}

fn figures(control: &plimsoll_mmtk::Control) -> Value {
    let f = control.figures();
    json!({
        "limit": f.limit.0,
        "max": f.max.0,
        "live": f.live.0,
        "collections": f.collections,
        "full": f.full,
        "wanted": f.wanted,
        "let_in": f.let_in,
        "stopped_ns": f.stopped.0,
        "stalls": f.stalls,
        "stalled": f.stalled,
        "given_back": f.given_back.0,
        "tier": control.tier(),
    })
}

/// A line of `/proc/self/status`, bytes.
fn status(name: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}
