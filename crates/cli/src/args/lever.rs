//! The options of levers (`--policy`, say): a flag and a key of files for each option that a runtime lists.

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::error::ErrorKind;
use clap::{Arg, ArgGroup, ArgMatches, Args, Command, Error, FromArgMatches, ValueHint};
use plimsoll_runtimes::ALL;
use plimsoll_runtimes::lever_options::{Chosen, LeverOption};

/// The group of all these flags.
pub(super) const GROUP: &str = "options-of-levers";

/// The values that a user gave to options of levers. The first value of an option is the default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeverOptions(pub Chosen);

impl LeverOptions {
    /// The option with this name.
    pub(crate) fn named(name: &str) -> Option<&'static LeverOption> {
        ALL.options().find(|option| option.name == name)
    }

    /// The names of all options.
    pub(crate) fn names() -> Vec<&'static str> {
        ALL.options().map(|option| option.name).collect()
    }
}

fn flag(option: &'static LeverOption) -> Arg {
    let value =
        |it: &plimsoll_runtimes::lever_options::Choice| PossibleValue::new(it.name).help(it.help);
    let arg = Arg::new(option.name).long(option.name).help(option.help);
    if option.takes_file() {
        return arg.value_name("FILE").value_hint(ValueHint::FilePath);
    }
    arg.value_name(option.name.to_uppercase().replace('-', "_"))
        .value_parser(PossibleValuesParser::new(option.values.iter().map(value)))
        .default_value(option.values[0].name)
}

impl Args for LeverOptions {
    fn augment_args(command: Command) -> Command {
        let group = ArgGroup::new(GROUP).multiple(true);
        command
            .args(ALL.options().map(flag))
            .group(group.args(LeverOptions::names()))
    }

    fn augment_args_for_update(command: Command) -> Command {
        LeverOptions::augment_args(command)
    }
}

impl FromArgMatches for LeverOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<LeverOptions, Error> {
        let mut given = LeverOptions::default();
        given.update_from_arg_matches(matches)?;
        Ok(given)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        for option in ALL.options() {
            if let Some(value) = matches.get_one::<String>(option.name) {
                let given = self.0.give(option, value);
                given.map_err(|why| Error::raw(ErrorKind::InvalidValue, why))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_book_describes_each_option() {
        let page = |name: &str| {
            let book = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src");
            std::fs::read_to_string(book.join(name)).unwrap()
        };
        let (flags, keys) = (page("commands.md"), page("several-programs.md"));
        for name in LeverOptions::names() {
            assert!(
                flags.contains(&format!("`--{name} ")),
                "commands.md: --{name}"
            );
            assert!(
                keys.contains(&format!("`{name}`")),
                "several-programs.md: {name}"
            );
        }
    }
}
