//! A plot of the work that programs do while they run.

use super::memory_plot::looks;
use super::scenario::Scenario;
use super::trace::Trace;
use crate::report::plot::Plot;
use plimsoll_picture::chart::Series;

/// Work until each time, in thousandths of the most that a program of the run did, since units differ from
/// program to program.
pub fn progress_plot(title: &str, scenario: &Scenario, trace: &Trace) -> Plot {
    let work = |index: usize| {
        let alive = trace
            .samples
            .iter()
            .filter(move |it| it.programs[index].alive);
        alive.map(move |it| (it.at, it.programs[index].work))
    };
    let all = (0..scenario.programs.len()).flat_map(work);
    let most = all.map(|point| point.1).fold(0.0, f64::max).max(1e-9);
    let each = looks(&scenario.programs).into_iter().enumerate();
    let series = each.map(|(index, (name, colour))| Series {
        name,
        points: work(index)
            .map(|(at, work)| (at, 1000.0 * work / most))
            .collect(),
        colour,
        ..Series::default()
    });
    Plot {
        title: title.to_owned(),
        unit: "work, thousandths of the most".to_owned(),
        series: series.collect(),
        events: scenario.turning_points(),
        seconds: scenario.seconds,
        top: 1000.0,
        ..Plot::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::scenario::Program;
    use crate::harness::trace::{Sample, Seen};

    #[test]
    fn work_is_drawn_while_a_program_lives() {
        let scenario = Scenario {
            seconds: 10.0,
            programs: vec![Program::default(), Program::default()],
            ..Scenario::default()
        };
        let sample = |second: u32| {
            let seen = |alive, work| Seen {
                alive,
                work,
                ..Seen::default()
            };
            Sample {
                at: f64::from(second),
                programs: vec![
                    seen(true, f64::from(second) * 8.0),
                    seen(second < 5, f64::from(second)),
                ],
                ..Sample::default()
            }
        };
        let trace = Trace {
            samples: (0..=10).map(sample).collect(),
            ..Trace::default()
        };
        let plot = progress_plot("work", &scenario, &trace);
        assert_eq!(plot.series[0].points.last(), Some(&(10.0, 1000.0)));
        assert_eq!(plot.series[1].points.last(), Some(&(4.0, 50.0)));
        assert_eq!(plot.seconds, 10.0);
    }
}
