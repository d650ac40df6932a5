//! Cost of the agent in Java virtual machines to a program that is collected about 100 times a second.
//!
//! An agent cannot be unloaded, so runs with it and without it take turns, and each is compared with the one
//! beside it. All do the same work.

use crate::harness::collections::Collections;
use crate::harness::interrupt;
use crate::harness::java::Classes;
use crate::harness::processor::processor_ns;
use crate::harness::programs::{Jvm, sibling};
use crate::measurement::{About, Measurement};
use crate::report::results::{Cell, Results, number};
use crate::report::statistics::{Spread, spread};
use crate::runner::{Runner, Variant};
use crate::{Error, Result};
use plimsoll_kernel::clock;
use plimsoll_runtimes::hotspot::agent::{LIBRARY, Page};
use plimsoll_runtimes::process::Process;
use plimsoll_testbed::children::end_with_us;
use plimsoll_unit::Bytes;
use plimsoll_wire::collections::{Totals, Wish};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const OWN: &str = "*: the agent takes less than 0.5 % of the time, within pauses";
const PROCESSORS: &str = "*: at most 0.5 % more processor time";
/// Both targets, percent.
const MOST: f64 = 0.5;

const SERIAL: Jvm = Jvm {
    version: 25,
    collector: "Serial",
};
const G1: [Jvm; 2] = [
    Jvm {
        version: 17,
        collector: "G1",
    },
    Jvm {
        version: 25,
        collector: "G1",
    },
];

/// The conditions of the work.
#[derive(Debug, PartialEq, Eq)]
struct Setting {
    /// Added to the name of the machine.
    name: &'static str,
    /// The heap. Its young generation is one that the program fills about 100 times a second.
    heap: [&'static str; 3],
    /// Less than the whole heap by one region, so that the agent has to look for what is free, and more than
    /// is ever resident, so that nothing goes. Bytes.
    wish: u64,
    /// Threads that do nothing.
    idle: u32,
}

const USUAL: Setting = Setting {
    name: "",
    heap: ["-Xms256m", "-Xmx256m", "-Xmn14m"],
    wish: 255 << 20,
    idle: 0,
};
/// As many regions as G1 aims at, all of which the agent looks at.
const REGIONS: Setting = Setting {
    name: ", 2048 regions",
    heap: ["-Xms4g", "-Xmx4g", "-Xmn14m"],
    wish: 4094 << 20,
    idle: 0,
};
/// Each thread has counters in the kernel, which are added up for the signal.
const CROWD: Setting = Setting {
    name: ", 2000 idle threads",
    idle: 2000,
    ..USUAL
};

/// The cases that are compared, each with the agent and without.
const CASES: [Case; 5] = [
    (G1[0], &USUAL),
    (G1[1], &USUAL),
    (SERIAL, &USUAL),
    (G1[1], &REGIONS),
    (G1[1], &CROWD),
];
type Case = (Jvm, &'static Setting);

/// Keeps compiler threads alive: those that end take their processor time with them.
const STEADY: &str = "-XX:-UseDynamicNumberOfCompilerThreads";
/// Collections until the program has been compiled and the agent loaded: from then on processor time counts.
const WARM: u64 = 100;
/// Allocation of the program in a second, MB.
const PACE: u32 = 1300;
/// The buffers that it allocates, bytes.
const BUFFER: u32 = 16 << 10;
/// Trees of 4 MB that live.
const TREES: u32 = 2;
/// Iterations of the program: 29 MB each, so 15 s in all. By what they are divided for `--slice`.
const ITERATIONS: u32 = 664;
const SLICE: u32 = 8;
/// Time between two looks at the program. A wish lasts longer.
const LOOK: Duration = Duration::from_millis(100);

/// `agent-cost`.
pub(super) struct AgentCost;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Without,
    /// It measures pauses.
    Measures,
    /// It looks at the end of each pause for what could be given back, too.
    Looks,
}

impl Mode {
    const ALL: [Mode; 3] = [Mode::Without, Mode::Measures, Mode::Looks];

    fn name(self) -> &'static str {
        match self {
            Mode::Without => "without",
            Mode::Measures => "measures",
            Mode::Looks => "measures, and looks for free heap",
        }
    }
}

/// The cost of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Took {
    /// Seconds from the start of `java` to its end.
    time: f64,
    /// Microseconds of processors from one collection to the next, once it is warm: for as many bytes.
    processors: f64,
    /// Pauses, as the machine counts them.
    pauses: f64,
    /// Seconds that the agent says that it took within pauses, by the clock, and the pauses that it saw.
    own: f64,
    seen: f64,
    /// Those of these pauses whose stalls it did not read.
    unread: f64,
}

