//! Pictures that are kept with the data that they are drawn from, so that they can be drawn anew.

use super::bars::Bars;
use super::plot::Plot;
use super::results;
use super::stacked_bars::Breakdown;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The folder of `bench/results` that has pictures and their data, and nothing else.
const FOLDER: &str = "plots";

/// A picture of any kind. Its data name the kind.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Picture {
    /// Lines and areas.
    Plot(Plot),
    /// One bar for each of several things.
    Bars(Bars),
    /// Memory by area and state.
    Breakdown(Breakdown),
}

impl Picture {
    /// The picture as the text of an SVG file.
    fn svg(&self) -> String {
        match self {
            Picture::Plot(plot) => plot.svg(),
            Picture::Bars(bars) => bars.svg(),
            Picture::Breakdown(breakdown) => breakdown.svg(),
        }
    }

    /// The same with no more digits than can be seen.
    fn rounded(self) -> Picture {
        match self {
            Picture::Plot(plot) => Picture::Plot(plot.rounded()),
            Picture::Bars(bars) => Picture::Bars(bars.rounded()),
            // Bytes are whole.
            Picture::Breakdown(breakdown) => Picture::Breakdown(breakdown),
        }
    }

    /// Writes the picture to `path`.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn save(&self, path: &Path) -> Result<()> {
        std::fs::write(path, self.svg()).map_err(Error::file("write", path))
    }

    /// Writes the picture and its data into a folder below this one: below `bench/results`, [`redraw`] draws
    /// it anew.
    ///
    /// # Errors
    /// When one of them cannot be written.
    pub fn record(self, folder: &Path, name: &str) -> Result<()> {
        let (picture, folder) = (self.rounded(), folder.join(FOLDER));
        std::fs::create_dir_all(&folder).map_err(Error::file("make", &folder))?;
        let path = folder.join(format!("{name}.json"));
        let text = serde_json::to_string(&picture).expect("text and numbers");
        std::fs::write(&path, text + "\n").map_err(Error::file("write", &path))?;
        picture.save(&path.with_extension("svg"))
    }
}

fn folder() -> PathBuf {
    results::folder().join(FOLDER)
}

/// The recorded pictures, each with its path.
fn recorded() -> Result<Vec<(PathBuf, Picture)>> {
    let folder = folder();
    let entries = std::fs::read_dir(&folder).map_err(Error::file("read", &folder))?;
    let mut pictures = Vec::new();
    for entry in entries {
        let path = entry.map_err(Error::file("read", &folder))?.path();
        if path.extension().is_none_or(|end| end != "json") {
            continue;
        }
        let text = std::fs::read_to_string(&path).map_err(Error::file("read", &path))?;
        let svg = path.with_extension("svg");
        let picture =
            serde_json::from_str(&text).map_err(|source| Error::Recorded { path, source })?;
        pictures.push((svg, picture));
    }
    Ok(pictures)
}

/// Draws all recorded pictures anew.
///
/// # Errors
/// When one cannot be read or written.
pub fn redraw() -> Result<()> {
    for (path, picture) in recorded()? {
        picture.save(&path)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_are_those_of_what_is_recorded() {
        let recorded = recorded().expect("what is recorded can be read");
        for (path, picture) in &recorded {
            let drawn = std::fs::read_to_string(path).unwrap_or_default();
            assert!(
                drawn == picture.svg(),
                "run `cargo run -p plimsoll-bench -- figures`: {} is not what is recorded",
                path.display()
            );
        }
        let is_plot = |(_, picture): &(PathBuf, Picture)| matches!(picture, Picture::Plot(_));
        assert!(recorded.iter().any(is_plot));
        let svgs = std::fs::read_dir(folder()).expect("it is there").flatten();
        let svgs = svgs.filter(|it| it.path().extension().is_some_and(|end| end == "svg"));
        assert_eq!(
            svgs.count(),
            recorded.len(),
            "no picture is without its data"
        );
    }
}
