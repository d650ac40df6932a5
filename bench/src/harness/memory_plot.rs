//! A plot of the memory of programs while they run.

use super::scenario::{Program, Scenario};
use super::trace::{Sample, Trace};
use crate::report::plot::Plot;
use plimsoll_picture::chart::{Kind, Series};
use plimsoll_unit::float::MIB;

/// A plot of more programs than this names their weights, and not each program.
const TOLD_APART: usize = 8;

/// The name and the colour of each program in a plot.
pub(super) fn looks(programs: &[Program]) -> Vec<(String, usize)> {
    let each = programs.iter().enumerate();
    if programs.len() <= TOLD_APART {
        return each.map(|(i, it)| (it.name.clone(), i)).collect();
    }
    let mut weights: Vec<u32> = Vec::new();
    let look = |(_, it): (usize, &Program)| match weights.iter().position(|w| *w == it.weight) {
        Some(known) => (String::new(), known),
        None => {
            weights.push(it.weight);
            (format!("weight {}", it.weight), weights.len() - 1)
        }
    };
    each.map(look).collect()
}

/// The plot of a run. Dashed lines are their ideal shares; outsiders are areas.
pub fn memory_plot(title: &str, scenario: &Scenario, trace: &Trace) -> Plot {
    let mut series = Vec::new();
    let looks = looks(&scenario.programs);
    let over_time = |value: &dyn Fn(&Sample) -> Option<f64>| -> Vec<(f64, f64)> {
        let samples = trace.samples.iter();
        samples
            .filter_map(|s| Some((s.at, value(s)? / MIB)))
            .collect()
    };
    for (index, (program, (name, colour))) in scenario.programs.iter().zip(looks).enumerate() {
        let shown = |s: &Sample| program.outsider || s.programs[index].alive;
        series.push(Series {
            name,
            points: over_time(&|s| shown(s).then_some(s.programs[index].uses as f64)),
            colour,
            kind: if program.outsider {
                Kind::Area
            } else {
                Kind::Line
            },
            ..Series::default()
        });
        if !program.outsider {
            let ideal = |s: &Sample| scenario.ideal(&program.name, s.at) * s.budget as f64;
            series.push(Series {
                points: over_time(&|s| (shown(s) && s.budget > 0).then(|| ideal(s))),
                colour,
                kind: Kind::Dashed,
                ..Series::default()
            });
        }
    }
    series.push(Series {
        name: "in swap".to_owned(),
        points: over_time(&|s| Some(s.swapped as f64)),
        colour: 6,
        ..Series::default()
    });
    let shared = trace.samples.iter().any(|sample| sample.budget > 0);
    // A run that ends when its work is done may be much shorter than it might have been.
    let seconds = if scenario.until_done || scenario.until_work.is_some() {
        trace.samples.last().map_or(0.0, |sample| sample.at)
    } else {
        scenario.seconds
    };
    let mut events = scenario.turning_points();
    events.retain(|(at, _)| *at < seconds);
    Plot {
        title: title.to_owned(),
        note: if shared {
            "Dashed: the share by weight".to_owned()
        } else {
            String::new()
        },
        unit: "MiB".to_owned(),
        series,
        events,
        seconds,
        top: scenario.budget as f64 / MIB,
        ..Plot::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_ends_early_is_drawn_to_its_end() {
        let sample = |at| Sample {
            at,
            ..Sample::default()
        };
        let trace = Trace {
            samples: vec![sample(0.0), sample(7.0)],
            ..Trace::default()
        };
        let drawn = |until_done| {
            let scenario = Scenario {
                seconds: 100.0,
                until_done,
                ..Scenario::default()
            };
            memory_plot("memory", &scenario, &trace).seconds
        };
        assert_eq!((drawn(true), drawn(false)), (7.0, 100.0));
    }

    #[test]
    fn many_programs_are_told_apart_by_weight() {
        let program = |index: usize| Program {
            name: format!("p{index}"),
            weight: [10, 40][index % 2],
            ..Program::default()
        };
        let all: Vec<Program> = (0..9).map(program).collect();
        let few = looks(&all[..8]);
        assert_eq!((few[7].0.as_str(), few[7].1), ("p7", 7));
        let many = looks(&all);
        let named: Vec<&str> = many.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(named[..3], ["weight 10", "weight 40", ""]);
        assert_eq!((many[1].1, many[2].1, many[7].1), (1, 0, 1));
    }
}
