//! The measurements, one file or folder each. Every one prints its table, says which targets it
//! met, and saves results and plots.

pub mod broker_cost;
pub mod container;
pub mod demo;
pub mod hog;
pub mod hotspot;
pub mod libgc;
pub mod libgc_adaptive;
pub mod shares;
pub mod sharing;
mod sharing_cost;
pub mod split;

use crate::harness::programs::Jvm;
use crate::harness::scenario::Scenario;
use crate::harness::trace::Trace;
use crate::report::plot::{Line, Plot};

/// How much of a measurement is wanted.
#[derive(Clone, Debug)]
pub struct Options {
    /// Repetitions of each variant.
    pub repeat: usize,
    /// Only variants whose name contains one of these, separated by commas.
    pub only: Option<String>,
}

impl Options {
    /// Whether a variant is wanted.
    pub fn wants(&self, variant: &str) -> bool {
        let Some(only) = &self.only else { return true };
        only.split(',').any(|part| variant.contains(part))
    }
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
