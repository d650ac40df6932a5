//! The note about a Redis whose `maxmemory` is ours: what to put back if we are killed.

use super::password::PASSWORD_FILE;
use crate::lever_options::Chosen;
use plimsoll_unit::Bytes;
use std::fmt;

/// Such a note.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Noted {
    /// The user's own value.
    pub(super) given: Bytes,
    /// Our values, one of which holds. If another does, somebody has set it since, and it stays.
    pub(super) told: [Bytes; 2],
    /// How the server is reached.
    pub(super) chosen: Chosen,
}

impl Noted {
    pub(super) fn of(given: Bytes, told: [Bytes; 2], chosen: &Chosen) -> Noted {
        let mut needed = Chosen::default();
        if let Some(file) = chosen.file(&PASSWORD_FILE).and_then(|path| path.to_str()) {
            // It was a path before.
            let _ = needed.give(&PASSWORD_FILE, file);
        }
        Noted {
            given,
            told,
            chosen: needed,
        }
    }

    /// Reads a note; `None` if it is none.
    pub(super) fn parse(text: &str) -> Option<Noted> {
        let (numbers, rest) = text.split_once('\n')?;
        let mut numbers = numbers.strip_prefix("maxmemory ")?.split(' ');
        let mut next = || Some(Bytes(numbers.next()?.parse().ok()?));
        let (given, told) = (next()?, [next()?, next()?]);
        let mut chosen = Chosen::default();
        if let Some(file) = rest
            .strip_prefix("password ")
            .and_then(|it| it.strip_suffix('\n'))
        {
            chosen.give(&PASSWORD_FILE, file).ok()?;
        }
        Some(Noted {
            given,
            told,
            chosen,
        })
    }
}

impl fmt::Display for Noted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [now, before] = self.told;
        writeln!(f, "maxmemory {} {} {}", self.given.0, now.0, before.0)?;
        match self.chosen.file(&PASSWORD_FILE) {
            Some(file) => writeln!(f, "password {}", file.display()),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_comes_back_and_anything_else_is_none() {
        let mut chosen = Chosen::default();
        for text in ["maxmemory 5 7 0\n", "maxmemory 5 7 0\npassword /a b/c\n"] {
            let noted = Noted::of(Bytes(5), [Bytes(7), Bytes(0)], &chosen);
            assert_eq!(noted.to_string(), text);
            assert_eq!(Noted::parse(text), Some(noted));
            chosen.give(&PASSWORD_FILE, "/a b/c").unwrap();
        }
        for text in [
            "",
            "maxmemory 5 7\n",
            "maxmemory 5 7 x\n",
            "5 7 0\n",
            "maxmemory 5 7 0",
        ] {
            assert_eq!(Noted::parse(text), None, "{text}");
        }
    }
}
