//! `programs.toml`: several programs under one budget, for `plimsoll run -f`.
//!
//! ```toml
//! name = "demo"                 # of the group; the file's name when absent
//! budget = "1500M"              # optional: what all of it shares
//!
//! [[program]]
//! name = "index"
//! command = ["java", "-jar", "index.jar"]
//! weight = 10
//!
//! [[program]]
//! name = "search"
//! command = "java -jar search.jar --port 8080"
//! weight = 40
//! start = "20s"
//!
//! [[outsider]]                  # inside the budget, but unknown to the broker
//! name = "hog"
//! command = "./hog 750M"
//! start = "90s"
//! ```

use crate::args::{AdapterChoice, LeverOptions, check_name};
use crate::lever_keys::OwnKeys;
use crate::size::{Human, bound};
use plimsoll_unit::Bytes;
use plimsoll_wire::size::Size;
use plimsoll_wire::standing::Standing;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The most programs in one file. More must be a mistake.
pub const MOST_PROGRAMS: usize = 1000;
/// The largest file, bytes. A larger one cannot be a list of programs.
pub const MOST_BYTES: u64 = 1 << 20;

/// The contents of a `programs.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Programs {
    /// The name of the group.
    pub name: Option<String>,
    /// Memory that all programs and outsiders of the file share; the machine's memory when absent.
    pub budget: Option<Size>,
    /// The weight of the group relative to other principals, as written.
    #[serde(default, deserialize_with = "whole")]
    weight: Option<i64>,
    #[serde(default, deserialize_with = "whole")]
    priority: Option<i64>,
    /// Weight and priority, parsed when the file was read.
    #[serde(skip)]
    pub standing: Standing,
    /// Programs that run under the broker.
    #[serde(default, rename = "program")]
    pub programs: Vec<Program>,
    /// Programs that run inside the budget's cgroup, unknown to the broker.
    #[serde(default, rename = "outsider")]
    pub outsiders: Vec<Program>,
}

/// One program of the file. Outsiders have no weight, priority, max, adapter, and no options of levers.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct Program {
    /// Shown to people.
    pub name: String,
    /// Program and arguments.
    pub command: Command,
    /// Its weight relative to its siblings, as written.
    #[serde(default, deserialize_with = "whole")]
    weight: Option<i64>,
    #[serde(default, deserialize_with = "whole")]
    priority: Option<i64>,
    /// Weight and priority, parsed when the file was read.
    #[serde(skip)]
    pub standing: Standing,
    /// Its maximum.
    pub max: Option<Size>,
    /// How it is steered.
    pub adapter: Option<AdapterChoice>,
    /// The options of its lever, each a key of its own.
    #[serde(skip)]
    pub lever: LeverOptions,
    /// When it starts, after the file's start.
    #[serde(default, deserialize_with = "duration")]
    pub start: Duration,
    /// When it is ended (SIGTERM), after the file's start; runs until it ends when absent.
    #[serde(default, deserialize_with = "optional_duration")]
    pub stop: Option<Duration>,
    /// Added to the environment.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Where it runs; relative to the file.
    pub cwd: Option<PathBuf>,
    /// Where its standard output goes; relative to the file, inherited when absent.
    pub stdout: Option<PathBuf>,
    /// Where its standard error goes; relative to the file, inherited when absent.
    pub stderr: Option<PathBuf>,
}

impl<'de> Deserialize<'de> for Program {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Program, D::Error> {
        struct Table;

        impl<'de> Visitor<'de> for Table {
            type Value = Program;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a table with a name and a command")
            }

            fn visit_map<M: MapAccess<'de>>(self, table: M) -> Result<Program, M::Error> {
                let mut lever = LeverOptions::default();
                let given = &mut lever;
                let own = MapAccessDeserializer::new(OwnKeys { table, given });
                let program = Program::deserialize(own)?;
                Ok(Program { lever, ..program })
            }
        }
        from.deserialize_map(Table)
    }
}

/// A command: an array of words, or a string that is split into words as a shell does (quotes and
/// backslashes, but no variables and no globs).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "WrittenCommand")]
pub struct Command(
    /// Never empty; the first is the program.
    pub Vec<String>,
);

#[derive(Deserialize)]
#[serde(untagged)]
enum WrittenCommand {
    Line(String),
    Words(Vec<String>),
}

impl TryFrom<WrittenCommand> for Command {
    type Error = String;

