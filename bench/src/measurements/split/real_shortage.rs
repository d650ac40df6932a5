//! Real shortage: services whose live data fill a third to two thirds of their shares. They are drawn at
//! random, so that nothing can be tuned to one of them. The broker is compared with the best static size,
//! which is searched, and with Java virtual machines that size themselves.

use super::best_size::{BEGIN, BOUNDS, STEP, Tried};
use crate::Result;
use crate::harness::ground::Ground;
use crate::harness::java::{Classes, read_ahead};
use crate::harness::programs::{Jvm, Service, service};
use crate::harness::run_scenario::play;
use crate::harness::scenario::{Conditions, Program, Scenario};
use crate::harness::trace::Trace;
use crate::measurement::{About, Measurement};
use crate::progress::Progress;
use crate::report::results::{Cell, Results};
use crate::report::statistics::spread;
use crate::runner::{Elsewhere, Runner, V2};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Number of draws for each repetition that is asked for: the usual 5 repetitions are 20 draws.
const DRAWS_EACH: usize = 4;
/// Seed of the random numbers without `--seed`. Another seed gives other programs.
const SEED: u64 = 24;
/// The draws that also run in a guest: the first of G1 and of Serial.
const IN_GUEST: [usize; 2] = [0, 3];
/// Seconds of a run, and the seconds at its start that do not count, in which the programs fill their memory
/// and their code is compiled.
const SECONDS: f64 = 36.0;
const WARM: f64 = 4.0;
/// Bytes that a Java virtual machine takes besides its heap under this load, roughly.
const BESIDE: u64 = 40 << 20;
/// With this flag the Java virtual machine ignores the limit of its cgroup, as if it ran on a larger computer
/// together with other programs.
const BLIND: &str = "-XX:-UseContainerSupport";

const JVMS: [Jvm; 6] = [
    jvm(17, "G1"),
    jvm(21, "G1"),
    jvm(25, "G1"),
    jvm(17, "Serial"),
    jvm(21, "Serial"),
    jvm(25, "Serial"),
];

const fn jvm(version: u32, collector: &'static str) -> Jvm {
    Jvm { version, collector }
}

/// A generator of pseudo-random numbers that depend on the seed alone (Steele, Lea and Flood: SplitMix).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// The next number, in `from..=to`.
    fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.next() % (to - from + 1)
    }
}

/// A draw: several equal services in one limit.
#[derive(Clone, Copy, Debug)]
struct Draw {
    jvm: Jvm,
    count: u32,
    /// Bytes of the limit for each service.
    share: u64,
    /// The first service. The others differ only in their turns.
    service: Service,
    /// Whether it runs in a guest with cgroup version 2.
    elsewhere: bool,
}

impl Draw {
    fn at(random: &mut Random, place: usize) -> Draw {
        let count = random.between(2, 4) as u32;
        let share = random.between(200, 320);
        let live = random.between(share / 3, share * 2 / 3);
        let replaced = random.between(500, 6000) as u32;
        let besides = random.between(20_000, 120_000) as u32;
        // The three cases: busy in turn, all busy all the time, in turn but never quite idle.
        let (turn, quiet) = match random.between(0, 2) {
            0 => (8, 5),
            1 => (0, 100),
            _ => (8, random.between(10, 40) as u32),
        };
        Draw {
            jvm: JVMS[place % JVMS.len()],
            count,
            share: share << 20,
            service: Service {
                live,
                replaced,
                besides,
                turn,
                place: (0, count),
                quiet,
            },
            elsewhere: false,
        }
    }

    /// Its name in tables, such as `3 G1 17 in 750 MB, 112 MB live, in turn`.
    fn name(&self) -> String {
        let service = &self.service;
        let busy = match service.turn {
            0 => "all at once".to_owned(),
            _ => format!("in turn, else {} %", service.quiet),
        };
        format!(
            "{} {} in {} MB, {} MB live, replacing {} of {} bytes, {busy}",
            self.count,
            self.jvm.name(),
            (self.share * u64::from(self.count)) >> 20,
            service.live,
            service.replaced,
            service.besides + service.replaced,
        ) + if self.elsewhere { V2 } else { "" }
    }

    fn scenario(&self, flags: &[String], classes: &Path) -> Scenario {
        let program = |place: u32| {
            let own = Service {
                place: (place, self.count),
                ..self.service
            };
            Program {
                name: format!("service-{place}"),
                weight: 100,
                command: service(self.jvm, flags, classes, &own),
                ..Program::default()
            }
        };
        Scenario {
            budget: self.share * u64::from(self.count),
            seconds: SECONDS,
            programs: (0..self.count).map(program).collect(),
            ..Scenario::default()
        }
    }
}

/// The outcome of a run.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Outcome {
    /// Requests that all services answered.
    work: f64,
    faults: f64,
    hits: f64,
    /// Processor time per second of the broker and of each `plimsoll run`: 1 means a whole processor.
    ours: f64,
    /// Number of programs that ended too early.
    died: f64,
}

