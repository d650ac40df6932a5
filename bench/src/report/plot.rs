//! Plots over time as SVG: bytes of some principals, their ideal shares, what happened when.

use super::axis::Axis;
use super::chart::{Chart, Series};
use super::results::folder;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// A plot of lines and areas over seconds.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Plot {
    /// Above the picture.
    pub title: String,
    /// Below the title, smaller; may be empty.
    pub note: String,
    /// What the vertical axis counts.
    pub unit: String,
    /// By `(seconds, value)`.
    pub series: Vec<Series>,
    /// `(seconds, what happened)`.
    pub events: Vec<(f64, String)>,
    /// Never drawn shorter than this, so that plots side by side compare.
    pub seconds: f64,
    /// Likewise the top of the vertical axis.
    pub top: f64,
}

impl Plot {
    /// The plot as the text of an SVG file.
    ///
    /// # Errors
    /// When it cannot be drawn.
    pub fn svg(&self) -> Result<String> {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let right = points().map(|p| p.0).fold(self.seconds, f64::max);
        let top = points().map(|p| p.1).fold(self.top, f64::max);
        let axis = |name: &str, last: f64| Axis {
            name: name.to_owned(),
            ends: (0.0, last.max(1e-9)),
            logarithmic: false,
        };
        Chart {
            title: &self.title,
            note: &self.note,
            across: axis("seconds", right),
            up: axis(&self.unit, top),
            series: &self.series,
            marks: &self.events,
        }
        .svg()
    }

    /// Writes the picture to `path`.
    ///
    /// # Errors
    /// When it cannot be drawn or written.
    pub fn save(&self, path: &Path) -> Result<()> {
        std::fs::write(path, self.svg()?).map_err(Error::file("write", path))
    }

    /// Writes the picture, and what it is drawn from, into `bench/results`: [`redraw`] draws it anew.
    ///
    /// # Errors
    /// When one of them cannot be written.
    pub fn record(&self, name: &str) -> Result<()> {
        let rounded = |value: f64| (value * 100.0).round() / 100.0;
        let mut plot = self.clone();
        for point in plot.series.iter_mut().flat_map(|series| &mut series.points) {
            *point = (rounded(point.0), rounded(point.1));
        }
        let recordings = recordings();
        std::fs::create_dir_all(&recordings).map_err(Error::file("make", &recordings))?;
        let path = recordings.join(format!("{name}.json"));
        let text = serde_json::to_string(&plot).expect("text and numbers");
        std::fs::write(&path, text + "\n").map_err(Error::file("write", &path))?;
        plot.save(&folder().join(format!("{name}.svg")))
    }
}

/// Where plots are recorded.
fn recordings() -> PathBuf {
    folder().join("plots")
}

/// The recorded plots, each with the path of its picture.
fn recorded() -> Result<Vec<(PathBuf, Plot)>> {
    let recordings = recordings();
    let mut plots = Vec::new();
    for entry in std::fs::read_dir(&recordings).map_err(Error::file("read", &recordings))? {
        let path = entry.map_err(Error::file("read", &recordings))?.path();
        let text = std::fs::read_to_string(&path).map_err(Error::file("read", &path))?;
        let picture = path.with_extension("svg");
        let picture = folder().join(picture.file_name().unwrap_or_default());
        let plot =
            serde_json::from_str(&text).map_err(|source| Error::Recorded { path, source })?;
        plots.push((picture, plot));
    }
    Ok(plots)
}

/// Draws the pictures of all recorded plots anew.
///
/// # Errors
/// When one cannot be read or written.
pub fn redraw() -> Result<()> {
    for (path, plot) in recorded()? {
        plot.save(&path)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::chart::Kind;

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

    #[test]
    fn pictures_are_those_of_the_recorded_plots() {
        let recorded = recorded().expect("the recorded plots can be read");
        assert!(!recorded.is_empty());
        for (path, plot) in recorded {
            let drawn = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(
                drawn == plot.svg().expect("drawn"),
                "run `cargo run -p plimsoll-bench -- figures`: {} is not the recorded plot",
                path.display()
            );
        }
    }
}
