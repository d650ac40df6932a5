//! Isla Vista in the model of paging heaps: Figure 3 of its paper, four heaps in one memory, a hog that comes
//! and goes. Nothing is measured: the same code always gives the same figures, on any machine.

use crate::Result;
use crate::measurement::{About, Measurement};
use crate::report::plot::Plot;
use crate::report::results::{Cell, Results};
use crate::runner::Runner;
use plimsoll_picture::chart::{Kind, Series};
use plimsoll_policy::sizing::Ratios;
use plimsoll_sim::paging::setups::{LARGE, Rule, Setup};
use plimsoll_sim::paging::{Costs, Outcome, Plan};
use plimsoll_unit::{Bytes, MIB, SECOND};

const PLATEAU: &str =
    "under pressure at most 1.5 times the default without pressure, at every maximum";
const CALM: &str = "without pressure within 2 % of the default";
const GAIN: &str =
    "default / Isla Vista at the largest maximum: geometric mean at least 3.7, the paper's";
const FOUR: &str = "four heaps: at least 0.9 of the work of the even split";

/// `isla-vista-model`.
pub(super) struct IslaVistaModel;

const MENDED: Rule = Rule::IslaVista(Ratios::MENDED);
const PAPER: Rule = Rule::IslaVista(Ratios::PAPER);
const PLANS: [(&str, Plan); 3] = [
    ("mark-sweep", Plan::MarkSweep),
    ("semispace", Plan::SemiSpace),
    ("generational", Plan::Generational),
];
const SWAPS: [(&str, Costs); 2] = [
    ("the paper's disk", Costs::DISK),
    ("solid state", Costs::SOLID_STATE),
];
/// The memory under pressure, bytes.
const ROOM: Bytes = Bytes::mib(144);
/// Maximum heaps, MiB.
const SIZES: [u64; 14] = [
    56, 64, 72, 80, 96, 112, 128, 160, 192, 224, 256, 320, 416, 512,
];

impl Measurement for IslaVistaModel {
    fn about(&self) -> About {
        About {
            name: "isla-vista-model",
            question: "Isla Vista in a model of heaps that page: does it stay on the plateau?",
            asks: &[PLATEAU, CALM, GAIN, FOUR],
            minutes: 1,
            only: false,
            slice: false,
            seed: None,
        }
    }

    fn run(&self, runner: &Runner) -> Result<Results> {
        let mut results = runner
            .results(
                "Alone: time at a maximum of 512 MiB in 144 MiB, as a multiple of that of the default \
                 with enough memory. Four, and beside a hog: work as a part of that of the best \
                 fixed size.",
                "A model, not a measurement: it gives the same figures on every machine.",
            )
            .columns(&[
                ("programs", ""),
                ("heap", ""),
                ("swap", ""),
                ("default", ""),
                ("as in the paper", ""),
                ("Isla Vista", ""),
            ]);
        results.repetitions = 1;
        let mut worst = Worst::default();
        for (heap, plan) in PLANS {
            for (swap, costs) in SWAPS {
                runner.progress(heap).tell(format_args!("{swap}"));
                let setup = Setup {
                    costs,
                    ..Setup::new(plan, MENDED)
                };
                worst.look(setup);
                for (programs, values) in [
                    ("alone", alone(setup)),
                    ("four", four(setup)),
                    ("beside a hog", beside(setup)),
                ] {
                    let [default, paper, ours] = values.map(Cell::from);
                    if programs == "four" {
                        worst.four = worst.four.min(values[2]);
                    }
                    results.row([
                        programs.into(),
                        heap.into(),
                        swap.into(),
                        default,
                        paper,
                        ours,
                    ]);
                }
            }
        }
        worst.judge(&mut results);
        draw(runner)?;
        Ok(results)
    }
}

/// The figures that are judged.
struct Worst {
    plateau: f64,
    calm: f64,
    gains: Vec<f64>,
    four: f64,
}

impl Default for Worst {
    fn default() -> Worst {
        Worst {
            plateau: 0.0,
            calm: 0.0,
            gains: Vec::new(),
            four: f64::INFINITY,
        }
    }
}

impl Worst {
    fn look(&mut self, setup: Setup) {
        for most in SIZES {
            let default = seconds(setup.with(Rule::Maximum), most, None);
            self.plateau = self.plateau.max(seconds(setup, most, Some(ROOM)) / default);
            self.calm = self.calm.max(seconds(setup, most, None) / default);
        }
        if setup.costs == Costs::DISK {
            let [default, _, ours] = alone(setup);
            self.gains.push(default / ours);
        }
    }

    fn judge(&self, results: &mut Results) {
        let gain = self.gains.iter().product::<f64>();
        let gain = gain.powf(1.0 / self.gains.len().max(1) as f64);
        let (plateau, calm) = (self.plateau, self.calm);
        results.target(
            PLATEAU,
            format!("{plateau:.2} times at worst"),
            plateau <= 1.5,
        );
        let more = (calm - 1.0) * 100.0;
        results.target(
            CALM,
            format!("{more:.1} % more time at worst"),
            calm <= 1.02,
        );
        results.target(GAIN, format!("{gain:.1} (the paper's disk)"), gain >= 3.7);
        results.target(FOUR, format!("{:.2} at worst", self.four), self.four >= 0.9);
    }
}

