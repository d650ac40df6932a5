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
use crate::harness::trace::{Sample, Trace};
use crate::report::chart::{Kind, Series};
use crate::report::plot::Plot;

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

/// Bytes.
const MIB: f64 = (1u64 << 20) as f64;

/// Memory of programs while they live, with the ideal shares as dashed lines; outsiders are areas.
pub fn plot(title: &str, scenario: &Scenario, trace: &Trace) -> Plot {
    let mut series = Vec::new();
    let over_time = |value: &dyn Fn(&Sample) -> Option<f64>| -> Vec<(f64, f64)> {
        let samples = trace.samples.iter();
        samples
            .filter_map(|s| Some((s.at, value(s)? / MIB)))
            .collect()
    };
    for (index, program) in scenario.programs.iter().enumerate() {
        let shown = |s: &Sample| program.outsider || s.programs[index].alive;
        series.push(Series {
            name: program.name.clone(),
            points: over_time(&|s| shown(s).then_some(s.programs[index].uses as f64)),
            colour: index,
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
                colour: index,
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
    Plot {
        title: title.to_owned(),
        note: if shared {
            "Dashed: the share by weight".to_owned()
        } else {
            String::new()
        },
        unit: "MiB".to_owned(),
        series,
        events: scenario.turning_points(),
        seconds: scenario.seconds,
        top: scenario.budget as f64 / MIB,
    }
}
