//! Pictures that are kept with what they are drawn from, so that they can be drawn anew.

use super::results::folder;
use crate::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};

/// A picture of `bench/results`, and what it is drawn from beside it.
pub trait Recorded: Serialize + DeserializeOwned {
    /// The folder of `bench/results` that holds what such pictures are drawn from.
    const FOLDER: &'static str;

    /// The picture as the text of an SVG file.
    ///
    /// # Errors
    /// When it cannot be drawn.
    fn svg(&self) -> Result<String>;

    /// The same with no more digits than can be seen.
    fn rounded(&self) -> Self;

    /// Writes the picture to `path`.
    ///
    /// # Errors
    /// When it cannot be drawn or written.
    fn save(&self, path: &Path) -> Result<()> {
        std::fs::write(path, self.svg()?).map_err(Error::file("write", path))
    }

    /// Writes the picture, and what it is drawn from, into a folder: in `bench/results`, [`redraw`] draws it
    /// anew.
    ///
    /// # Errors
    /// When one of them cannot be written.
    fn record(&self, folder: &Path, name: &str) -> Result<()> {
        let rounded = self.rounded();
        let recordings = folder.join(Self::FOLDER);
        std::fs::create_dir_all(&recordings).map_err(Error::file("make", &recordings))?;
        let path = recordings.join(format!("{name}.json"));
        let text = serde_json::to_string(&rounded).expect("text and numbers");
        std::fs::write(&path, text + "\n").map_err(Error::file("write", &path))?;
        rounded.save(&folder.join(format!("{name}.svg")))
    }
}

/// The recorded pictures of a type, each with its path.
pub(super) fn recorded<T: Recorded>() -> Result<Vec<(PathBuf, T)>> {
    let recordings = folder().join(T::FOLDER);
    let mut pictures = Vec::new();
    if !recordings.exists() {
        return Ok(pictures);
    }
    for entry in std::fs::read_dir(&recordings).map_err(Error::file("read", &recordings))? {
        let path = entry.map_err(Error::file("read", &recordings))?.path();
        let text = std::fs::read_to_string(&path).map_err(Error::file("read", &path))?;
        let picture = path.with_extension("svg");
        let picture = folder().join(picture.file_name().unwrap_or_default());
        let drawn =
            serde_json::from_str(&text).map_err(|source| Error::Recorded { path, source })?;
        pictures.push((picture, drawn));
    }
    Ok(pictures)
}

/// Draws all recorded pictures of a type anew.
///
/// # Errors
/// When one cannot be read or written.
pub fn redraw<T: Recorded>() -> Result<()> {
    for (path, picture) in recorded::<T>()? {
        picture.save(&path)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::bars::Bars;
    use crate::report::breakdown::Breakdown;
    use crate::report::plot::Plot;

    fn unchanged<T: Recorded>() -> usize {
        let recorded = recorded::<T>().expect("what is recorded can be read");
        for (path, picture) in &recorded {
            let drawn = std::fs::read_to_string(path).unwrap_or_default();
            assert!(
                drawn == picture.svg().expect("drawn"),
                "run `cargo run -p plimsoll-bench -- figures`: {} is not what is recorded",
                path.display()
            );
        }
        recorded.len()
    }

    #[test]
    fn pictures_are_those_of_what_is_recorded() {
        assert!(unchanged::<Plot>() > 0);
        unchanged::<Bars>();
        unchanged::<Breakdown>();
    }
}