/// Seconds that one program takes with a heap of at most `most` MiB.
fn seconds(setup: Setup, most: u64, room: Option<Bytes>) -> f64 {
    setup.alone(Bytes::mib(most), room).ended.0 as f64 / SECOND as f64
}

/// Time in too little memory, as a multiple of the default's in enough: with the default, the paper's rule
/// and ours.
fn alone(setup: Setup) -> [f64; 3] {
    let default = seconds(setup.with(Rule::Maximum), 512, None);
    [Rule::Maximum, PAPER, MENDED].map(|rule| seconds(setup.with(rule), 512, Some(ROOM)) / default)
}

fn work(outcomes: &[Outcome]) -> f64 {
    outcomes.iter().map(|one| one.allocated).sum::<Bytes>().0 as f64
}

/// Work of four programs, as a part of that of the best even split: with the default, the paper's rule and
/// ours.
fn four(setup: Setup) -> [f64; 3] {
    let fixed =
        [96, 112, 128, 140].map(|most| work(&setup.with(Rule::Maximum).four(Bytes::mib(most))));
    let best = fixed.into_iter().fold(0.0, f64::max);
    [Rule::Maximum, PAPER, MENDED].map(|rule| work(&setup.with(rule).four(LARGE)) / best)
}

/// Work beside a hog, as a part of that with the best fixed size: with the default, the paper's rule and
/// ours.
fn beside(setup: Setup) -> [f64; 3] {
    let with = |rule, most| work(&[setup.with(rule).beside_a_hog(most)]);
    let fixed = [96, 112, 128, 256, 320].map(|most| with(Rule::Maximum, Bytes::mib(most)));
    let best = fixed.into_iter().fold(0.0, f64::max);
    [Rule::Maximum, PAPER, MENDED].map(|rule| with(rule, LARGE) / best)
}

fn draw(runner: &Runner) -> Result<()> {
    let setup = Setup::new(Plan::MarkSweep, MENDED);
    let line = |name: &str, colour, rule, room| Series {
        name: name.to_owned(),
        points: SIZES
            .iter()
            .map(|most| (*most as f64, seconds(setup.with(rule), *most, room)))
            .collect(),
        colour,
        kind: if room.is_none() {
            Kind::Dashed
        } else {
            Kind::Line
        },
        ..Series::default()
    };
    let plot = Plot {
        title: "Time by maximum heap (model: mark-sweep, 144 MiB)".to_owned(),
        note: "Dashed: in enough memory".to_owned(),
        unit: "seconds".to_owned(),
        across: "maximum heap, MiB".to_owned(),
        series: vec![
            line("default", 1, Rule::Maximum, Some(ROOM)),
            line("Isla Vista", 0, MENDED, Some(ROOM)),
            line("", 1, Rule::Maximum, None),
            line("", 0, MENDED, None),
        ],
        ..Plot::default()
    };
    runner.plot("", &plot)?;
    let setup = Setup::new(Plan::Generational, MENDED);
    runner.plot("hog", &hog(setup))?;
    runner.plot("four", &together(setup))
}

/// The size of a heap over time, MiB.
fn sizes(name: &str, colour: usize, outcome: &Outcome) -> Series {
    let mut points: Vec<(f64, f64)> = Vec::new();
    for point in &outcome.points {
        let at = (point.now.0 as f64 / SECOND as f64).floor();
        let size = point.size.0 as f64 / MIB as f64;
        // One point a second is enough for a picture.
        if points.last().is_none_or(|last| last.0 < at) {
            points.push((at, size));
        }
    }
    Series {
        name: name.to_owned(),
        points,
        colour,
        ..Series::default()
    }
}

fn hog(setup: Setup) -> Plot {
    let held = (0..5).flat_map(|turn| {
        let at = 30.0 + 120.0 * f64::from(turn);
        [
            (at, 340.0),
            (at + 1.0, 140.0),
            (at + 60.0, 140.0),
            (at + 60.0, 340.0),
        ]
    });
    let left = Series {
        name: "memory".to_owned(),
        points: std::iter::once((0.0, 340.0))
            .chain(held)
            .chain([(600.0, 340.0)])
            .collect(),
        colour: 6,
        kind: Kind::Area,
        ..Series::default()
    };
    let run = |rule| setup.with(rule).beside_a_hog(LARGE);
    Plot {
        title: "Heap size while a hog comes and goes (model: generational)".to_owned(),
        unit: "MiB".to_owned(),
        series: vec![
            left,
            sizes("Isla Vista", 0, &run(MENDED)),
            sizes("as in the paper", 1, &run(PAPER)),
        ],
        ..Plot::default()
    }
}

fn together(setup: Setup) -> Plot {
    let four = setup.four(LARGE);
    let series = four.iter().enumerate();
    Plot {
        title: "Four heaps in 576 MiB, each with Isla Vista alone (model: generational)".to_owned(),
        unit: "MiB".to_owned(),
        series: series
            .map(|(index, one)| sizes(&format!("heap {}", index + 1), index, one))
            .collect(),
        ..Plot::default()
    }
}
