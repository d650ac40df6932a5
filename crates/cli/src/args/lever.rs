//! `--policy`, `--agent` and `--give-back`: options of levers, with the values that the lever has.

use clap::ValueEnum;
use clap::builder::PossibleValue;
use plimsoll_runtimes::hotspot::options::{AGENT, GIVE_BACK, POLICY};
use plimsoll_runtimes::lever_options::LeverOption;
use serde::{Deserialize, Deserializer, de};

/// A type for the value of an option of a lever. The first value of the option is the default.
macro_rules! value_of {
    ($(#[$doc:meta])* $name:ident, $option:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name(usize);

        impl $name {
            const ALL: [$name; $option.values.len()] = {
                let mut all = [$name(0); $option.values.len()];
                let mut place = 0;
                while place < all.len() {
                    all[place].0 = place;
                    place += 1;
                }
                all
            };

            /// The option's name, and the value.
            pub(crate) fn given(self) -> (&'static str, &'static str) {
                ($option.name, $option.values[self.0].name)
            }
        }

        impl ValueEnum for $name {
            fn value_variants<'a>() -> &'a [$name] {
                &$name::ALL
            }

            fn to_possible_value(&self) -> Option<PossibleValue> {
                let value = &$option.values[self.0];
                Some(PossibleValue::new(value.name).help(value.help))
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$name, D::Error> {
                let given = String::deserialize(deserializer)?;
                place_of(&given, &$option).map($name).map_err(de::Error::custom)
            }
        }
    };
}

value_of!(
    /// The policy that sizes the heap of a steered program.
    PolicyChoice,
    POLICY
);
value_of!(
    /// Whether the agent for the program's runtime is loaded into it.
    AgentChoice,
    AGENT
);
value_of!(
    /// Which free heap the agent gives back.
    GiveBackChoice,
    GIVE_BACK
);

fn place_of(given: &str, option: &LeverOption) -> Result<usize, String> {
    let place = option.values.iter().position(|value| value.name == given);
    place.ok_or_else(|| {
        let names: Vec<&str> = option.values.iter().map(|value| value.name).collect();
        let names = names.join(", ");
        format!(
            "`{given}` is no value of `{}`: give one of {names}",
            option.name
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use plimsoll_runtimes::ALL;

    #[test]
    fn each_option_of_a_lever_can_be_given() {
        let command = crate::args::Cli::command();
        for option in ALL.0.iter().flat_map(|runtime| runtime.options()) {
            for name in ["run", "adopt"] {
                let command = command.find_subcommand(name).unwrap();
                let mut flags = command.get_arguments();
                let flag = flags.find(|flag| flag.get_long() == Some(option.name));
                let values = flag.unwrap().get_possible_values();
                let names: Vec<&str> = values.iter().map(PossibleValue::get_name).collect();
                let expected: Vec<&str> = option.values.iter().map(|value| value.name).collect();
                assert_eq!(names, expected, "{name} --{}", option.name);
            }
        }
        assert_eq!(PolicyChoice::default().given(), ("policy", "limit"));
        assert_eq!(AgentChoice::default().given(), ("agent", "start"));
        assert!(
            place_of("always", &AGENT)
                .unwrap_err()
                .contains("start, auto, never")
        );
    }
}
