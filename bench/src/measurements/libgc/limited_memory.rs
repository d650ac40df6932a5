//! Workloads in less memory than they would take, with several collectors.

use super::run_workloads::{Runs, Stage, cell, ratio};
use crate::Result;
use crate::harness::ground::SWAP;
use crate::harness::job::{Conditions, Outcome};
use crate::harness::libgc::{Collector, SYSTEM, Workload};
use crate::harness::programs::hog;
use crate::report::results::Results;
use crate::runner::{Elsewhere, Runner, Turn, V2};

/// A run is killed once it takes this many times as long as with libgc and no limit.
const PATIENCE: f64 = 8.0;
/// Bytes per second that the process beside a program takes, 1 MiB every 100 ms.
const RATE: u64 = 10 << 20;
/// Bytes that this process takes for itself.
const OWN: u64 = 8 << 20;

/// A kind of memory shortage. Numbers are percent of the peak of resident memory with libgc and no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pressure {
    None,
    /// Memory is limited to this much.
    Limit(u32),
    /// Memory is limited to the peak, and another process takes and locks this much of it, little
    /// by little.
    Growing(u32),
}

impl Pressure {
    pub(super) fn name(self) -> String {
        match self {
            Pressure::None => "none".to_owned(),
            Pressure::Limit(percent) => format!("limit {percent} %"),
            Pressure::Growing(percent) => format!("grows to {percent} %"),
        }
    }

    fn conditions(self, peak: u64, longest: f64) -> Conditions {
        let part = |percent: u32| peak / 100 * u64::from(percent);
        let (limit, beside) = match self {
            Pressure::None => (None, None),
            Pressure::Limit(percent) => (Some(part(percent)), None),
            Pressure::Growing(percent) => (Some(peak + OWN), Some(hog(part(percent), RATE))),
        };
        Conditions {
            limit,
            beside,
            longest,
        }
    }
}

/// A workload under several pressures. Its first level is without pressure.
pub(super) struct Pressed {
    pub(super) name: String,
    workload: Workload,
    /// Number of copies that run at the same time.
    copies: usize,
    pub(super) levels: Vec<Level>,
    /// Name of the plot of utilization under the first pressure, if one is drawn.
    plot: Option<&'static str>,
    /// Whether it runs in a guest with cgroup version 2.
    elsewhere: bool,
}

/// One pressure, and the runs of each collector under it.
pub(super) struct Level {
    pub(super) pressure: Pressure,
    pub(super) runs: Vec<Runs>,
}

impl Pressed {
    pub(super) fn new(workload: Workload, pressures: &[Pressure]) -> Pressed {
        let levels = [Pressure::None].iter().chain(pressures);
        Pressed {
            name: workload.name.clone(),
            workload,
            copies: 1,
            levels: levels
                .map(|&pressure| Level {
                    pressure,
                    runs: Vec::new(),
                })
                .collect(),
            plot: None,
            elsewhere: false,
        }
    }

    /// Runs it in a guest with cgroup version 2.
    pub(super) fn elsewhere(mut self) -> Pressed {
        self.elsewhere = true;
        self.name += V2;
        self
    }

    /// Runs two copies at the same time, in one limit.
    pub(super) fn twice(mut self) -> Pressed {
        self.copies = 2;
        self.named("two at once")
    }

    pub(super) fn named(mut self, what: &str) -> Pressed {
        self.name = format!("{}, {what}", self.name);
        self
    }

    pub(super) fn plotted(mut self, name: &'static str) -> Pressed {
        self.plot = Some(name);
        self
    }

    /// Runs each level once with each collector. The first run of all says how much memory it takes.
    pub(super) fn run(
        &self,
        stage: &mut Stage,
        collectors: &[Collector],
        runner: &Runner,
        turn: &Turn<'_>,
    ) -> Result<Vec<Vec<Outcome>>> {
        let (workload, copies) = (&self.workload, self.copies);
        let first = format!("{}, at first", self.name);
        let known = runner.known(&first, |progress| {
            stage.run_freely(workload, copies, SYSTEM, progress)
        })?;
        let mut levels = Vec::new();
        for level in &self.levels {
            let longest = known.seconds * PATIENCE;
            let conditions = level.pressure.conditions(known.resident, longest);
            let progress = turn.progress.part(&level.pressure.name());
            let runs = collectors
                .iter()
                .map(|collector| stage.run(workload, copies, *collector, &conditions, &progress));
            levels.push(runs.collect::<Result<Vec<_>>>()?);
        }
        Ok(levels)
    }

    /// Adds one run of each level with each collector.
    pub(super) fn keep(&mut self, levels: Vec<Vec<Outcome>>, collectors: usize) {
        for (level, outcomes) in self.levels.iter_mut().zip(levels) {
            level.runs.resize(collectors, Runs::default());
            for (runs, outcome) in level.runs.iter_mut().zip(outcomes) {
                runs.0.push(outcome);
            }
        }
    }

    /// The levels with pressure.
    pub(super) fn pressed(&self) -> &[Level] {
        &self.levels[1..]
    }

    /// The name of the workload under this level, for targets.
    pub(super) fn at(&self, level: &Level) -> String {
        format!("{}, {}:", self.name, level.pressure.name())
    }
}

/// Workloads under several pressures, with several collectors in turn.
pub(super) struct Series {
    pub(super) collectors: &'static [Collector],
    pub(super) pressed: Vec<Pressed>,
}

