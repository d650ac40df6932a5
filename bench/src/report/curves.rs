//! Plots of utilization over window sizes.

use super::plot::Plot;
use plimsoll_picture::chart::{Kind, Series};

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

/// The plot of these curves.
pub fn plot(title: &str, curves: &[Curve]) -> Plot {
    let series = |curve: &Curve| Series {
        name: curve.name.clone(),
        points: curve.points.clone(),
        colour: curve.colour,
        kind: if curve.reference {
            Kind::Dashed
        } else {
            Kind::Line
        },
        ..Series::default()
    };
    Plot {
        title: title.to_owned(),
        unit: "bounded mutator utilization".to_owned(),
        across: "window, seconds".to_owned(),
        logarithmic_from: 1e-3,
        series: curves.iter().map(series).collect(),
        seconds: 1.0,
        top: 1.0,
        ..Plot::default()
    }
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
        let drawn = plot("Utilization", &curves).svg();
        for part in [">libgc<", ">ours<", ">0.001<", ">window, seconds<"] {
            assert!(drawn.contains(part), "{part}: {drawn}");
        }
        assert!(plot("", &[]).svg().starts_with("<svg"));
    }
}
