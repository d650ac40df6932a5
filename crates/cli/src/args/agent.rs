//! `--agent`: whether our agent is loaded into a program.

use clap::ValueEnum;
use plimsoll_runtimes::Use;
use serde::Deserialize;

/// Whether the agent for the program's runtime is loaded into it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AgentChoice {
    /// Where it helps and nothing forbids it: Java programs with Serial, Parallel or G1, or under Isla Vista
    Auto,
    /// Nowhere: the program is steered from outside only
    #[default]
    Never,
}

impl From<AgentChoice> for Use {
    fn from(choice: AgentChoice) -> Use {
        match choice {
            AgentChoice::Auto => Use::Auto,
            AgentChoice::Never => Use::Never,
        }
    }
}
