//! Plots over time, or over another quantity, as SVG: bytes of some principals, their ideal shares,
//! what happened when.

use plimsoll_picture::Axis;
use plimsoll_picture::chart::{Chart, Series};
use serde::{Deserialize, Serialize};

/// A plot of lines and areas.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Plot {
    /// Above the picture.
    pub title: String,
    /// Below the title, smaller; may be empty.
    pub note: String,
    /// Quantity and unit of the vertical axis.
    pub unit: String,
    /// Quantity and unit of the horizontal axis; empty: seconds.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub across: String,
    /// The first value of the horizontal axis if it is logarithmic; 0: it is not.
    #[serde(default, skip_serializing_if = "is_linear")]
    pub logarithmic_from: f64,
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

fn is_linear(logarithmic_from: &f64) -> bool {
    *logarithmic_from == 0.0
}

impl Plot {
    /// The picture as the text of an SVG file.
    pub fn svg(&self) -> String {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let right = points().map(|p| p.0).fold(self.seconds, f64::max);
        let top = points().map(|p| p.1).fold(self.top, f64::max);
        let name = if self.across.is_empty() {
            "seconds"
        } else {
            &self.across
        };
        let across = Axis::linear(name, right);
        Chart {
            title: &self.title,
            note: &self.note,
            across: if is_linear(&self.logarithmic_from) {
                across
            } else {
                across.logarithmic(self.logarithmic_from)
            },
            groups: &self.groups,
            up: Axis::linear(&self.unit, top),
            series: &self.series,
            marks: &self.events,
        }
        .file()
    }

    /// The same with no more digits than can be seen: hundredths, but of a logarithmic axis three digits.
    pub(super) fn rounded(mut self) -> Plot {
        let is_linear = is_linear(&self.logarithmic_from);
        let rounded = |value: f64| {
            let digits = if is_linear || value == 0.0 {
                2
            } else {
                2 - value.abs().log10().floor() as i32
            };
            let power = 10f64.powi(digits);
            (value * power).round() / power
        };
        for point in self.series.iter_mut().flat_map(|series| &mut series.points) {
            *point = (rounded(point.0), rounded(point.1));
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_picture::chart::Kind;

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
    fn digits_that_nobody_sees_are_not_kept() {
        let plot = |logarithmic_from| Plot {
            series: vec![Series {
                points: vec![(0.012345, 0.98765), (123.456, 0.0)],
                ..Series::default()
            }],
            logarithmic_from,
            ..Plot::default()
        };
        let points = |plot: Plot| plot.rounded().series[0].points.clone();
        assert_eq!(points(plot(0.0)), [(0.01, 0.99), (123.46, 0.0)]);
        assert_eq!(points(plot(1e-3)), [(0.0123, 0.988), (123.0, 0.0)]);
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
        let svg = plot.svg();
        for part in [">guile<", ">hog<", ">hog starts<", "polygon", ">weight 10<"] {
            assert!(svg.contains(part), "{part:?} in {svg}");
        }
    }
}
