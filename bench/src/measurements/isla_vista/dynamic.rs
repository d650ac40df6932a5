//! Isla Vista under pressure that changes, which the paper left open: a hog that comes and goes, and four
//! Java services in one limit that know nothing of each other. No broker runs.

use super::program_run::{nobody, steered};
use crate::Result;
use crate::harness::ground::Ground;
use crate::harness::java::{Classes, read_ahead};
use crate::harness::memory_plot::memory_plot;
use crate::harness::programs::{Jvm, NATIVE, Service, hog, service};
use crate::harness::run_scenario::play;
use crate::harness::scenario::{Conditions, Program, Scenario};
use crate::harness::trace::Trace;
use crate::measurement::{About, Measurement};
use crate::report::results::Results;
use crate::report::statistics::spread;
use crate::runner::{Runner, Variant};
use plimsoll_unit::MIB;
use serde::{Deserialize, Serialize};
use std::path::Path;

const HOG: &str = "hog, *: more work than by the default";
const WORK: &str = "four, *: at least 0.9 of the work of even sizes";
const FAIR: &str = "four, *: Jain's index of their work at least 0.95";
const CALM: &str =
    "four, *: heaps swing at most 1.6 times as much in the last third as in the one before";

/// Swap behind the cgroup, bytes.
const SWAP: u64 = 2 << 30;
const JVMS: [Jvm; 2] = [
    Jvm {
        version: 17,
        collector: "Serial",
    },
    Jvm {
        version: 17,
        collector: "G1",
    },
];
/// The maximum of a heap that may take more than there is, MiB.
const LARGE: u64 = 1024;
/// Bytes that the hog takes, and takes in a second.
const HOG_BYTES: u64 = 200 * MIB;
const HOG_RATE: u64 = 100 * MIB;
/// How long the hog stays, and how long it stays away, seconds. The first time it comes after half of that.
const TURN: f64 = 60.0;
/// When the four services start, seconds.
const STARTS: [f64; 4] = [0.0, 3.0, 10.0, 20.0];

/// Where the pressure comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum World {
    /// One service, and a hog that comes and goes.
    Hog,
    /// Four services.
    Four,
}

/// The rule that sizes the heaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// The machine, up to a large maximum.
    Default,
    /// The machine, up to a maximum that always fits: it takes knowing the world. For four services only.
    Fitting,
    /// Isla Vista, up to the large maximum.
    IslaVista,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Case {
    world: World,
    jvm: Jvm,
    rule: Rule,
}

impl World {
    fn name(self) -> &'static str {
        match self {
            World::Hog => "hog",
            World::Four => "four",
        }
    }

    /// Limit of the cgroup, bytes.
    fn budget(self) -> u64 {
        match self {
            World::Hog => 500 * MIB,
            World::Four => 800 * MIB,
        }
    }

    /// Megabytes that live in each service: enough that Serial's own rule takes more than there is.
    fn live(self) -> u64 {
        match self {
            World::Hog => 128,
            World::Four => 96,
        }
    }

    /// Seconds of a run, and from when on work counts.
    fn seconds(self) -> (f64, f64) {
        match self {
            World::Hog => (4.0 * TURN, TURN / 2.0),
            World::Four => (180.0, 60.0),
        }
    }

    fn count(self) -> usize {
        match self {
            World::Hog => 1,
            World::Four => STARTS.len(),
        }
    }

    /// The rules that are measured.
    fn rules(self) -> &'static [Rule] {
        match self {
            World::Hog => &[Rule::Default, Rule::IslaVista],
            World::Four => &[Rule::Default, Rule::Fitting, Rule::IslaVista],
        }
    }

    /// The largest heap of each service that always fits if all are of one size, MiB.
    fn fitting(self) -> u64 {
        (self.budget() / self.count() as u64 - NATIVE) / MIB
    }
}

impl Case {
    fn name(self) -> String {
        let rule = match self.rule {
            Rule::Default => "default",
            Rule::Fitting => "fitting",
            Rule::IslaVista => "isla-vista",
        };
        format!("{} {} {rule}", self.world.name(), self.jvm.name())
    }

    /// Whether it is in the representative part of 85 minutes: the collector that is most like the paper's.
    fn is_in_slice(self) -> bool {
        self.jvm.collector == "Serial"
    }