impl Outcome {
    fn of(trace: &Trace, count: usize) -> Outcome {
        let last = trace.samples.last();
        let alive = |i: &usize| last.is_some_and(|sample| sample.programs[*i].alive);
        Outcome {
            work: (0..count).map(|i| trace.work(i, WARM, SECONDS)).sum(),
            faults: (0..count)
                .map(|i| trace.count(i, |p| p.major_faults) as f64)
                .sum(),
            hits: last.map_or(0.0, |sample| sample.limit_hits as f64),
            ours: trace.ours(WARM),
            died: (count - (0..count).filter(alive).count()) as f64,
        }
    }

    /// Its work; 0 if a service died, because the others had its memory then.
    fn of_the_living(&self) -> f64 {
        if self.died > 0.0 { 0.0 } else { self.work }
    }
}

/// The runs of one draw.
#[derive(Serialize, Deserialize)]
struct Trial {
    broker: Outcome,
    statics: Tried<Outcome>,
    default: Outcome,
}

impl Trial {
    fn run(ground: &Ground, draw: &Draw, classes: &Path, progress: &Progress) -> Result<Trial> {
        let once = |variant: &str, flags: &[String], conditions| -> Result<Outcome> {
            let scenario = draw.scenario(flags, classes);
            let trace = play(ground, &scenario, conditions, &progress.part(variant))?;
            Ok(Outcome::of(&trace, draw.count as usize))
        };
        let broker = once("broker", &[], Conditions::Broker)?;
        let statics = Tried::search(|percent| {
            let heap = (draw.share.saturating_sub(BESIDE) >> 20) * percent / 100;
            let flags = [format!("-Xmx{heap}m")];
            let outcome = once(&flags[0], &flags, Conditions::Bare)?;
            Ok((outcome, outcome.of_the_living()))
        })?;
        let default = once("by itself", &[BLIND.to_owned()], Conditions::Bare)?;
        Ok(Trial {
            broker,
            statics,
            default,
        })
    }

    /// The best static size; `None` if the services survived under no static size.
    fn best(&self) -> Option<Outcome> {
        let best = self.statics.best().filter(|best| best.2 > 0.0);
        best.map(|(_, outcome, _)| *outcome)
    }

    /// Work under the broker relative to the best static size; `None` if there is none.
    fn ratio(&self) -> Option<f64> {
        self.of_best(&self.broker)
    }

    fn of_best(&self, outcome: &Outcome) -> Option<f64> {
        self.best().map(|best| outcome.work / best.work)
    }

    fn note(&self, draw: &Draw, results: &mut Results) {
        let best = self.best().map(|best| Cell::Number(best.faults));
        let relative = |ratio: Option<f64>| ratio.map_or("none lives".into(), Cell::Number);
        results.row([
            draw.name().into(),
            relative(self.ratio()),
            self.statics.label().into(),
            (self.statics.count() as u64).into(),
            relative(self.of_best(&self.default)),
            self.broker.faults.into(),
            best.unwrap_or("none lives".into()),
            self.default.faults.into(),
            self.broker.hits.into(),
            (self.broker.ours * 100.0).into(),
            self.broker.died.into(),
        ]);
    }
}

const WORK: &str = "want: at least the work of the best static size";
const FAULTS: &str = "want: at most 1 % of the major faults of machines that size themselves";
const HITS: &str = "want: the limit is hit fewer than 100 times";
const COST: &str = "want: our own processes take less than 2 % of a processor";

/// The measurement `split-want`.
pub(crate) struct SplitWant;

impl Measurement for SplitWant {
    fn about(&self) -> About {
        About {
            name: "split-want",
            question: "Throughput of services in real want, drawn from a seed, against static sizes",
            asks: &[WORK, FAULTS, HITS, COST],
            // Two runs of each draw besides the search, which takes three where the best is near its begin.
            minutes: 95,
            only: true,
            slice: false,
            seed: Some(SEED),
        }
    }

    fn run(&self, runner: &Runner) -> Result<Results> {
        let ground = runner.ground()?;
        let classes = Classes::of("bench/programs/Service.java")?;
        read_ahead(JVMS)?;
        let seed = runner.seed().unwrap_or(SEED);
        let mut random = Random(seed);
        let draws = (0..runner.repeat() * DRAWS_EACH).map(|place| Draw::at(&mut random, place));
        let draws: Vec<Draw> = draws.collect();
        let again = IN_GUEST.iter().filter_map(|&place| draws.get(place));
        let again = again.map(|draw| Draw {
            elsewhere: true,
            ..*draw
        });
        let all = draws.iter().copied().chain(again);
        let ran = runner
            .experiment(all.map(|draw| (draw.name(), draw)))
            .wanted()
            .once()
            .elsewhere(Elsewhere::user_mode(), |draw| draw.elsewhere)
            .run(|draw, turn| Trial::run(&ground, draw, classes.folder(), &turn.progress))?;
        let mut results = empty(runner, seed);
        let mut trials = Vec::new();
        for variant in ran {
            for trial in variant.outcomes {
                trial.note(&variant.what, &mut results);
                if !variant.what.elsewhere {
                    trials.push(trial);
                }
            }
        }
        targets(&trials, &mut results);
        Ok(results)
    }
}