impl Measurement for AgentCost {
    fn about(&self) -> About {
        About {
            name: "agent-cost",
            question: "What does the agent cost a Java program that is collected 100 times a second?",
            asks: &[OWN, PROCESSORS],
            minutes: 22,
            only: true,
            slice: true,
            seed: None,
        }
    }

    fn run(&self, runner: &Runner) -> Result<Results> {
        // With the program that it runs.
        let classes = Classes::of("bench/programs/Crowd.java")?;
        let divisor = if runner.slice() { SLICE } else { 1 };
        let each = CASES
            .into_iter()
            .flat_map(|case| Mode::ALL.map(|mode| (case, mode)));
        let name = |(case, mode): (Case, Mode)| {
            let name = format!("{}, {}", named(case), mode.name());
            (name, (case, mode))
        };
        let ran = runner
            .experiment(each.map(name))
            .wanted_by(|(case, _)| named(*case))
            .rotating(|(case, _)| named(*case))
            .run(|&(case, mode), _| {
                let command = command(case, mode, classes.folder(), ITERATIONS / divisor);
                once(command, mode, case.1.wish)
            })?;
        Ok(report(&ran, runner))
    }
}

fn named((jvm, setting): Case) -> String {
    format!("{}{}", jvm.name(), setting.name)
}

fn command((jvm, setting): Case, mode: Mode, classes: &Path, iterations: u32) -> Command {
    let mut command = Command::new(jvm.java());
    command.args(jvm.choice()).args(setting.heap).arg(STEADY);
    if mode != Mode::Without {
        command.arg(format!("-agentpath:{}", sibling(LIBRARY).display()));
    }
    command.arg("-cp").arg(classes).arg("Crowd");
    let numbers = [setting.idle, iterations, TREES, PACE, BUFFER];
    command.args(numbers.map(|number| number.to_string()));
    command.stdin(Stdio::null()).stdout(Stdio::null());
    end_with_us(&mut command);
    command
}

/// A child that is ended when it is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Once it was waited for, this does nothing.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn once(mut command: Command, mode: Mode, wish: u64) -> Result<Took> {
    let begin = clock::now().0;
    let child = command.spawn().map_err(Error::start(&command))?;
    let mut running = Running(child);
    let pid = running.0.id();
    let (mut page, mut collections) = (None, Collections::default());
    // Collections and processor time, when it was warm and at last.
    let (mut warm, mut last) = (None, (0, 0));
    let status = loop {
        interrupt::check()?;
        if let Some(status) = running.0.try_wait().map_err(Error::start(&command))? {
            break status;
        }
        if mode != Mode::Without && page.is_none() {
            page = Process::new(pid)
                .ok()
                .and_then(|process| Page::of(&process).ok());
        }
        if let Some(page) = page.as_ref().filter(|_| mode == Mode::Looks) {
            page.wish(Some(Wish::stay(Bytes(wish))));
        }
        collections.find(&[pid as i32]);
        let now = (collections.look().0, processor_ns(pid));
        // Its last threads may have ended.
        if now.1 > last.1 {
            last = now;
            warm = warm.or(Some(now).filter(|now| now.0 >= WARM));
        }
        std::thread::sleep(LOOK);
    };
    let time = clock::now().0 - begin;
    let name = || format!("{command:?}");
    if !status.success() {
        return Err(Error::program(name(), status.to_string()));
    }
    let warm = warm.filter(|warm| last.0 > warm.0);
    let warm = warm.ok_or_else(|| Error::program(name(), "it was hardly collected"))?;
    // The page outlives its process.
    let told = match (mode, &page) {
        (Mode::Without, _) => Some(Totals::default()),
        (_, page) => page.as_ref().and_then(|page| page.view().ok()?.totals()),
    };
    let told = told.ok_or_else(|| Error::program(LIBRARY, "it told of no pause"))?;
    Ok(Took {
        time: time as f64 / 1e9,
        processors: (last.1 - warm.1) as f64 / (last.0 - warm.0) as f64 / 1e3,
        pauses: last.0 as f64,
        own: told.agent_ns as f64 / 1e9,
        seen: told.pauses as f64,
        unread: told.unread as f64,
    })
}

type Ran = Variant<(Case, Mode), Took>;

