//! Scenarios: which programs run when, and which weights change.

use std::collections::BTreeMap;

/// A program of a scenario.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// Its name in tables and plots.
    pub name: String,
    /// Weight under the broker.
    pub weight: u32,
    /// Seconds into the run when it starts.
    pub start: f64,
    /// Seconds into the run when it is asked to stop; at the end when absent.
    pub stop: Option<f64>,
    /// The command: program and arguments.
    pub command: Vec<String>,
    /// Variables that are added to its environment.
    pub env: BTreeMap<String, String>,
    /// Whether it runs inside the budget but not under the broker, as a hog does.
    pub outsider: bool,
    /// Whether our agent is loaded into it, under the broker, if it is a Java program.
    pub agent: bool,
    /// Whether its command begins with `plimsoll run`, which is no part of the program. Programs under the
    /// broker get that by themselves.
    pub launched: bool,
    /// Whether it runs outside of the budget: it takes processor time from the others, but no memory.
    pub elsewhere: bool,
}

/// A change of a principal's weight during the run.
#[derive(Clone, Debug)]
pub struct Change {
    /// When it happens, in seconds since the run began.
    pub at: f64,
    /// The name of the program.
    pub name: String,
    /// The new weight.
    pub weight: u32,
}

/// A scenario.
#[derive(Clone, Debug, Default)]
pub struct Scenario {
    /// Limit of the cgroup, bytes.
    pub budget: u64,
    /// How long the run lasts, seconds. With `until_done`, how long it may last.
    pub seconds: f64,
    /// Whether the run ends when all programs but the outsiders have ended.
    pub until_done: bool,
    /// If given, the run ends when each program but the outsiders has done this much work.
    pub until_work: Option<f64>,
    /// The programs that take part.
    pub programs: Vec<Program>,
    /// Weight changes.
    pub changes: Vec<Change>,
}

/// Under which conditions a scenario runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conditions {
    /// Every program is started by `plimsoll run`, under a broker that serves this run only.
    Broker,
    /// The same under a broker that does not lend: shares are by weight alone.
    BrokerWithoutLending,
    /// Programs are started without a broker, in the same cgroup.
    Bare,
}

impl Scenario {
    /// The weighted share of `name` at `seconds`, as a fraction of the budget, among the programs that run at
    /// that time; 0 if `name` does not run then.
    pub fn ideal(&self, name: &str, seconds: f64) -> f64 {
        let weight = |program: &Program| -> u32 {
            let changed = self
                .changes
                .iter()
                .filter(|c| c.name == program.name && c.at <= seconds);
            changed
                .max_by(|a, b| a.at.total_cmp(&b.at))
                .map_or(program.weight, |c| c.weight)
        };
        let runs = |p: &&Program| {
            !p.outsider && p.start <= seconds && p.stop.unwrap_or(self.seconds) > seconds
        };
        let total: u32 = self.programs.iter().filter(runs).map(weight).sum();
        let own = self
            .programs
            .iter()
            .filter(runs)
            .find(|p| p.name == name)
            .map_or(0, weight);
        if total == 0 {
            0.0
        } else {
            f64::from(own) / f64::from(total)
        }
    }

    /// The times (in seconds) at which the ideal shares change, with a description: arrivals, departures and
    /// changes of weight. They are in order, without the start and the end of the run.
    pub fn turning_points(&self) -> Vec<(f64, String)> {
        let mut points = Vec::new();
        for program in &self.programs {
            points.push((program.start, format!("{} starts", program.name)));
            if let Some(stop) = program.stop {
                points.push((stop, format!("{} ends", program.name)));
            }
        }
        points.extend(
            self.changes
                .iter()
                .map(|c| (c.at, format!("{} weighs {}", c.name, c.weight))),
        );
        points.retain(|(at, _)| *at < self.seconds);
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        points
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ideal_shares_follow_arrivals_and_weights() {
        let program = |name: &str, weight, start, stop| Program {
            name: name.into(),
            weight,
            start,
            stop,
            ..Program::default()
        };
        let scenario = Scenario {
            budget: 1000,
            seconds: 60.0,
            programs: vec![
                program("a", 10, 0.0, None),
                program("b", 40, 20.0, Some(40.0)),
            ],
            changes: vec![Change {
                at: 30.0,
                name: "a".into(),
                weight: 40,
            }],
            ..Scenario::default()
        };
        assert_eq!(scenario.ideal("a", 10.0), 1.0);
        assert_eq!(scenario.ideal("a", 25.0), 0.2);
        assert_eq!(scenario.ideal("b", 35.0), 0.5);
        assert_eq!(scenario.ideal("b", 50.0), 0.0);
        assert_eq!(scenario.turning_points().len(), 4);
    }
}
