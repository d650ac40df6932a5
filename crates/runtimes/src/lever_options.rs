//! Choices of users about a runtime and its lever.

use std::collections::BTreeMap;

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
    /// Its values. The first one holds where the user gives none.
    pub values: &'static [Choice],
}

/// The values that a user gave to options of levers. A lever asks for its own; it ignores those of others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chosen(BTreeMap<&'static str, &'static str>);

impl Chosen {
    /// These values, by the names of the options.
    pub fn of<const N: usize>(given: [(&'static str, &'static str); N]) -> Chosen {
        Chosen(given.into())
    }

    /// Takes a value that a user gave.
    ///
    /// # Errors
    /// Which values the option has, if this is none of them.
    pub fn give(&mut self, option: &LeverOption, value: &str) -> Result<(), String> {
        let known = option.values.iter().find(|it| it.name == value);
        let known = known.ok_or_else(|| {
            let names: Vec<&str> = option.values.iter().map(|it| it.name).collect();
            let (name, names) = (option.name, names.join(", "));
            format!("`{value}` is no value of `{name}`: give one of {names}")
        })?;
        self.0.insert(option.name, known.name);
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
    }
}
