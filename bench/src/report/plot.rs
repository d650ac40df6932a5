//! Plots over time as SVG: for example the memory of principals, their ideal shares, and events.

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
    /// A smaller text below the title; may be empty.
    pub note: String,
    /// The label of the vertical axis: quantity and unit.
    pub unit: String,
    /// The lines and areas, with points `(seconds, value)`.
    pub series: Vec<Series>,
    /// `(seconds, what happened)`.
    pub events: Vec<(f64, String)>,
    /// The horizontal axis goes to this number of seconds at least, so that plots can be compared side by
    /// side.
    pub seconds: f64,
    /// The vertical axis goes up to this value at least, for the same reason.
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

    /// Writes the picture and its data into `bench/results`, so that [`redraw`] can draw it again.
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

/// The folder of recorded plots.
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

/// Draws the pictures of all recorded plots again.
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
