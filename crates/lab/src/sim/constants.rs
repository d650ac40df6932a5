//! The file with the constants of the cost formula, which `plimsoll sim calibrate` writes and
//! `plimsoll sim --constants` reads: TOML, a number of nanoseconds for each name.

use crate::args::Model;
use crate::error::LabError;
use plimsoll_cli::terminal_text::wrap;
use plimsoll_sim::threads::Costs;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The most that a constant may be, nanoseconds: a second.
const MOST: f64 = 1e9;
/// The names of the constants, as in [`Costs`] and in the file.
pub(super) const NAMES: [&str; 6] = [
    "copied_byte",
    "marked_byte",
    "compacted_byte",
    "swept_byte",
    "contention",
    "switch",
];

/// All constants, nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Constants {
    copied_byte: f64,
    marked_byte: f64,
    compacted_byte: f64,
    swept_byte: f64,
    contention: f64,
    switch: f64,
}

impl Constants {
    /// From the value of each name.
    pub(super) fn of(mut value: impl FnMut(&str) -> f64) -> Constants {
        let [copied, marked, compacted, swept, contention, switch] = NAMES.map(&mut value);
        Constants {
            copied_byte: copied,
            marked_byte: marked,
            compacted_byte: compacted,
            swept_byte: swept,
            contention,
            switch,
        }
    }

    fn values(&self) -> [f64; NAMES.len()] {
        [
            self.copied_byte,
            self.marked_byte,
            self.compacted_byte,
            self.swept_byte,
            self.contention,
            self.switch,
        ]
    }

    /// The value of a name; 0 of one that there is not.
    pub(super) fn get(&self, name: &str) -> f64 {
        let place = NAMES.iter().position(|it| *it == name);
        place.map_or(0.0, |place| self.values()[place])
    }

    /// Writes the file.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn write(&self, path: &Path) -> Result<(), LabError> {
        let mut text = "# Costs in nanoseconds, measured by `plimsoll sim calibrate`.\n".to_owned();
        for (name, value) in NAMES.iter().zip(self.values()) {
            text += &format!("{name} = {value:.3}\n");
        }
        std::fs::write(path, text).map_err(LabError::path(path))
    }

    /// Reads the file.
    ///
    /// # Errors
    /// It cannot be read, lacks a name, has one that is unknown, or a value that is no cost.
    fn read(path: &Path) -> Result<Constants, LabError> {
        let text = std::fs::read_to_string(path).map_err(LabError::path(path))?;
        let wrong = |why: String| LabError::Constants {
            path: path.to_owned(),
            why,
        };
        let found: Constants = toml::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        for (name, value) in NAMES.iter().zip(found.values()) {
            if !(0.0..=MOST).contains(&value) {
                let why = format!("{name} is {value}: give nanoseconds, 0 to {MOST}");
                return Err(wrong(why));
            }
        }
        Ok(found)
    }
}

impl From<Costs> for Constants {
    fn from(costs: Costs) -> Constants {
        let nanoseconds = |picoseconds: u64| picoseconds as f64 / 1000.0;
        Constants {
            copied_byte: nanoseconds(costs.copied_byte),
            marked_byte: nanoseconds(costs.marked_byte),
            compacted_byte: nanoseconds(costs.compacted_byte),
            swept_byte: nanoseconds(costs.swept_byte),
            contention: nanoseconds(costs.contention),
            switch: nanoseconds(costs.switch),
        }
    }
}

impl From<Constants> for Costs {
    fn from(constants: Constants) -> Costs {
        let picoseconds = |nanoseconds: f64| (nanoseconds * 1000.0).round() as u64;
        Costs {
            copied_byte: picoseconds(constants.copied_byte),
            marked_byte: picoseconds(constants.marked_byte),
            compacted_byte: picoseconds(constants.compacted_byte),
            swept_byte: picoseconds(constants.swept_byte),
            contention: picoseconds(constants.contention),
            switch: picoseconds(constants.switch),
        }
    }
}

/// The costs: by the file, or as in the paper. A cost that is given by itself replaces these.
///
/// # Errors
/// The file cannot be read, or is no such file.
pub(crate) fn costs(args: &Model) -> Result<Costs, LabError> {
    let file = args.constants.as_deref().map(Constants::read).transpose()?;
    let costs = file.map_or(Costs::PAPER, Costs::from);
    Ok(Costs {
        copied_byte: args.gc_cost.unwrap_or(costs.copied_byte),
        marked_byte: args.gc_cost.unwrap_or(costs.marked_byte),
        contention: args.contention_cost.unwrap_or(costs.contention),
        switch: args.switch_cost.unwrap_or(costs.switch),
        ..costs
    })
}

/// The costs of the simulations that follow, and their source, as lines of 80 columns.
pub(crate) fn told(costs: &Costs) -> String {
    let it = Constants::from(*costs);
    let bytes = if it.copied_byte == it.marked_byte {
        format!("a byte copied or marked {} ns", it.copied_byte)
    } else {
        format!(
            "a byte copied {} ns, marked {} ns",
            it.copied_byte, it.marked_byte
        )
    };
    let (whose, hint) = if *costs == Costs::PAPER {
        (
            " of the paper (2007)",
            "; `plimsoll sim calibrate -o FILE` and `--constants FILE`: this machine's",
        )
    } else {
        ("", "")
    };
    let line = format!(
        "costs{whose}: {bytes}, a contention {} ns, a switch {} ns{hint}",
        it.contention, it.switch
    );
    let mut text = String::new();
    wrap(&mut text, "", &line, 2, 80);
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("constants");
        let paper = Constants::from(Costs::PAPER);
        paper.write(&path).unwrap();
        assert_eq!(Constants::read(&path).unwrap(), paper);
        assert_eq!(Costs::from(paper), Costs::PAPER);
        assert_eq!(paper.get("switch"), 2.3);
    }

    #[test]
    fn costs_are_told_with_where_they_come_from() {
        let paper = told(&Costs::PAPER);
        assert!(
            paper.starts_with("costs of the paper (2007): a byte copied or marked 18 ns,"),
            "{paper}"
        );
        assert!(
            paper.contains("calibrate") && paper.lines().all(|line| line.len() <= 80),
            "{paper}"
        );
        let own = told(&Costs {
            copied_byte: 990,
            ..Costs::PAPER
        });
        assert!(
            own.starts_with("costs: a byte copied 0.99 ns, marked 18 ns,"),
            "{own}"
        );
        assert!(!own.contains("calibrate"), "{own}");
    }

    #[test]
    fn what_is_no_file_of_constants_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("constants");
        Constants::from(Costs::PAPER).write(&path).unwrap();
        let good = std::fs::read_to_string(&path).unwrap();
        for (bad, needle) in [
            (good.replace("switch", "swich"), "swich"),
            (good.replace("switch = 2.300", ""), "missing field `switch`"),
            (good.replace("= 2.300", "= -1"), "switch is -1"),
            (good.replace("= 2.300", "= nan"), "switch is NaN"),
            (good.replace("= 2.300", "= 2e9"), "switch is 2000000000"),
            ("\u{1}".into(), "expected"),
        ] {
            std::fs::write(&path, &bad).unwrap();
            let error = Constants::read(&path).unwrap_err().to_string();
            assert!(error.contains(needle), "{bad}: {error}");
            assert!(error.contains("calibrate -o"), "{error}");
        }
        let absent = Constants::read(Path::new("/nowhere/it")).unwrap_err();
        assert!(absent.to_string().starts_with("/nowhere/it: "), "{absent}");
    }
}