impl Series {
    pub(super) fn new(collectors: &'static [Collector], pressed: Vec<Pressed>) -> Series {
        Series {
            collectors,
            pressed,
        }
    }

    /// Runs the wanted workloads, draws their plots, and keeps their outcomes.
    pub(super) fn run(&mut self, runner: &Runner) -> Result<()> {
        let mut stage = Stage::new(runner.name(), SWAP)?;
        let collectors = self.collectors;
        let variants = self.pressed.drain(..).map(|one| (one.name.clone(), one));
        let experiment = runner.experiment(variants).wanted().by_group();
        let experiment = experiment.elsewhere(Elsewhere::user_mode(), |one| one.elsewhere);
        let ran = experiment.run(|one, turn| one.run(&mut stage, collectors, runner, turn))?;
        for variant in ran {
            let mut one = variant.what;
            for levels in variant.outcomes {
                one.keep(levels, collectors.len());
            }
            self.pressed.push(one);
        }
        self.draw(runner)
    }

    /// Draws the utilization with each collector under pressure. The dashed line is without pressure.
    fn draw(&self, runner: &Runner) -> Result<()> {
        for one in &self.pressed {
            let Some(plot) = one.plot else { continue };
            let [free, pressed, ..] = one.levels.as_slice() else {
                continue;
            };
            let mut lines = Vec::new();
            for (index, collector) in self.collectors.iter().enumerate() {
                let name = format!("{}, no pressure", collector.name);
                lines.push(free.runs[index].curve(&name, index, true));
                lines.push(pressed.runs[index].curve(collector.name, index, false));
            }
            let title = format!("{}, {}: utilization", one.name, pressed.pressure.name());
            runner.curves(plot, &title, &lines)?;
        }
        Ok(())
    }

    /// A table with a row for each collector under each pressure that was run.
    pub(super) fn table(&self, title: &str, method: &str, runner: &Runner) -> Results {
        let mut results = runner.results(title, method).columns(&[
            ("program", ""),
            ("pressure", ""),
            ("collector", ""),
            ("ended", ""),
            ("time", "s"),
            ("of no pressure", ""),
            ("pauses", ""),
            ("longest pause", "ms"),
            ("mean pause", "ms"),
            ("steady pause", "ms"),
            ("of no pressure", ""),
            ("major faults of a steady collection", ""),
            ("major faults", ""),
        ]);
        for one in &self.pressed {
            for level in &one.levels {
                let free = &one.levels[0].runs;
                for ((runs, free), collector) in level.runs.iter().zip(free).zip(self.collectors) {
                    let relative =
                        |of: fn(&Outcome) -> f64| cell(ratio(runs.median(of), free.median(of)));
                    results.row([
                        one.name.as_str().into(),
                        level.pressure.name().into(),
                        collector.name.into(),
                        runs.ended().into(),
                        cell(runs.median(|run| run.seconds)),
                        relative(|run| run.seconds),
                        cell(runs.median(|run| run.pauses.0.len() as f64)),
                        cell(runs.median(|run| run.pauses.longest() * 1e3)),
                        cell(runs.median(|run| run.pauses.mean() * 1e3)),
                        cell(runs.median(steady_pause).map(|seconds| seconds * 1e3)),
                        relative(steady_pause),
                        cell(runs.median(steady_faults)),
                        cell(runs.median(|run| run.faults as f64)),
                    ]);
                }
            }
        }
        results
    }

    /// A figure of each workload under each pressure, with its name. Those that have no such figure are left
    /// out, and those of the guest, where other things take other times.
    pub(super) fn figures(
        &self,
        of: impl Fn(&Pressed, &Level) -> Option<f64>,
    ) -> Vec<(String, f64)> {
        let levels = self
            .pressed
            .iter()
            .filter(|one| !one.elsewhere)
            .flat_map(|one| one.pressed().iter().map(move |level| (one, level)));
        levels
            .filter_map(|(one, level)| Some((one.at(level), of(one, level)?)))
            .collect()
    }
}

/// The median of the last third of the pauses, seconds.
pub(super) fn steady_pause(run: &Outcome) -> f64 {
    run.pauses.steady().median()
}

/// Mean major faults of a pause in the last third of the pauses.
pub(super) fn steady_faults(run: &Outcome) -> f64 {
    run.pauses.steady().faults()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pressure_is_relative_to_what_was_resident() {
        let peak = 1000 << 20;
        let limit = Pressure::Limit(60).conditions(peak, 9.0);
        assert_eq!((limit.limit, limit.beside), (Some(600 << 20), None));
        let growing = Pressure::Growing(50).conditions(peak, 9.0);
        assert_eq!(growing.limit, Some(peak + OWN));
        assert!(
            growing
                .beside
                .unwrap()
                .contains(&(500u64 << 20).to_string())
        );
        assert_eq!(Pressure::None.conditions(peak, 9.0).limit, None);
    }

    #[test]
    fn what_it_does_without_pressure_comes_first() {
        let one = Pressed::new(Workload::bintree(4, 1), &[Pressure::Limit(60)]).twice();
        assert_eq!(one.levels[0].pressure, Pressure::None);
        assert_eq!(
            one.at(&one.pressed()[0]),
            "bintree, two at once, limit 60 %:"
        );
    }
}