    fn scenario(self, classes: &Path, folder: &Path) -> Scenario {
        let work = Service {
            live: self.world.live(),
            replaced: 2000,
            besides: 60_000,
            turn: 0,
            place: (0, 1),
            quiet: 100,
        };
        let heap = match self.rule {
            Rule::Fitting => self.world.fitting(),
            _ => LARGE,
        };
        let java = service(self.jvm, &[format!("-Xmx{heap}m")], classes, &work);
        let ours = self.rule == Rule::IslaVista;
        let programs = STARTS.into_iter().take(self.world.count());
        let mut programs: Vec<Program> = programs
            .enumerate()
            .map(|(index, start)| Program {
                name: format!("service-{index}"),
                start,
                command: if ours {
                    steered(java.clone(), "isla-vista", true)
                } else {
                    java.clone()
                },
                env: [nobody(folder)].into(),
                launched: ours,
                ..Program::default()
            })
            .collect();
        let (seconds, _) = self.world.seconds();
        if self.world == World::Hog {
            programs.extend([0, 1].map(|turn| {
                let start = TURN / 2.0 + f64::from(turn) * 2.0 * TURN;
                Program {
                    name: format!("hog-{turn}"),
                    start,
                    stop: Some(start + TURN),
                    command: hog(HOG_BYTES, HOG_RATE),
                    outsider: true,
                    ..Program::default()
                }
            }));
        }
        Scenario {
            budget: self.world.budget(),
            seconds,
            programs,
            ..Scenario::default()
        }
    }
}

/// The measurement `isla-vista-dynamic`.
pub(crate) struct Dynamic;

impl Measurement for Dynamic {
    fn about(&self) -> About {
        About {
            name: "isla-vista-dynamic",
            question: "Do Java heaps that follow their stalls come back after a hog, and share a limit?",
            asks: &[HOG, WORK, FAIR, CALM],
            minutes: 175,
            only: true,
            slice: true,
            seed: None,
        }
    }

    fn run(&self, runner: &Runner) -> Result<Results> {
        let ground = Ground::with_swap(runner.name(), SWAP)?;
        let classes = Classes::of("bench/programs/Service.java")?;
        read_ahead(JVMS)?;
        let wanted = cases().filter(|case| !runner.slice() || case.is_in_slice());
        let named = wanted.map(|case| (case.name(), case));
        let experiment = runner.experiment(named).wanted();
        let experiment = experiment.rotating(|case| (case.world, case.jvm));
        let ran = experiment.by_group().run(|case, turn| {
            let scenario = case.scenario(classes.folder(), ground.folder());
            let trace = play(&ground, &scenario, Conditions::Bare, &turn.progress)?;
            if turn.first && case.rule == Rule::IslaVista {
                let title = format!("Isla Vista: {}", turn.variant);
                let part = format!(
                    "{}-{}",
                    case.world.name(),
                    case.jvm.collector.to_lowercase()
                );
                runner.plot(&part, &memory_plot(&title, &scenario, &trace))?;
            }
            Ok(Outcome::of(case.world, &trace))
        })?;
        Ok(report(&ran, runner))
    }
}

fn cases() -> impl Iterator<Item = Case> {
    let worlds = [World::Hog, World::Four].into_iter();
    let machines = worlds.flat_map(|world| JVMS.map(|jvm| (world, jvm)));
    machines.flat_map(|(world, jvm)| {
        let rules = world.rules().iter();
        rules.map(move |&rule| Case { world, jvm, rule })
    })
}

/// The outcome of one run. Killed services count with the work that they had done until then.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Outcome {
    /// Requests a second of all services, in the time that counts.
    work: f64,
    /// Jain's index of the services' work: 1 where all did the same.
    fairness: f64,
    /// How much more the heaps swing in the last third of the time that counts than in the one before.
    swing: f64,
    faults: f64,
    /// Services that were killed.
    killed: f64,
}

impl Outcome {
    fn of(world: World, trace: &Trace) -> Outcome {
        let (seconds, from) = world.seconds();
        let services = 0..world.count();
        let works = services
            .clone()
            .map(|index| trace.work(index, from, seconds));
        let works: Vec<f64> = works.collect();
        let third = (seconds - from) / 3.0;
        let swings = |from: f64| {
            let each = services
                .clone()
                .map(|index| swing(trace, index, from, from + third));
            each.fold(1.0, f64::max)
        };
        let endings = trace.endings.iter().take(world.count());
        Outcome {
            work: works.iter().sum::<f64>() / (seconds - from),
            fairness: jain(&works),
            swing: swings(from + 2.0 * third) / swings(from + third),
            faults: services
                .map(|i| trace.count(i, |seen| seen.major_faults) as f64)
                .sum(),
            killed: endings.filter(|ending| ending.killed).count() as f64,
        }
    }
}

/// The largest size of a service between two times against its least, swap included; 1 if it did not run.
fn swing(trace: &Trace, index: usize, from: f64, to: f64) -> f64 {
    let programs = trace
        .between(from, to)
        .filter_map(|sample| sample.programs.get(index));
    let sizes = programs
        .filter(|seen| seen.alive)
        .map(|seen| (seen.uses + seen.swapped) as f64);
    let (least, most) = sizes.fold((f64::MAX, 0.0), |(least, most), size| {
        (f64::min(least, size), f64::max(most, size))
    });
    f64::max(most / least.max(1.0), 1.0)
}

/// Jain's index of fairness: 1 where all are the same, 1 of their number where one has all.
fn jain(values: &[f64]) -> f64 {
    let sum: f64 = values.iter().sum();
    let squares: f64 = values.iter().map(|value| value * value).sum();
    if squares > 0.0 {
        sum * sum / squares / values.len() as f64
    } else {
        0.0
    }
}

