//! Plots of utilization over window sizes as SVG.

use super::axis::Axis;
use super::chart::{Chart, Kind, Series};
use crate::{Error, Result};
use std::path::Path;

/// A line of such a plot.
#[derive(Clone, Debug, Default)]
pub struct Curve {
    /// The name that is written beside it.
    pub name: String,
    /// The points: `(window size in seconds, utilization from 0 to 1)`.
    pub points: Vec<(f64, f64)>,
    /// Index of its colour in the palette.
    pub colour: usize,
    /// Whether the others are compared with this line, which is dashed then.
    pub reference: bool,
}

/// Writes curves to `path`.
///
/// # Errors
/// When it cannot be drawn or written.
pub fn save(title: &str, curves: &[Curve], path: &Path) -> Result<()> {
    std::fs::write(path, svg(title, curves)?).map_err(Error::file("write", path))
}

fn svg(title: &str, curves: &[Curve]) -> Result<String> {
    let points = curves.iter().flat_map(|curve| &curve.points);
    let longest = points.map(|point| point.0).fold(1.0, f64::max);
    let series: Vec<Series> = curves
        .iter()
        .map(|curve| Series {
            name: curve.name.clone(),
            points: curve.points.clone(),
            colour: curve.colour,
            kind: if curve.reference {
                Kind::Dashed
            } else {
                Kind::Line
            },
            ..Series::default()
        })
        .collect();
    Chart {
        title,
        note: "",
        across: Axis {
            name: "window, seconds".to_owned(),
            ends: (1e-3, longest),
            logarithmic: true,
        },
        groups: &[],
        up: Axis {
            name: "bounded mutator utilization".to_owned(),
            ends: (0.0, 1.0),
            logarithmic: false,
        },
        series: &series,
        marks: &[],
    }
    .svg()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_curves_and_nothing() {
        let curve = |name: &str, reference| Curve {
            name: name.into(),
            points: vec![(1e-3, 0.0), (0.5, 0.4), (2.0, 0.9)],
            colour: 1,
            reference,
        };
        let curves = [curve("libgc", true), curve("ours", false)];
        let drawn = svg("Utilization", &curves).expect("drawn");
        assert!(
            drawn.contains("\nlibgc\n") && drawn.contains("\nours\n"),
            "{drawn}"
        );
        assert!(svg("", &[]).expect("drawn").starts_with("<svg"));
    }
}
