//! The measurements, one file or folder each, and the list of them.

mod broker_cost;
mod container;
mod demo;
mod hog;
mod hotspot;
mod libgc;
mod libgc_adaptive;
mod shares;
mod sharing;
mod split;

use crate::harness::programs::Jvm;
use crate::harness::scenario::Scenario;
use crate::harness::trace::Trace;
use crate::measurement::Measurement;
use crate::report::plot::{Line, Plot};

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
    &libgc_adaptive::LibgcAdaptive,
    &libgc::plain::Plain,
    &libgc::pressure::LibgcPressure,
    &libgc::ablation::Ablation,
    &libgc::kernels::Kernels,
    &sharing::Sharing,
    &hotspot::Hotspot,
];

/// The measurement of this name.
pub fn named(name: &str) -> Option<&'static dyn Measurement> {
    ALL.iter().copied().find(|one| one.about().name == name)
}

/// The machines and collectors that are measured.
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

const MIB: f64 = (1u64 << 20) as f64;

/// Memory over time with the ideal shares in it.
pub fn plot(title: &str, scenario: &Scenario, trace: &Trace) -> Plot {
    let mut lines = Vec::new();
    for (index, program) in scenario.programs.iter().enumerate() {
        let points = trace
            .samples
            .iter()
            .map(|s| (s.at, s.programs[index].uses as f64 / MIB))
            .collect();
        lines.push(Line {
            name: program.name.clone(),
            points,
            colour: index,
            ideal: false,
        });
        let ideal = |at| scenario.ideal(&program.name, at);
        if !program.outsider {
            let points = trace
                .samples
                .iter()
                .filter(|s| s.budget > 0)
                .map(|s| (s.at, ideal(s.at) * s.budget as f64 / MIB))
                .collect();
            lines.push(Line {
                name: String::new(),
                points,
                colour: index,
                ideal: true,
            });
        }
    }
    let swapped = trace
        .samples
        .iter()
        .map(|s| (s.at, s.swapped as f64 / MIB))
        .collect();
    lines.push(Line {
        name: "in swap".to_owned(),
        points: swapped,
        colour: 6,
        ideal: false,
    });
    Plot {
        title: title.to_owned(),
        unit: "MiB".to_owned(),
        lines,
        events: scenario.turning_points(),
        seconds: scenario.seconds,
        top: scenario.budget as f64 / MIB,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