fn empty(runner: &Runner, seed: u64) -> Results {
    let (least, most) = (BOUNDS.start(), BOUNDS.end());
    let mut results = runner.results(
        &format!(
            "Real want: services that fill their memory, drawn from seed {seed}, under the broker and with \
             the best static size."
        ),
        &format!(
            "Two to four equal services (bench/programs/Service.java) in one limit with swap: their live \
             data take a third to two thirds of their shares, and each request replaces some of them. \
             Number, sizes, replacement and activity are drawn from seed {seed}, virtual machine and \
             collector in turn. A draw is run under the broker without sizes, with static sizes, and by \
             itself (without sizes, and without the machine's look at its container); once each, 36 s. \
             Static sizes are -Xmx in percent of what an even split leaves for a heap: {BEGIN} %, then \
             steps of {STEP} points in the direction in which work rises, until both neighbours of the \
             best did less, within {least} to {most} %. A size in which a service dies counts as no work. \
             The files of the virtual machines are in memory before, and not charged to the limit. Work \
             is requests after the first 4 s; that of the broker and that by itself are relative to the \
             best static size. Hits: how often the group's limit was reached. Ours: processor time of the \
             broker and of each `plimsoll run`, in percent of one processor. v2: the same in user-mode \
             Linux with one processor under cgroup version 2, which counts for no target."
        ),
    );
    // Each draw is run only once.
    results.repetitions = 1;
    results.columns(&[
        ("draw", ""),
        ("work", "of best static"),
        ("best static", ""),
        ("sizes tried", ""),
        ("by itself", "of best static"),
        ("major faults", ""),
        ("static's", ""),
        ("by itself's", ""),
        ("hits", ""),
        ("ours", "%"),
        ("died", ""),
    ])
}

fn targets(trials: &[Trial], results: &mut Results) {
    let each =
        |value: &dyn Fn(&Trial) -> f64| spread(&trials.iter().map(value).collect::<Vec<_>>());
    let ratios: Vec<f64> = trials.iter().filter_map(Trial::ratio).collect();
    let work = spread(&ratios);
    results.target(
        WORK,
        format!(
            "median {:.2}, {:.2} to {:.2}; in {} of {} draws no static size lives",
            work.median,
            work.min,
            work.max,
            trials.len() - ratios.len(),
            trials.len()
        ),
        work.median >= 1.0,
    );
    let sum = |value: &dyn Fn(&Trial) -> f64| trials.iter().map(value).sum::<f64>();
    let (ours, theirs) = (sum(&|t| t.broker.faults), sum(&|t| t.default.faults));
    results.target(
        FAULTS,
        format!(
            "{:.2} % ({ours:.0} of {theirs:.0})",
            ours / theirs.max(1.0) * 100.0
        ),
        ours <= theirs / 100.0,
    );
    let hits = each(&|t| t.broker.hits);
    results.target(
        HITS,
        format!("median {:.0}, worst {:.0}", hits.median, hits.max),
        hits.max < 100.0,
    );
    let cost = each(&|t| t.broker.ours * 100.0);
    results.target(
        COST,
        format!("median {:.1} %, worst {:.1} %", cost.median, cost.max),
        cost.max < 2.0,
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_depend_on_the_seed_alone_and_fill_their_shares() {
        let draws = || {
            let mut random = Random(SEED);
            (0..60)
                .map(|place| Draw::at(&mut random, place))
                .collect::<Vec<_>>()
        };
        let (first, second) = (draws(), draws());
        for (one, other) in first.iter().zip(&second) {
            assert_eq!(one.service, other.service);
            let live = one.service.live << 20;
            assert!(live >= one.share / 3 - (1 << 20) && live <= one.share * 2 / 3);
        }
        let turns = |turn: u32| first.iter().filter(|d| d.service.turn == turn).count();
        assert!(turns(0) > 5 && turns(8) > 20);
    }

    #[test]
    fn the_best_static_size_in_which_all_live_is_the_rival() {
        let outcome = |work, died| Outcome {
            work,
            died,
            ..Outcome::default()
        };
        let trial = |of: &dyn Fn(u64) -> Outcome| Trial {
            broker: outcome(90.0, 0.0),
            statics: Tried::search(|size| Ok((of(size), of(size).of_the_living())))
                .expect("no run fails"),
            default: outcome(1.0, 0.0),
        };
        let one = trial(&|size| match size {
            95 => outcome(100.0, 0.0),
            105 => outcome(300.0, 1.0),
            _ => outcome(50.0, 0.0),
        });
        assert_eq!(one.statics.label(), "95 %");
        assert!((one.ratio().expect("it lives") - 0.9).abs() < 1e-9);
        let none = trial(&|_| outcome(100.0, 2.0));
        assert_eq!(
            (none.ratio(), none.statics.label().as_str()),
            (None, "none")
        );
    }
}
