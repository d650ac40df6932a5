//! Choices of users about a runtime and its lever.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

/// One of several values, as users give it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The value.
    pub name: &'static str,
    /// Its meaning, for the help: one line without a full stop.
    pub help: &'static str,
}

/// An option of a lever, which users give as `--NAME VALUE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeverOption {
    /// Its name, which no other lever's option has: lower-case letters and `-`.
    pub name: &'static str,
    /// Its meaning, for the help: one line without a full stop.
    pub help: &'static str,
    /// Its values. The first one holds where the user gives none. An option without any takes the path of a
    /// file, and is absent where the user gives none.
    pub values: &'static [Choice],
}

impl LeverOption {
    /// Whether its value is the path of a file.
    pub fn takes_file(&self) -> bool {
        self.values.is_empty()
    }
}

/// The values that a user gave to options of levers. A lever asks for its own; it ignores those of others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chosen(BTreeMap<&'static str, Cow<'static, str>>);

impl Chosen {
    /// These values, by the names of the options.
    pub fn of<const N: usize>(given: [(&'static str, &'static str); N]) -> Chosen {
        let given = given.into_iter();
        Chosen(given.map(|(name, value)| (name, value.into())).collect())
    }

    /// Takes a value that a user gave.
    ///
    /// # Errors
    /// Which values the option has, if this is none of them. The path of a file begins at the root, because
    /// an adapter may work in another folder than its user.
    pub fn give(&mut self, option: &LeverOption, value: &str) -> Result<(), String> {
        if option.takes_file() {
            if !Path::new(value).is_absolute() {
                let name = option.name;
                return Err(format!(
                    "`{value}` is no value of `{name}`: give the whole path of a file, from `/` on"
                ));
            }
            self.0.insert(option.name, value.to_owned().into());
            return Ok(());
        }
        let known = option.values.iter().find(|it| it.name == value);
        let known = known.ok_or_else(|| {
            let names: Vec<&str> = option.values.iter().map(|it| it.name).collect();
            let (name, names) = (option.name, names.join(", "));
            format!("`{value}` is no value of `{name}`: give one of {names}")
        })?;
        self.0.insert(option.name, known.name.into());
        Ok(())
    }

    /// Whether the user gave no value.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Which value of an option holds, by its place among the values.
    pub(crate) fn place(&self, option: &LeverOption) -> usize {
        let given = self.0.get(option.name);
        let place = given.and_then(|given| option.values.iter().position(|it| it.name == *given));
        place.unwrap_or(0)
    }

    /// The file that the user gave for an option that takes one.
    pub(crate) fn file(&self, option: &LeverOption) -> Option<&Path> {
        let given = self.0.get(option.name).filter(|_| option.takes_file());
        given.map(|given| Path::new(&**given))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_value_holds_where_none_of_them_was_given() {
        let choice = |name| Choice { name, help: "" };
        let values: &[Choice] = Box::leak(Box::new(["red", "blue"].map(choice)));
        let option = LeverOption {
            name: "colour",
            help: "",
            values,
        };
        let place = |name, value| Chosen::of([(name, value)]).place(&option);
        assert_eq!(place("colour", "blue"), 1);
        assert_eq!(
            [
                place("colour", "red"),
                place("colour", "x"),
                place("shade", "blue")
            ],
            [0; 3]
        );
        let mut chosen = Chosen::default();
        assert_eq!(chosen.place(&option), 0);
        let refused = chosen.give(&option, "x").unwrap_err();
        assert_eq!(
            refused,
            "`x` is no value of `colour`: give one of red, blue"
        );
        assert!(chosen.is_empty());
        chosen.give(&option, "blue").unwrap();
        assert_eq!(chosen, Chosen::of([("colour", "blue")]));
        assert_eq!(chosen.file(&option), None);
    }

    #[test]
    fn a_file_is_given_by_its_whole_path() {
        let option = LeverOption {
            name: "list",
            help: "",
            values: &[],
        };
        let mut chosen = Chosen::default();
        assert_eq!(chosen.file(&option), None);
        let refused = chosen.give(&option, "a/list").unwrap_err();
        assert!(
            refused.contains("`a/list` is no value of `list`"),
            "{refused}"
        );
        chosen.give(&option, "/a/list").unwrap();
        assert_eq!(chosen.file(&option), Some(Path::new("/a/list")));
    }
}
