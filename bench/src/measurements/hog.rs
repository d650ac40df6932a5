//! An unrelated program (a hog) takes half of the memory at 100 MB/s. How much work does that cost the
//! others?
//!
//! As in the paper's section 5.1, the hog runs beside programs that adapt and beside programs of a fixed
//! size. The programs that adapt are compared with themselves in all of the memory and in half of it, with
//! the same hog outside of the budget. No schedule can do more beside the hog than in half of the memory
//! from the start: that is the ceiling.

use crate::Result;
use crate::harness::memory_plot::memory_plot;
use crate::harness::programs::{hog, trio};
use crate::harness::run_scenario::play;
use crate::harness::scenario::{Conditions, Program, Scenario};
use crate::harness::trace::Trace;
use crate::measurement::{About, Measurement};
use crate::report::results::Results;
use crate::report::statistics::spread;
use crate::runner::{Elsewhere, Runner, V2, Variant};
use serde::{Deserialize, Serialize};

/// How large and how long a run is.
#[derive(Clone, Copy, Debug)]
struct Size {
    /// Bytes that the three programs and the hog share. The hog takes half of them.
    budget: u64,
    /// Bytes that the hog takes in a second.
    rate: u64,
    /// When the hog starts, in seconds since the start of the run.
    begin: f64,
    /// How long a run is, seconds.
    seconds: f64,
    /// Whether it runs in a guest with cgroup version 2.
    elsewhere: bool,
}

const HERE: Size = Size {
    budget: 1500 << 20,
    rate: 100_000_000,
    begin: 15.0,
    seconds: 60.0,
    elsewhere: false,
};
/// In a guest programs start slowly, and a page fault takes a hundred times as long.
const IN_GUEST: Size = Size {
    budget: 1000 << 20,
    rate: 20_000_000,
    begin: 45.0,
    seconds: 120.0,
    elsewhere: true,
};
/// Weights of Guile, of Lucene with G1 and of Lucene with Serial.
const WEIGHTS: [u32; 3] = [10, 40, 20];

/// The outcome of one run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Outcome {
    /// Work of each of the three programs from the hog's start to the end of the run.
    work: [f64; 3],
    /// Time of a fixed piece of work of the harness in that time, ns.
    yardstick: f64,
    major_faults: u64,
    swap_traffic: u64,
    limit_hits: u64,
    killed: usize,
    /// Seconds that the hog took to get its memory.
    hog: f64,
}

const NOBODY: &str = "no program is killed";
const FAULTS: &str = "major faults at most 1 % of those without the broker";
const WORK: &str = "work at least 95 % of that with the hog's memory absent from the start";
const LOSES: &str = "with the hog: at most 1.07 of the time that the same work takes without (the paper's; \
                     geometric mean of the three)";
/// Walfield's Table 2, the adaptive schedule: 303.9 s with the hog, 284.8 s without.
const PAPER: f64 = 1.07;

/// The measurement `hog`.
pub(super) struct Hog;

impl Measurement for Hog {
    fn about(&self) -> About {
        About {
            name: "hog",
            question: "Who pays when an unrelated program takes half of the memory?",
            asks: &[NOBODY, FAULTS, WORK, LOSES],
            minutes: 65,
            only: true,
            slice: false,
            seed: None,
        }
    }

    fn run(&self, runner: &Runner) -> Result<Results> {
        let ground = runner.ground()?;
        let variants = [HERE, IN_GUEST].into_iter().flat_map(variants);
        let ran = runner
            .experiment(variants)
            .wanted()
            .rotating(|one| one.size.elsewhere)
            .by_group()
            .elsewhere(Elsewhere::user_mode(), |one| one.size.elsewhere)
            .run(|one, turn| {
                let trace = play(&ground, &one.scenario, one.conditions, &turn.progress)?;
                if turn.first {
                    let title = format!("A hog takes half: {}", turn.variant);
                    let plot = memory_plot(&title, &one.scenario, &trace);
                    runner.plot(&one.index.to_string(), &plot)?;
                }
                Ok(judge(one, &trace))
            })?;
        Ok(report(&ran, runner))
    }
}

/// A variant: the number of its picture and its conditions.
#[derive(Clone, Debug)]
struct Case {
    index: usize,
    conditions: Conditions,
    scenario: Scenario,
    size: Size,
}

/// Number of variants of a size.
const EACH: usize = 4;