    fn try_from(written: WrittenCommand) -> Result<Command, String> {
        let words = match written {
            WrittenCommand::Words(words) => words,
            WrittenCommand::Line(line) => shlex::split(&line)
                .ok_or_else(|| format!("command `{line}` has an unclosed quote: close it"))?,
        };
        if words.first().is_none_or(String::is_empty) {
            return Err("command is empty: name a program".into());
        }
        if words.iter().any(|word| word.contains('\0')) {
            return Err("command holds a NUL byte: take it out".into());
        }
        Ok(Command(words))
    }
}

/// Why a file is not a list of programs.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum ProgramsError {
    #[error("cannot read {path}: {source}")]
    Read {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{path} has {bytes} bytes: a list of programs has at most {MOST_BYTES}")]
    TooLarge { path: PathBuf, bytes: u64 },
    #[error("{path}: {message}")]
    Syntax { path: PathBuf, message: String },
    #[error("{path}: {message}")]
    Meaning { path: PathBuf, message: String },
}

impl Programs {
    /// Things that the file may say, but that are hardly meant.
    pub fn doubts(&self, capacity: Bytes) -> Vec<String> {
        let mut doubts = Vec::new();
        for (at, program) in self.programs.iter().enumerate() {
            let same = |other: &Program| other.name == program.name;
            let before = self.programs[..at]
                .iter()
                .filter(|other| same(other))
                .count();
            if before == 1 {
                doubts.push(format!(
                    "several programs are called `{}`: `plimsoll set` takes their numbers only",
                    program.name
                ));
            }
        }
        let budget = self.budget.map(|budget| budget.bytes(capacity));
        if let Some(budget) = budget.filter(|&budget| budget > capacity) {
            doubts.push(format!(
                "the budget of {} is more than the {} that there are",
                Human(budget.0),
                Human(capacity.0)
            ));
        }
        doubts
    }

    /// Reads and checks a file. Relative paths in it are taken from its directory.
    ///
    /// # Errors
    /// When the file cannot be read, is not TOML, or says something that cannot be done.
    pub fn read(path: &Path) -> Result<Programs, ProgramsError> {
        let unreadable = |source| ProgramsError::Read {
            path: path.to_owned(),
            source,
        };
        let bytes = std::fs::metadata(path).map_err(unreadable)?.len();
        if bytes > MOST_BYTES {
            return Err(ProgramsError::TooLarge {
                path: path.to_owned(),
                bytes,
            });
        }
        let text = std::fs::read_to_string(path).map_err(unreadable)?;
        let mut programs = Programs::parse(&text, path)?;
        let base = path.parent().unwrap_or(Path::new(""));
        for program in programs.programs.iter_mut().chain(&mut programs.outsiders) {
            let places = [&mut program.cwd, &mut program.stdout, &mut program.stderr];
            for place in places.into_iter().flatten() {
                *place = base.join(&*place);
            }
        }
        if programs.name.is_none() {
            let stem = path.file_stem().map(|s| s.to_string_lossy().into_owned());
            programs.name = stem.filter(|name| check_name(name).is_ok());
        }
        Ok(programs)
    }

    /// Checks the text of a file; `path` is only named in errors.
    ///
    /// # Errors
    /// When it is not TOML, or says something that cannot be done.
    pub fn parse(text: &str, path: &Path) -> Result<Programs, ProgramsError> {
        let mut programs: Programs =
            toml::from_str(text).map_err(|error| ProgramsError::Syntax {
                path: path.to_owned(),
                message: error.to_string().trim_end().to_owned(),
            })?;
        programs.check().map_err(|message| ProgramsError::Meaning {
            path: path.to_owned(),
            message,
        })?;
        Ok(programs)
    }

    /// Checks that a broker takes the budget and each maximum where there is `memory`.
    ///
    /// # Errors
    /// Says which of them it does not take.
    pub fn check_bounds(&self, path: &Path, memory: Bytes) -> Result<(), ProgramsError> {
        let budget = [("budget".to_owned(), self.budget)].into_iter();
        let own = self.programs.iter();
        let own = own.map(|program| (format!("program `{}`", program.name), program.max));
        for (whose, size) in budget.chain(own) {
            let bytes = size.map(|size| bound(size, memory)).transpose();
            bytes.map_err(|error| ProgramsError::Meaning {
                path: path.to_owned(),
                message: format!("{whose}: {error}"),
            })?;
        }
        Ok(())
    }

