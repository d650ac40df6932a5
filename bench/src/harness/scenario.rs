//! What happens in a run.

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
    /// What is run.
    pub command: Vec<String>,
    /// Added to its environment.
    pub env: BTreeMap<String, String>,
    /// Runs inside the budget but not under the broker (a hog).
    pub outsider: bool,
    /// Runs outside of the budget altogether: costs the others processor time, but no memory.
    pub elsewhere: bool,
}

/// Something that happens to a principal at a time.
#[derive(Clone, Debug)]
pub struct Change {
    /// Seconds into the run.
    pub at: f64,
    /// Whose.
    pub name: String,
    /// The new weight.
    pub weight: u32,
}

/// A run.
#[derive(Clone, Debug, Default)]
pub struct Scenario {
    /// Limit of the cgroup, bytes.
    pub budget: u64,
    /// How long it lasts, seconds; at the most, when `until_done`.
    pub seconds: f64,
    /// It ends when the programs have ended (outsiders aside).
    pub until_done: bool,
    /// It ends when each program has done so much (outsiders aside).
    pub until_work: Option<f64>,
    /// Who takes part.
    pub programs: Vec<Program>,
    /// Weight changes.
    pub changes: Vec<Change>,
}

/// Under which conditions a scenario runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conditions {
    /// Every program by `plimsoll run` under a broker of its own.
    Broker,
    /// Bare, in the same cgroup.
    Bare,
}

impl Scenario {
    /// The weighted share of `name` at `seconds`, as a fraction of the budget, among the programs
    /// that run then; 0 when it does not.
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

    /// When the ideal shares change: arrivals, departures, weight changes; in order, without the
    /// start and the end.
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
