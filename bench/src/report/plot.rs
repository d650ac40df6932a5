//! Plots over time, or over another quantity, as SVG: bytes of some principals, their ideal shares,
//! what happened when.

use super::axis::Axis;
use super::chart::{Chart, Series};
use super::recorded::Recorded;
use crate::Result;
use serde::{Deserialize, Serialize};

/// A plot of lines and areas.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Plot {
    /// Above the picture.
    pub title: String,
    /// Below the title, smaller; may be empty.
    pub note: String,
    /// What the vertical axis counts.
    pub unit: String,
    /// What the horizontal axis counts; empty: seconds.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub across: String,
    /// Groups of bars that stand at 0, 1, 2 and so on: the middle and the name of each. Their names are below
    /// the horizontal axis in the place of numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<(f64, String)>,
    /// By `(seconds, value)`, or what `across` says instead of seconds.
    pub series: Vec<Series>,
    /// `(seconds, what happened)`.
    pub events: Vec<(f64, String)>,
    /// Never drawn shorter than this, so that plots side by side compare.
    pub seconds: f64,
    /// Likewise the top of the vertical axis.
    pub top: f64,
}

impl Plot {
    /// The same with each value replaced by the mean of its line over that many seconds around it. Shows
    /// sizes over minutes, where single collections would hide them.
    #[must_use]
    pub fn averaged(mut self, seconds: f64) -> Plot {
        for series in &mut self.series {
            let all = series.points.clone();
            for point in &mut series.points {
                let near = all
                    .iter()
                    .filter(|(at, _)| (at - point.0).abs() <= seconds / 2.0);
                let (sum, count) = near.fold((0.0, 0), |(sum, count), (_, value)| {
                    (sum + value, count + 1)
                });
                // The point itself is near.
                point.1 = sum / f64::from(count.max(1));
            }
        }
        self
    }
}

impl Recorded for Plot {
    const FOLDER: &'static str = "plots";

    fn svg(&self) -> Result<String> {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let right = points().map(|p| p.0).fold(self.seconds, f64::max);
        let top = points().map(|p| p.1).fold(self.top, f64::max);
        let axis = |name: &str, last: f64| Axis {
            name: name.to_owned(),
            ends: (0.0, last.max(1e-9)),
            logarithmic: false,
        };
        let across = match self.across.as_str() {
            "" => "seconds",
            other => other,
        };
        Chart {
            title: &self.title,
            note: &self.note,
            across: axis(across, right),
            groups: &self.groups,
            up: axis(&self.unit, top),
            series: &self.series,
            marks: &self.events,
        }
        .svg()
    }

    fn rounded(&self) -> Plot {
        let rounded = |value: f64| (value * 100.0).round() / 100.0;
        let mut plot = self.clone();
        for point in plot.series.iter_mut().flat_map(|series| &mut series.points) {
            *point = (rounded(point.0), rounded(point.1));
        }
        plot
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::chart::Kind;

    #[test]
    fn averages_over_what_is_near() {
        let line = Series {
            name: String::new(),
            note: String::new(),
            points: vec![(0.0, 0.0), (1.0, 3.0), (2.0, 6.0), (9.0, 7.0)],
            colour: 1,
            kind: Kind::Line,
        };
        let plot = Plot {
            series: vec![line],
            ..Plot::default()
        };
        let values = |plot: Plot| {
            plot.series[0]
                .points
                .iter()
                .map(|p| p.1)
                .collect::<Vec<_>>()
        };
        assert_eq!(values(plot.averaged(2.0)), [1.5, 3.0, 4.5, 7.0]);
    }

    #[test]
    fn draws_lines_areas_and_events() {
        let series = |name: &str, kind| Series {
            name: name.into(),
            note: "weight 10".into(),
            points: vec![(0.0, 1.0), (5.0, 2.0)],
            colour: 1,
            kind,
        };
        let plot = Plot {
            title: "Memory".into(),
            unit: "MiB".into(),
            series: vec![
                series("guile", Kind::Line),
                series("", Kind::Dashed),
                series("hog", Kind::Area),
            ],
            events: vec![(2.0, "hog starts".into())],
            ..Plot::default()
        };
        let svg = plot.svg().expect("drawn");
        for part in [
            "\nguile\n",
            "\nhog\n",
            "\nhog starts\n",
            "polygon",
            "\nweight 10\n",
        ] {
            assert!(svg.contains(part), "{part:?} in {svg}");
        }
    }
}