fn median(outcomes: &[Outcome], of: fn(&Outcome) -> f64) -> f64 {
    spread(&outcomes.iter().map(of).collect::<Vec<_>>()).median
}

fn report(ran: &[Variant<Case, Outcome>], runner: &Runner) -> Results {
    let slice = runner.slice().then_some(" A slice: Serial.");
    let method = format!(
        "No broker; JDK 17; our service, which works all the time. hog: one service with 128 MB alive in \
         500 MiB for 240 s; from second 30 on a hog takes 200 MiB for every second minute, and work \
         counts. four: four services with 96 MB alive each in 800 MiB, started within 20 s, for 180 s; work \
         counts from second 60 on. default: -Xmx1024m; fitting (four only): the largest -Xmx that always \
         fits; isla-vista: -Xmx1024m under `plimsoll run --policy isla-vista --agent auto`.{}",
        slice.unwrap_or_default()
    );
    let mut results = runner
        .results("Java services under pressure that changes.", &method)
        .columns(&[
            ("services", ""),
            ("work", "1/s"),
            ("fairness", ""),
            ("swing, later against earlier", ""),
            ("major faults", ""),
            ("killed", ""),
        ]);
    for variant in ran {
        let of = |of: fn(&Outcome) -> f64| median(&variant.outcomes, of);
        results.row([
            variant.name.as_str().into(),
            of(|o| o.work).into(),
            of(|o| o.fairness).into(),
            of(|o| o.swing).into(),
            of(|o| o.faults).into(),
            of(|o| o.killed).into(),
        ]);
    }
    let ran_at_all = |jvm: &Jvm| ran.iter().any(|variant| variant.what.jvm == *jvm);
    for jvm in JVMS.into_iter().filter(ran_at_all) {
        let find = |world, rule| {
            let case = Case { world, jvm, rule };
            let found = ran.iter().find(|variant| variant.what == case);
            found.map(|variant| variant.outcomes.as_slice())
        };
        judge(&mut results, &jvm.name(), find);
    }
    results
}

/// A claim, what was measured, and which values meet it.
type Claim = (&'static str, Option<f64>, fn(f64) -> bool);

/// Judges one machine. `find` gives its outcomes.
fn judge<'a>(
    results: &mut Results,
    name: &str,
    find: impl Fn(World, Rule) -> Option<&'a [Outcome]>,
) {
    let ratio = |world, rule| {
        let work = |rule| Some(median(find(world, rule)?, |o| o.work));
        Some(work(Rule::IslaVista)? / work(rule)?.max(1e-9))
    };
    let four = |of| Some(median(find(World::Four, Rule::IslaVista)?, of));
    let claims: [Claim; 4] = [
        (HOG, ratio(World::Hog, Rule::Default), |ratio| ratio > 1.0),
        (WORK, ratio(World::Four, Rule::Fitting), |ratio| {
            ratio >= 0.9
        }),
        (FAIR, four(|o: &Outcome| o.fairness), |index| index >= 0.95),
        (CALM, four(|o: &Outcome| o.swing), |swing| swing <= 1.6),
    ];
    for (claim, value, met) in claims {
        let told = value.map_or_else(|| "not measured".to_owned(), |value| format!("{value:.2}"));
        let claim = claim.replacen('*', name, 1);
        results.target(&claim, told, value.map(met));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::trace::{Sample, Seen};

    #[test]
    fn every_case_has_its_own_name_and_fits() {
        let names: std::collections::BTreeSet<String> = cases().map(Case::name).collect();
        assert_eq!(names.len(), cases().count());
        for case in cases() {
            let scenario = case.scenario(Path::new("/classes"), Path::new("/folder"));
            let services = scenario.programs.iter().filter(|program| !program.outsider);
            assert_eq!(services.count(), case.world.count());
            if case.rule == Rule::Fitting {
                let (live, fitting) = (case.world.live() * MIB, case.world.fitting() * MIB);
                assert!(fitting > live * 5 / 4, "{}", case.name());
            }
            assert!(LARGE * MIB > case.world.budget());
        }
    }

    #[test]
    fn fairness_and_swings_are_as_they_are_defined() {
        assert_eq!(jain(&[3.0, 3.0, 3.0, 3.0]), 1.0);
        assert_eq!(jain(&[8.0, 0.0, 0.0, 0.0]), 0.25);
        assert_eq!((jain(&[]), jain(&[0.0])), (0.0, 0.0));
        let sizes = [(1.0, 100), (2.0, 300), (3.0, 200)];
        let samples = sizes.map(|(at, uses)| Sample {
            at,
            programs: vec![Seen {
                alive: true,
                uses,
                ..Seen::default()
            }],
            ..Sample::default()
        });
        let trace = Trace {
            samples: samples.into(),
            ..Trace::default()
        };
        assert_eq!(swing(&trace, 0, 0.0, 9.0), 3.0);
        assert_eq!(
            (swing(&trace, 0, 3.0, 9.0), swing(&trace, 1, 0.0, 9.0)),
            (1.0, 1.0)
        );
    }
}
