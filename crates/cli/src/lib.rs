//! `plimsoll`: runs programs under the broker, and shows how memory is shared.
//!
//! # Glossary
//! - *principal*: the unit to which memory is accounted: a process with its descendants, or a
//!   group.
//! - *uses*, *limit*, *could have* (available), *owes* (owed): the numbers of a principal, bytes.
//! - *outsider*: a program whose memory the broker does not share out.
//! - *budget*: the bytes that are shared out: capacity - outsiders - reserve.
//! - *adapter*: steers one kind of runtime, in a thread of `run` or `adopt`.
//! - *embedded broker*: a broker that `run` or `adopt` started for this user.
//!
//! # Map
//! | module | is |
//! |---|---|
//! | [`args`] | the definitions of all commands and flags |
//! | [`programs`], `lever_keys` | the format `programs.toml`; keys for the options of levers |
//! | [`size`] | sizes as people write and read them |
//! | `group` | cgroups that a person names |
//! | [`broker_connection`] | the connection to list and change principals |
//! | [`rows`] | the tree of principals as rows |
//! | [`json`] | JSON that is safe to print on a terminal |
//! | [`ps`], [`explain`], [`set`], [`top`], [`map`], [`pin`] | the commands of those names |
//! | [`metrics`], [`events`] | the commands of those names |
//! | [`doctor`], [`man`] | the commands of those names |
//! | [`lab`] | `plimsoll-lab`, which has the commands that simulate and record |
//! | [`run`], [`adopt`] | programs under the broker |
//! | [`output`], [`progress`] | files that appear when they are complete; a line that shows how far we are |
//! | [`terminal_text`] | the width of a terminal, lines broken between words |
//! | [`own_broker`] | finding a broker, starting one |
//! | [`own_cgroup`] | cgroups for programs that we start |
//! | `descriptors`, [`error`] | descriptors that background processes close; why a command failed |

pub mod adopt;
pub mod args;
pub mod broker_connection;
mod descriptors;
pub mod doctor;
pub mod error;
pub mod events;
pub mod explain;
mod group;
pub mod json;
pub mod lab;
mod lever_keys;
pub mod man;
pub mod map;
pub mod metrics;
pub mod output;
pub mod own_broker;
pub mod own_cgroup;
pub mod pin;
pub mod programs;
pub mod progress;
pub mod ps;
pub mod rows;
pub mod run;
pub mod set;
pub mod size;
pub mod terminal_text;
pub mod top;

use args::{Cli, Command};
use broker_connection::Control;
use clap::{CommandFactory, Parser};
use error::CliError;
use output::{print, say};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// The whole program.
pub fn main() -> ExitCode {
    if !plimsoll_kernel::environment::is_trusted() {
        // The user who starts us has fewer rights than we have, and must not choose the broker that
        // we trust. SAFETY: no other thread runs yet.
        unsafe { std::env::remove_var(args::SOCKET) };
    }
    let cli = Cli::parse();
    let running = cli.command.runs_a_program();
    match dispatch(&cli) {
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

fn dispatch(cli: &Cli) -> Result<u8, CliError> {
    let place = || own_broker::place(cli.socket());
    match &cli.command {
        Command::Run(args) => run::run(&place(), args),
        Command::Adopt(args) => adopt::run(&place(), args),
        Command::Top(args) if args.once => {
            print(&top::once(&place().socket, args.collector.as_deref())?)
        }
        Command::Top(args) => top::run(
            &place().socket,
            Duration::from_millis(args.interval),
            || false,
        )
        .map(|()| 0),
        Command::Ps(args) => {
            let listing = Control::connect(&place().socket)?.list()?;
            print(&if args.json {
                ps::to_json(&listing)
            } else {
                ps::table(&listing)
            })
        }
        Command::Explain(args) => {
            let mut control = Control::connect(&place().socket)?;
            print(&explain::run(&mut control, args)?)
        }
        Command::Metrics(args) => metrics::run(&place, args),
        Command::Events(args) => events::run(&place, args),
        Command::Set(args) => set::run(&mut Control::connect(&place().socket)?, args).map(|()| 0),
        Command::Map(args) => map::run(&place, args),
        Command::Pin(args) => pin::run(args),
        Command::Sim(args) => Err(elsewhere("sim", args)),
        Command::Together(args) => Err(elsewhere("together", args)),
        Command::Trace(args) => Err(elsewhere("trace", args)),
        Command::Doctor(args) => {
            let findings = doctor::examine(&place());
            print(&if args.json {
                doctor::json(&findings)
            } else {
                doctor::text(&findings, terminal_text::width())
            })
        }
        Command::Completions(args) => {
            if lab::asked("completions", args.shell.to_string().as_ref())? {
                return Ok(0);
            }
            print(&man::completions(&args::Cli::command(), args.shell))
        }
        Command::Man(args) => {
            man::write(&args.dir)?;
            lab::asked("man", args.dir.as_ref()).map(|_| 0)
        }
        Command::Broker(args) => broker(args, cli.socket()),
        Command::UndoPhases(args) => {
            let notes = run::notes();
            if plimsoll_phases::guard(&mut std::io::stdin(), &args.words, notes.as_deref()) {
                Ok(0)
            } else {
                Err(CliError::Usage(
                    "these are not the words of `run --phases`".into(),
                ))
            }
        }
    }
}

/// Becomes `plimsoll-lab`, unless that fails.
fn elsewhere(name: &str, args: &args::Elsewhere) -> CliError {
    let all = std::env::args_os().collect();
    lab::become_it(name, &lab::arguments(all, args.args.len()))
}

/// Runs the broker until it leaves by itself or is told to.
fn broker(args: &args::Broker, socket: Option<&Path>) -> Result<u8, CliError> {
    let options = plimsoll_broker::Options {
        socket: socket.map(Path::to_owned),
        idle_exit: args.embedded.then_some(own_broker::IDLE_EXIT),
        ..plimsoll_broker::Options::default()
    };
    plimsoll_broker::service::log_to_stderr();
    match plimsoll_broker::run(options) {
        Ok(()) => Ok(0),
        Err(error) => Err(CliError::NotStarted(error.to_string())),
    }
}
