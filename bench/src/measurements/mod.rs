//! The measurements, one file or folder each, and the list of them.

mod agent_cost;
mod broker_cost;
mod container;
mod demo;
mod hog;
mod hotspot;
mod isla_vista;
mod isla_vista_model;
mod libgc;
mod libgc_adaptive;
mod map_areas;
mod map_cost;
mod mmtk;
mod ordinary_user;
mod phases_live;
mod pin;
mod shares;
mod sharing;
mod sim_speed;
mod sim_tables;
mod split;
mod stall_signal;
mod together_model;
mod trace_cost;

use crate::harness::programs::Jvm;
use crate::harness::scenario::{Program, Scenario};
use crate::harness::trace::{Sample, Trace};
use crate::measurement::Measurement;
use crate::report::chart::{Kind, Series};
use crate::report::plot::Plot;
use plimsoll_unit::float::MIB;

/// All measurements, in the order of the docs. The command line with its help, `make bench-NAME` and
/// the book's list come from here.
pub const ALL: &[&dyn Measurement] = &[
    &demo::Demo,
    &shares::Shares,
    &hog::Hog,
    &split::Split,
    &split::want::SplitWant,
    &container::Container,
    &broker_cost::BrokerCost,
    &ordinary_user::OrdinaryUser,
    &map_cost::MapCost,
    &map_areas::MapAreas,
    &stall_signal::StallSignal,
    &agent_cost::AgentCost,
    &libgc_adaptive::LibgcAdaptive,
    &libgc::plain::Plain,
    &libgc::strangers::Strangers,
    &libgc::pressure::LibgcPressure,
    &libgc::ablation::Ablation,
    &libgc::kernels::Kernels,
    &sharing::Sharing,
    &hotspot::Hotspot,
    &mmtk::Mmtk,
    &isla_vista::IslaVista,
    &isla_vista::sweep::Sweep,
    &isla_vista::dynamic::Dynamic,
    &isla_vista_model::IslaVistaModel,
    &sim_tables::SimTables,
    &together_model::TogetherModel,
    &pin::Pin,
    &phases_live::PhasesLive,
    &sim_speed::SimSpeed,
    &trace_cost::TraceCost,
];

/// The measurement of this name.
pub fn named(name: &str) -> Option<&'static dyn Measurement> {
    ALL.iter().copied().find(|one| one.about().name == name)
}

/// The Java versions and collectors that are measured.
pub const JVMS: [Jvm; 10] = [
    Jvm {
        version: 17,
        collector: "G1",
    },
    Jvm {
        version: 25,
        collector: "G1",
    },
    Jvm {
        version: 17,
        collector: "Serial",
    },
    Jvm {
        version: 25,
        collector: "Serial",
    },
    Jvm {
        version: 17,
        collector: "Z",
    },
    Jvm {
        version: 25,
        collector: "Z",
    },
    Jvm {
        version: 17,
        collector: "Shenandoah",
    },
    Jvm {
        version: 25,
        collector: "Shenandoah",
    },
    Jvm {
        version: 17,
        collector: "Parallel",
    },
    Jvm {
        version: 25,
        collector: "Parallel",
    },
];

/// Of more programs than this a plot tells the weights, and not each program.
const TOLD_APART: usize = 8;

/// The name and the colour of each program in a plot.
fn looks(programs: &[Program]) -> Vec<(String, usize)> {
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

/// A plot of the memory of programs while they run. Dashed lines are their ideal shares; outsiders are areas.
pub fn plot(title: &str, scenario: &Scenario, trace: &Trace) -> Plot {
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
    let seconds = match scenario.until_done || scenario.until_work.is_some() {
        true => trace.samples.last().map_or(0.0, |sample| sample.at),
        false => scenario.seconds,
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
            plot("memory", &scenario, &trace).seconds
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

    #[test]
    fn names_are_unique_and_questions_are_sentences() {
        for one in ALL {
            let about = one.about();
            let fits = |c: char| c.is_ascii_lowercase() || c == '-';
            assert!(about.name.chars().all(fits), "{about:?}");
            assert!(about.minutes > 0, "{about:?}");
            let first = named(about.name).map(|one| one.about().question);
            assert_eq!(first, Some(about.question), "two have this name");
            assert!(about.question.starts_with(char::is_uppercase), "{about:?}");
        }
        assert!(named("nothing").is_none());
    }
}