/// By how many percent each run took more processor time than the one without the agent beside it.
fn more(variant: &Ran, ran: &[Ran]) -> Vec<f64> {
    let without = (variant.what.0, Mode::Without);
    let without = ran.iter().find(|other| other.what == without);
    let without = without.map_or(&[][..], |without| &without.outcomes);
    let pairs = variant.outcomes.iter().zip(without);
    pairs
        .map(|(one, plain)| (one.processors / plain.processors - 1.0) * 100.0)
        .collect()
}

fn of(variant: &Ran, value: impl Fn(&Took) -> f64) -> Spread {
    spread(&variant.outcomes.iter().map(value).collect::<Vec<_>>())
}

/// The agent's part of the time, percent.
fn part(took: &Took) -> f64 {
    took.own / took.time * 100.0
}

fn report(ran: &[Ran], runner: &Runner) -> Results {
    let mut results = runner
        .results(
            "A Java program that is collected about 100 times a second, with the agent and without.",
            "The program allocates 1.3 GB/s in buffers, for 15 s, beside 12 MB that live; `-Xms256m -Xmx256m \
             -Xmn14m`. One row has a heap of 2048 regions (4 GiB, hardly touched), and one 2000 \
             threads that do nothing. The agent is loaded at the start. It only measures; or \
             it is wished besides that less than the whole heap stays, so that it looks for what is free \
             at each pause, and finds that nothing has to go. Medians; processor time is that of the \
             process from one collection to the next, for as many allocated bytes, after the first 100 \
             collections. It is compared with the run without the agent in the same round: median, least \
             and most. The agent's own time is by the clock, other programs included.",
        )
        .columns(&[
            ("JVM", ""),
            ("agent", ""),
            ("pauses", "1/s"),
            ("processor time a collection", "us"),
            ("more than without", "%"),
            ("least", "%"),
            ("most", "%"),
            ("agent in a pause", "us"),
            ("agent, of the time", "%"),
            ("pauses that it did not read", "%"),
        ]);
    for variant in ran {
        let (case, mode) = variant.what;
        let only = |value: f64| match mode {
            Mode::Without => Cell::from(""),
            _ => value.into(),
        };
        let more = spread(&more(variant, ran));
        results.row([
            named(case).into(),
            mode.name().into(),
            of(variant, |took| took.pauses / took.time).median.into(),
            of(variant, |took| took.processors).median.into(),
            only(more.median),
            only(more.min),
            only(more.max),
            only(of(variant, |took| took.own / took.seen.max(1.0) * 1e6).median),
            only(of(variant, part).median),
            only(of(variant, |took| took.unread / took.seen.max(1.0) * 100.0).median),
        ]);
    }
    judge(ran, &mut results);
    results
}

fn judge(ran: &[Ran], results: &mut Results) {
    for variant in ran.iter().filter(|variant| variant.what.1 != Mode::Without) {
        let own = of(variant, part);
        let rate = of(variant, |took| took.pauses / took.time).median;
        let told = format!("{} % at {rate:.0} pauses a second", number(own.median));
        results.target(&OWN.replace('*', &variant.name), told, own.median < MOST);
        let more = spread(&more(variant, ran));
        let told = format!(
            "{} % ({} to {} %)",
            number(more.median),
            number(more.min),
            number(more.max)
        );
        results.target(&PROCESSORS.replace('*', &variant.name), told, verdict(more));
    }
}

/// Whether the target is met; `None` where pairs differ more than the target is large.
fn verdict(more: Spread) -> Option<bool> {
    match (more.max <= MOST, more.min > MOST) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_compared_with_those_beside_them() {
        let variant = |mode, processors: [f64; 2]| Variant {
            name: String::new(),
            what: (CASES[0], mode),
            outcomes: processors
                .map(|processors| Took {
                    processors,
                    ..Took::default()
                })
                .to_vec(),
        };
        let ran = [
            variant(Mode::Without, [2.0, 4.0]),
            variant(Mode::Looks, [2.02, 4.0]),
        ];
        let more = spread(&more(&ran[1], &ran));
        assert!((more.max - 1.0).abs() < 1e-9 && more.min.abs() < 1e-9);
        assert_eq!(verdict(more), None);
        assert_eq!(verdict(spread(&[0.1, 0.5])), Some(true));
        assert_eq!(verdict(spread(&[0.6, 0.9])), Some(false));
    }

    #[test]
    fn the_agents_part_is_of_all_the_time() {
        let took = Took {
            time: 10.0,
            own: 0.05,
            ..Took::default()
        };
        assert!((part(&took) - 0.5).abs() < 1e-9);
    }
}
