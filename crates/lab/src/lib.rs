//! `plimsoll-lab`: simulates threads and heaps over traces, and records such traces. `plimsoll sim`,
//! `together` and `trace` execute it. It is a package of its own, because nobody needs it to run programs.
//!
//! # Map
//! | module | is |
//! |---|---|
//! | [`args`] | the definitions of its commands and flags |
//! | [`sim`], [`together`], [`trace`] | the commands of those names |
//! | [`error`] | why a command failed |

pub mod args;
pub mod error;
pub mod sim;
pub mod together;
pub mod trace;

use args::{Cli, Command};
use clap::Parser;
use error::LabError;
use plimsoll_cli::man;
use plimsoll_cli::output::{print, say};
use std::process::ExitCode;

/// The whole program.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let running = cli.command.runs_a_program();
    match dispatch(&cli.command) {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            say(format_args!("{error}"));
            ExitCode::from(if running {
                error.run_status()
            } else {
                error.status()
            })
        }
    }
}

fn dispatch(command: &Command) -> Result<u8, LabError> {
    match command {
        Command::Sim(args) => sim::run(args),
        Command::Together(args) => together::run(args),
        Command::Trace(args) => trace::run(args),
        Command::Completions(args) => Ok(print(&man::completions(&args::whole(), args.shell))?),
        Command::Man(args) => {
            man::write_commands(&args::own(), &args.dir)?;
            Ok(0)
        }
    }
}