/// The variants of a size, in the order in which they are judged.
fn variants(size: Size) -> [(String, Case); EACH] {
    let half = size.budget / 2;
    let (broker, bare) = (Conditions::Broker, Conditions::Bare);
    let each = [
        (
            "broker, hog",
            broker,
            scenario(size, size.budget, true, false),
        ),
        (
            "fixed sizes, hog",
            bare,
            scenario(size, size.budget, true, true),
        ),
        (
            "broker, half the memory, hog elsewhere",
            broker,
            scenario(size, half, false, false),
        ),
        (
            "broker, all of the memory, hog elsewhere",
            broker,
            scenario(size, size.budget, false, false),
        ),
    ];
    let mut index = 0;
    each.map(|(name, conditions, scenario)| {
        index += 1;
        let case = Case {
            index: index - 1,
            conditions,
            scenario,
            size,
        };
        (
            format!("{name}{}", if size.elsewhere { V2 } else { "" }),
            case,
        )
    })
}

const TITLE: &str = "An unrelated program takes half of 1500 MB at 100 MB/s and keeps it.";
const METHOD: &str = "\
     Guile (weight 10), Lucene on JDK 17 (G1, weight 40) and on JDK 25 (Serial, weight 20); the \
     hog begins at 15 s and locks what it takes. Work is what the programs did from then to 60 s, relative \
     to the run in which the hog's memory is absent from the start: half of the budget, and the same hog, \
     but outside of it. That run is also the ceiling of the last target: no schedule does more beside the \
     hog. The time for the same work is the work without the hog (all of the budget, the hog outside of it) \
     by that with it. Fixed sizes: no broker, each program has the size of its share of all of the \
     memory for good (-Xms and -Xmx; libgc told to collect at that size only). Yardstick: processor time \
     of a fixed piece of work in the harness, ten times a second, which tells when a run had a slower \
     machine than another. v2: 1000 MB in user-mode Linux with one processor under cgroup version 2; the \
     hog begins at 45 s and takes 20 MB/s, and a run ends at 120 s; it counts for the first target only.";
const COLUMNS: [(&str, &str); 10] = [
    ("conditions", ""),
    ("work, Guile", ""),
    ("work, G1 17", ""),
    ("work, Serial 25", ""),
    ("major faults of the three", ""),
    ("swapped pages", ""),
    ("limit hit", ""),
    ("killed", ""),
    ("hog done after", "s"),
    ("yardstick", "µs"),
];

fn median(outcomes: &[Outcome], pick: impl Fn(&Outcome) -> f64) -> f64 {
    spread(&outcomes.iter().map(pick).collect::<Vec<_>>()).median
}

fn report(ran: &[Variant<Case, Outcome>], runner: &Runner) -> Results {
    let mut results = runner.results(TITLE, METHOD).columns(&COLUMNS);
    let beside_hog = ran.iter().filter(|one| one.what.index == 0);
    let killed = beside_hog.flat_map(|one| &one.outcomes).map(|o| o.killed);
    let killed: usize = killed.sum();
    results.target(NOBODY, format!("{killed} killed"), killed == 0);
    for size in ran.chunk_by(|a, b| a.what.size.elsewhere == b.what.size.elsewhere) {
        // A size is judged once all of its variants have rows.
        if size.len() == EACH {
            note(&mut results, size);
        }
    }
    results
}

/// Notes the variants of a size, and judges them if it is that of this machine.
fn note(results: &mut Results, ran: &[Variant<Case, Outcome>]) {
    let outcomes: Vec<&[Outcome]> = ran.iter().map(|variant| &variant.outcomes[..]).collect();
    let base = [0, 1, 2].map(|i| median(outcomes[2], |o| o.work[i]).max(1e-9));
    for Variant { name, outcomes, .. } in ran {
        let work = |i: usize| median(outcomes, |o| o.work[i]) / base[i];
        results.row([
            name.as_str().into(),
            work(0).into(),
            work(1).into(),
            work(2).into(),
            median(outcomes, |o| o.major_faults as f64).into(),
            median(outcomes, |o| o.swap_traffic as f64).into(),
            median(outcomes, |o| o.limit_hits as f64).into(),
            median(outcomes, |o| o.killed as f64).into(),
            median(outcomes, |o| o.hog).into(),
            (median(outcomes, |o| o.yardstick) / 1000.0).into(),
        ]);
    }
    if ran[0].what.size.elsewhere {
        return;
    }
    let faults = [0, 1].map(|v| median(outcomes[v], |o| o.major_faults as f64));
    results.target(
        FAULTS,
        format!("{:.0} against {:.0}", faults[0], faults[1]),
        faults[0] <= 0.01 * faults[1],
    );
    judge_work(results, &outcomes, &base);
    judge_time(results, &outcomes);
}