    /// Checks what serde cannot check, and parses the numbers.
    fn check(&mut self) -> Result<(), String> {
        if self.programs.is_empty() {
            return Err("no [[program]] in it: add one with a name and a command".into());
        }
        let count = self.programs.len() + self.outsiders.len();
        if count > MOST_PROGRAMS {
            return Err(format!(
                "{count} programs: at most {MOST_PROGRAMS} are allowed"
            ));
        }
        if let Some(name) = &self.name {
            check_name(name)?;
        }
        self.standing =
            Standing::read(self.weight, self.priority).map_err(|error| error.message)?;
        if self.budget.is_some_and(Size::is_zero) {
            return Err(
                "budget is 0: give what the programs share, `budget = \"1500M\"` say".into(),
            );
        }
        for program in self.programs.iter_mut().chain(&mut self.outsiders) {
            program
                .check()
                .map_err(|message| format!("program `{}`: {message}", program.name))?;
        }
        for outsider in &self.outsiders {
            let told = outsider.weight.is_some()
                || outsider.priority.is_some()
                || outsider.max.is_some()
                || outsider.adapter.is_some()
                || !outsider.lever.0.is_empty();
            if told {
                return Err(format!(
                    "outsider `{}`: weight, priority, max, adapter, {} are for [[program]]s; an outsider is \
                     unknown to the broker",
                    outsider.name,
                    LeverOptions::names().join(", ")
                ));
            }
        }
        Ok(())
    }
}

impl Program {
    fn check(&mut self) -> Result<(), String> {
        check_name(&self.name)?;
        self.standing =
            Standing::read(self.weight, self.priority).map_err(|error| error.message)?;
        if self.max == Some(Size::Part(0.0)) {
            return Err("max is 0%: give more, or leave it out for no bound".into());
        }
        if self.stop.is_some_and(|stop| stop <= self.start) {
            return Err("stop is not after start: both count from the file's start".into());
        }
        if let Some(key) = self
            .env
            .keys()
            .find(|k| k.is_empty() || k.contains('=') || k.contains('\0'))
        {
            return Err(format!("env has the impossible name {key:?}"));
        }
        if let Some((key, _)) = self.env.iter().find(|(_, value)| value.contains('\0')) {
            return Err(format!("env: the value of {key} holds a NUL byte"));
        }
        Ok(())
    }
}

/// A whole number in a TOML file.
fn whole<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<i64>, D::Error> {
    struct Whole;

    impl serde::de::Visitor<'_> for Whole {
        type Value = i64;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a whole number without quotes, such as 40")
        }

        fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<i64, E> {
            Ok(number)
        }
    }
    from.deserialize_i64(Whole).map(Some)
}

/// A span of time in a TOML file: seconds, or a string with a unit.
#[derive(Deserialize)]
#[serde(untagged)]
enum WrittenDuration {
    Seconds(f64),
    Text(String),
}

fn duration<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let parsed = match WrittenDuration::deserialize(from)? {
        WrittenDuration::Seconds(seconds) => seconds_of(seconds, &seconds.to_string()),
        WrittenDuration::Text(text) => parse_duration(&text),
    };
    parsed.map_err(serde::de::Error::custom)
}

fn optional_duration<'de, D: serde::Deserializer<'de>>(
    from: D,
) -> Result<Option<Duration>, D::Error> {
    duration(from).map(Some)
}

/// Reads `20s`, `500ms`, `1.5m`, `1h`, or a bare number of seconds.
///
/// # Errors
/// Says what was wrong with it.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let trimmed = text.trim();
    let unit_at = trimmed
        .find(|c: char| c.is_ascii_alphabetic())
        .unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(unit_at);
    let factor = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("`{text}` is no time: write 20s, 500ms, 2m or 1h")),
    };
    let value: f64 = number
        .trim()
        .parse()
        .map_err(|_| format!("`{text}` is no time: write 20s, 500ms, 2m or 1h"))?;
    seconds_of(value * factor, text)
}

fn seconds_of(seconds: f64, text: &str) -> Result<Duration, String> {
    const YEAR: f64 = 366.0 * 86400.0;
    if !(0.0..=YEAR).contains(&seconds) {
        return Err(format!("`{text}` is no time: give 0s to one year"));
    }
    Ok(Duration::from_secs_f64(seconds))
}

#[cfg(test)]
#[path = "programs_tests.rs"]
mod tests;
