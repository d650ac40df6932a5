//! Programs under random stress: frequent collections, much of the heap absent, some of it in a
//! swap file of the test's own, kernel calls refused.
//!
//! `cargo test --release -p plimsoll-libgc --test stress -- [--seconds N] [--program PART] [--seed
//! N]`: runs rounds until the time is over, of all programs or of those whose names contain PART;
//! or the one round of a seed, which a failure prints.

#[path = "support/library.rs"]
mod library;
#[path = "support/programs.rs"]
mod programs;
#[path = "support/stressed.rs"]
mod stressed;

use plimsoll_testbed::{SwapFile, skip};
use plimsoll_unit::Bytes;
use programs::{Running, compile, temporary};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A program: its source below the crate, its arguments, and its last words. Also the smallest n
/// for which a collection at every n-th slow allocation leaves it time to make progress.
struct Program {
    source: &'static str,
    arguments: &'static [&'static str],
    says: &'static str,
    every: u64,
}

const fn program(
    source: &'static str,
    arguments: &'static [&'static str],
    says: &'static str,
    every: u64,
) -> Program {
    Program {
        source,
        arguments,
        says,
        every,
    }
}

const HEAPLOAD: &str = "../../bench/programs/libgc/heapload.c";
/// Features that the Guile program uses: weak tables, guardians, threads (if Guile has no bug that stress
/// would trigger), continuations and forks.
const GUILE: &str = "tests/programs/guile/main.scm";
const PROGRAMS: [Program; 13] = [
    program(
        "tests/c/torture.c",
        &["3000"],
        "bad = 0\nbad_finalized = 0\nfinalized > steps / 4: yes\n",
        2000,
    ),
    program("tests/c-alone/mistakes.c", &[], "sound\n", 100),
    program("tests/c-alone/forks.c", &[], "sound\n", 100),
    program("tests/c-alone/exits.c", &[], "sound\n", 100),
    program("tests/c-alone/signals.c", &[], "sound\n", 200),
    program("tests/c-alone/many_threads.c", &["60"], "sound\n", 50),
    program("tests/c-alone/lives.c", &["15", "20"], "sound\n", 20),
    program("tests/c-alone/refused.c", &["userfaultfd"], "sound\n", 20),
    program("tests/c-alone/refused.c", &["files"], "sound\n", 50),
    program(
        HEAPLOAD,
        &["bintree", "--depth", "14"],
        "\"checksum\":1653694}\n",
        3,
    ),
    program(
        HEAPLOAD,
        &["gcbench", "--rounds", "1"],
        "\"checksum\":1}\n",
        50,
    ),
    program(
        HEAPLOAD,
        &["bintree", "--depth", "12", "--threads", "3"],
        "}\n",
        5,
    ),
    program(GUILE, &[], "forks: (32 64 28)\nkept: 16384\n", 10),
];
/// Bytes of the swap file.
const SWAP: Bytes = Bytes(1 << 30);
/// The time limit of a round, which takes some seconds at most if it has the processors to itself.
const PATIENCE: Duration = Duration::from_secs(300);

impl Program {
    /// Compiles it. `None` if the compiler, or something it needs, is not installed.
    fn prepare(&self, name: &str) -> Option<PathBuf> {
        if self.source != GUILE {
            return compile(self.source, name);
        }
        let compiled = temporary().join(name);
        let done = Command::new("guild")
            .args(["compile", "-o"])
            .arg(&compiled)
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join(self.source))
            .output();
        let there = done.is_ok_and(|done| done.status.success());
        if !there {
            skip("no Guile");
        }
        there.then_some(compiled)
    }

    fn command(&self, prepared: &Path) -> Command {
        if self.source != GUILE {
            let mut command = Command::new(prepared);
            command.args(self.arguments);
            return command;
        }
        let mut command = Command::new("guile");
        let load = format!("(load-compiled {:?})", prepared.display().to_string());
        command.args(["--no-auto-compile", "-c", &load]);
        command
    }
}

/// Random numbers from a seed (SplitMix64, Steele, Lea and Flood 2014).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) % end
    }
}

/// Runs one program in a setting that follows from the seed. Returns the setting, and what went
/// wrong. `None` if the program is not selected or not installed.
fn round(seed: u64, all: &[Option<PathBuf>]) -> Option<(String, Result<String, String>)> {
    let mut random = Random(seed);
    let which = random.below(PROGRAMS.len() as u64) as usize;
    let it = &PROGRAMS[which];
    let prepared = all[which].as_ref()?;
    let mut variables = vec![("PLIMSOLL_GC_SEED", random.below(1 << 32).to_string())];
    let every = it.every * (1 + random.below(8));
    variables.push(("PLIMSOLL_GC_STRESS", every.to_string()));
    if random.below(2) == 0 {
        variables.push(("PLIMSOLL_GC_FAIL", (2 + random.below(20)).to_string()));
    }
    variables.push(("GC_MARKERS", (1 + random.below(3)).to_string()));
    let mut command = it.command(prepared);
    let running = {
        for (name, value) in &variables {
            command.env(name, value);
        }
        let asked = [("PLIMSOLL_GC_STRESS", "")];
        command.env(
            "LD_LIBRARY_PATH",
            stressed::library_for(&named("stress"), &asked),
        );
        Running::start(&mut command, &named("stressed"))
    };
    let what = format!("{} {:?} {variables:?}", it.source, it.arguments);
    let result = running.end(PATIENCE).and_then(|said| {
        if said.contains(it.says) {
            Ok(said)
        } else {
            Err(said)
        }
    });
    Some((what, result))
}

/// A name of files that another run beside this one, with other programs, does not use.
fn named(name: &str) -> String {
    format!("{name}-{}", argument("--program").unwrap_or_default())
}

fn argument(name: &str) -> Option<String> {
    std::env::args()
        .skip_while(|argument| argument != name)
        .nth(1)
}

fn number(name: &str) -> Option<u64> {
    argument(name)?.parse().ok()
}

fn main() -> ExitCode {
    let wanted = argument("--program").unwrap_or_default();
    if !PROGRAMS
        .iter()
        .any(|program| program.source.contains(&wanted))
    {
        println!("--program {wanted}: there is none of that name");
        return ExitCode::FAILURE;
    }
    let sources = PROGRAMS.iter().enumerate();
    let all: Vec<Option<PathBuf>> = sources
        .map(|(at, program)| {
            let is_wanted = program.source.contains(&wanted);
            is_wanted.then(|| program.prepare(&format!("{}-{at}", named("stressed"))))?
        })
        .collect();
    if all.iter().all(Option::is_none) {
        return ExitCode::SUCCESS;
    }
    let swap = SwapFile::new(temporary(), SWAP);
    if let Err(e) = &swap {
        println!(
            "without a swap file of its own ({e}): what is taken for absent is seldom evicted"
        );
    }
    let seconds = Duration::from_secs(number("--seconds").unwrap_or(5));
    let once = number("--seed");
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let first = now.map_or(1, |since| since.as_secs() << 16);
    let (begin, mut rounds) = (Instant::now(), 0);
    for seed in once.map_or(first..=u64::MAX, |seed| seed..=seed) {
        let Some((what, result)) = round(seed, &all) else {
            continue;
        };
        if let Err(why) = result {
            println!("replay: make stress SEED={seed}\n{what}\n{why}");
            return ExitCode::FAILURE;
        }
        rounds += 1;
        if begin.elapsed() > seconds {
            break;
        }
    }
    println!(
        "stress: {rounds} rounds passed, from seed {}",
        once.unwrap_or(first)
    );
    ExitCode::SUCCESS
}
