//! `--adapter`: `auto`, `none`, and the choices of the known runtimes.

use clap::ValueEnum;
use clap::builder::PossibleValue;
use plimsoll_runtimes::ALL;
use serde::{Deserialize, Deserializer, de};
use std::sync::LazyLock;

/// How a program is steered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AdapterChoice {
    /// By what the program is.
    #[default]
    Auto,
    /// Not at all.
    None,
    /// As a program of the runtime that offers this choice.
    Named(&'static str),
}

/// All choices, in the order of the help.
static CHOICES: LazyLock<Vec<AdapterChoice>> = LazyLock::new(|| {
    let named = ALL
        .choices()
        .map(|choice| AdapterChoice::Named(choice.name));
    [AdapterChoice::Auto, AdapterChoice::None]
        .into_iter()
        .chain(named)
        .collect()
});

impl AdapterChoice {
    /// The value on the command line.
    pub fn name(self) -> &'static str {
        match self {
            AdapterChoice::Auto => "auto",
            AdapterChoice::None => "none",
            AdapterChoice::Named(name) => name,
        }
    }

    /// Its meaning, for the help.
    pub fn help(self) -> &'static str {
        match self {
            AdapterChoice::Auto => "By what the program is",
            AdapterChoice::None => {
                "Not at all: its use is counted and shown, and an excess is taken from itself only"
            }
            AdapterChoice::Named(name) => {
                let found = ALL.choices().find(|choice| choice.name == name);
                found.map_or("", |choice| choice.help)
            }
        }
    }

    /// The user's choice, for [`plimsoll_runtimes::launch::Plan`].
    pub(crate) fn said(self) -> Option<&'static str> {
        match self {
            AdapterChoice::Named(name) => Some(name),
            AdapterChoice::Auto | AdapterChoice::None => None,
        }
    }
}

impl ValueEnum for AdapterChoice {
    fn value_variants<'a>() -> &'a [AdapterChoice] {
        &CHOICES
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.name()).help(self.help()))
    }
}

impl TryFrom<String> for AdapterChoice {
    type Error = String;

    fn try_from(given: String) -> Result<AdapterChoice, String> {
        let found = CHOICES.iter().find(|choice| choice.name() == given);
        found.copied().ok_or_else(|| {
            let names: Vec<&str> = CHOICES.iter().map(|choice| choice.name()).collect();
            format!("`{given}` is no adapter: give one of {}", names.join(", "))
        })
    }
}

impl<'de> Deserialize<'de> for AdapterChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<AdapterChoice, D::Error> {
        let given = String::deserialize(deserializer)?;
        AdapterChoice::try_from(given).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The page of the book that lists the choices, between the two lines below.
    const PAGE: &str = "../../docs/src/adapters.md";
    const BEGIN: &str = "<!-- adapters -->\n";
    const END: &str = "<!-- end -->";
    /// If this variable is set, the test writes the list into the page.
    const WRITE: &str = "PLIMSOLL_WRITE_DOCS";

    #[test]
    fn a_rule_of_the_broker_may_name_each_adapter() {
        let known: Vec<&str> = plimsoll_broker::config::adapters().collect();
        let adapters = ALL.0.iter().filter_map(|runtime| runtime.adapter());
        for adapter in adapters.chain(["self", "none"]) {
            assert!(known.contains(&adapter), "{adapter}");
        }
    }

    #[test]
    fn what_is_given_is_what_is_listed() {
        assert_eq!(
            AdapterChoice::try_from("hotspot".to_owned()),
            Ok(AdapterChoice::Named("hotspot"))
        );
        assert_eq!(
            AdapterChoice::try_from("none".to_owned()),
            Ok(AdapterChoice::None)
        );
        let said = AdapterChoice::try_from("magic".to_owned()).unwrap_err();
        assert!(
            said.contains("`magic`") && said.contains("auto, none, ") && said.contains("hotspot"),
            "{said}"
        );
        for choice in AdapterChoice::value_variants() {
            assert!(!choice.help().is_empty(), "{choice:?}");
            assert_eq!(
                choice.said().is_some(),
                plimsoll_runtimes::ALL.chosen(choice.name()).is_some()
            );
        }
    }

    #[test]
    fn the_book_lists_every_adapter() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
        let page = std::fs::read_to_string(&path).unwrap();
        let (head, rest) = page.split_once(BEGIN).unwrap();
        let (listed, tail) = rest.split_once(END).unwrap();
        let row = |choice: &AdapterChoice| format!("| `{}` | {} |\n", choice.name(), choice.help());
        let rows: String = CHOICES.iter().map(row).collect();
        let expected = format!("| `--adapter` | how the program is steered |\n|---|---|\n{rows}");
        if std::env::var_os(WRITE).is_some() && listed != expected {
            std::fs::write(&path, format!("{head}{BEGIN}{expected}{END}{tail}")).unwrap();
            return;
        }
        assert_eq!(listed, expected, "write it by this test with {WRITE}=1");
    }
}