/// Judges the time for the same work as without the hog, beside what it takes in half of the memory from the
/// start.
fn judge_time(results: &mut Results, outcomes: &[&[Outcome]]) {
    let time = |with: &[Outcome]| {
        let each = [0, 1, 2].map(|i| {
            let work = |of: &[Outcome]| median(of, |o| o.work[i]).max(1e-9);
            work(outcomes[3]) / work(with)
        });
        (each.iter().product::<f64>().cbrt(), each)
    };
    let (ours, each) = time(outcomes[0]);
    let (ceiling, _) = time(outcomes[2]);
    let each = each.map(|one| format!("{one:.2}")).join(", ");
    let is_measured = [0, 1, 2]
        .iter()
        .all(|&i| median(outcomes[3], |o| o.work[i]) > 1.0);
    results.target(
        LOSES,
        format!("{ours:.2} ({each}); in half of the memory from the start {ceiling:.2}"),
        is_measured && ours <= PAPER,
    );
}

/// Judges the work beside the hog, relative to `base`: the work in half of the memory, with the hog outside
/// of the budget.
fn judge_work(results: &mut Results, outcomes: &[&[Outcome]], base: &[f64; 3]) {
    let works = [0, 1, 2].map(|i| median(outcomes[0], |o| o.work[i]) / base[i]);
    let least = works.iter().copied().fold(f64::MAX, f64::min);
    let pairs = || outcomes[0].iter().zip(outcomes[2]);
    let apart = [0, 1, 2].map(|i| {
        let ratio = |(o, base): (&Outcome, &Outcome)| o.work[i] / base.work[i].max(1e-9);
        let all = spread(&pairs().map(ratio).collect::<Vec<_>>());
        // On a slower machine programs do less work and the yardstick takes longer, so their product is the
        // same.
        let even = |pair: (&Outcome, &Outcome)| {
            ratio(pair) * pair.0.yardstick / pair.1.yardstick.max(1e-9)
        };
        let even = spread(&pairs().map(even).collect::<Vec<_>>()).median;
        format!(
            "{:.2} ({:.2} to {:.2}; {even:.2})",
            works[i], all.min, all.max
        )
    });
    results.target(
        WORK,
        format!(
            "{}; in brackets single pairs, and their median by the yardstick",
            apart.join(", ")
        ),
        least >= 0.95 && base.iter().all(|&work| work > 1.0),
    );
}

fn judge(case: &Case, trace: &Trace) -> Outcome {
    let Size {
        budget,
        begin,
        seconds,
        ..
    } = case.size;
    let last = trace.samples.last().cloned().unwrap_or_default();
    let hog = case.scenario.programs.iter().position(|p| p.outsider);
    let grown = |index: usize| {
        let full = trace
            .samples
            .iter()
            .find(|s| s.programs[index].uses + s.programs[index].swapped >= budget / 2 - (8 << 20));
        full.map_or(seconds - begin, |s| s.at - begin)
    };
    Outcome {
        work: [0, 1, 2].map(|i| trace.work(i, begin, seconds)),
        yardstick: trace.yardstick_ns(begin, seconds),
        major_faults: (0..3).map(|i| trace.count(i, |p| p.major_faults)).sum(),
        swap_traffic: last.swap_traffic,
        limit_hits: last.limit_hits,
        killed: trace.endings.iter().filter(|e| e.killed).count(),
        hog: hog.map_or(0.0, grown),
    }
}

fn scenario(size: Size, budget: u64, hog_inside: bool, fixed: bool) -> Scenario {
    let mut programs = trio(WEIGHTS, fixed.then_some(size.budget));
    programs.push(Program {
        name: "hog".to_owned(),
        start: size.begin,
        command: hog(size.budget / 2, size.rate),
        outsider: true,
        elsewhere: !hog_inside,
        ..Program::default()
    });
    Scenario {
        budget,
        seconds: size.seconds,
        programs,
        ..Scenario::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The last verdict, by the work of the three with the hog, in half of the memory, and without the hog.
    fn judged(with: [f64; 3], half: [f64; 3], without: [f64; 3]) -> (String, Option<bool>) {
        let all = [with, [1.0; 3], half, without].map(|work| {
            vec![Outcome {
                work,
                ..Outcome::default()
            }]
        });
        let outcomes: Vec<&[Outcome]> = all.iter().map(Vec::as_slice).collect();
        let mut results = Results::new("hog", "", "", 1);
        judge_time(&mut results, &outcomes);
        let target = results.targets.remove(0);
        (target.measured, target.met)
    }

    #[test]
    fn the_time_for_the_same_work_is_judged_by_the_papers_figure() {
        let without = [100.0, 200.0, 400.0];
        let told = "1.06 (1.00, 1.00, 1.20); in half of the memory from the start 1.00";
        let found = judged([100.0, 200.0, 333.3], without, without);
        assert_eq!(found, (told.to_owned(), Some(true)));
        assert_eq!(
            judged([50.0, 200.0, 400.0], without, without).1,
            Some(false)
        );
        assert_eq!(judged([0.0; 3], [0.0; 3], [0.0; 3]).1, Some(false));
    }
}
