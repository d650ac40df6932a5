//! The one definition of the commands and flags of the lab, as `plimsoll_cli::args` is of all others.
//!
//! # Map
//!
//! | module | is |
//! |---|---|
//! | `trace` | `plimsoll trace` |
//! | `sim` | `plimsoll sim` |
//! | `together` | `plimsoll together` |
//! | `model` | what `sim` and `together` share |

mod model;
pub mod sim;
pub mod together;
pub mod trace;

pub use model::Model;
pub use sim::Sim;
pub use together::Together;
pub use trace::Trace;

use clap::{CommandFactory, Parser, Subcommand};
use plimsoll_cli::args::{Completions, Man};

/// Simulate threads and heaps over traces, and record traces of Java programs. `plimsoll` executes it
#[derive(Debug, Parser)]
#[command(
    name = "plimsoll-lab",
    bin_name = "plimsoll",
    version,
    disable_help_subcommand = true
)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub struct Cli {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Simulate the threads of a trace under schedulers and collectors
    Sim(Sim),
    /// Simulate several traces in one memory, under the broker or a heap policy
    Together(Together),
    /// Look at, check, convert, merge or make up traces of what threads allocate and lock
    Trace(Trace),
    /// Print a completion script for a shell, of all commands of plimsoll
    #[command(hide = true)]
    Completions(Completions),
    /// Write the man pages of these commands into a directory
    #[command(hide = true)]
    Man(Man),
}

impl Command {
    /// Whether it runs a program of the user's, whose exit status becomes ours.
    pub fn runs_a_program(&self) -> bool {
        matches!(self, Command::Trace(trace) if trace.command.is_none())
    }
}

/// The commands of the lab, built.
pub fn own() -> clap::Command {
    let mut command = Cli::command();
    command.build();
    command
}

/// The commands of `plimsoll`, with those of the lab in full.
pub fn whole() -> clap::Command {
    let own = Cli::command();
    let shown = own.get_subcommands().filter(|sub| !sub.is_hide_set());
    let all = plimsoll_cli::args::Cli::command();
    shown.fold(all, |all, sub| {
        all.mut_subcommand(sub.get_name(), |_| sub.clone())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap_complete::Shell;
    use plimsoll_cli::lab::COMMANDS;

    #[test]
    fn definitions_hold_together() {
        Cli::command().debug_assert();
        whole().debug_assert();
    }

    #[test]
    fn plimsoll_lists_the_same_commands_in_the_same_words() {
        let (own, all) = (Cli::command(), plimsoll_cli::args::Cli::command());
        let shown = own.get_subcommands().filter(|sub| !sub.is_hide_set());
        let shown: Vec<_> = shown.collect();
        let names: Vec<_> = shown.iter().map(|sub| sub.get_name()).collect();
        assert_eq!(names, COMMANDS);
        for sub in shown {
            let listed = all.find_subcommand(sub.get_name()).unwrap();
            assert_eq!(
                listed.get_about().unwrap().to_string(),
                sub.get_about().unwrap().to_string()
            );
        }
    }

    #[test]
    fn bad_input_is_named() {
        for (line, needle) in [
            ("plimsoll trace synth lusearch", "--output"),
            ("plimsoll trace synth solitaire -o x", "hsqldb, lusearch"),
            ("plimsoll trace synth ecperf -o x --scale 0", "is no factor"),
            (
                "plimsoll trace convert x --level 20",
                "a whole number, 1 to 19",
            ),
        ] {
            let error = Cli::try_parse_from(line.split(' '))
                .map(|_| ())
                .expect_err(line);
            assert!(error.to_string().contains(needle), "{line:?} => {error}");
        }
    }

    #[test]
    fn every_flag_and_command_is_documented() {
        fn walk(command: &clap::Command) {
            for arg in command.get_arguments() {
                assert!(
                    arg.get_help().is_some(),
                    "{} {}",
                    command.get_name(),
                    arg.get_id()
                );
            }
            for sub in command.get_subcommands() {
                assert!(sub.get_about().is_some(), "{}", sub.get_name());
                walk(sub);
            }
        }
        let mut command = whole();
        command.build();
        walk(&command);
    }

    #[test]
    fn pages_and_completions_have_the_flags() {
        let dir = tempfile::tempdir().unwrap();
        plimsoll_cli::man::write_commands(&own(), dir.path()).unwrap();
        for name in ["sim", "sim-calibrate", "together", "trace", "trace-synth"] {
            assert!(
                dir.path().join(format!("plimsoll-{name}.1")).exists(),
                "{name}"
            );
        }
        assert!(
            !dir.path().join("plimsoll.1").exists() && !dir.path().join("plimsoll-man.1").exists()
        );
        let script = plimsoll_cli::man::completions(&whole(), Shell::Bash);
        assert!(script.contains("--memory-quantum") && script.contains("--own-weight"));
    }
}
