//! `plimsolld`: the broker as a service. The doc comments on the options are their help texts.

use clap::Parser;
use plimsoll_broker::{Options, run};
use plimsoll_unit::Bytes;
use plimsoll_wire::size::Size;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Shares memory by weight between the programs that ask it.
///
/// Without options it serves the user who starts it. On SIGHUP it reads the configuration again; SIGTERM ends
/// it. Programs go on without it.
#[derive(Parser)]
#[command(name = "plimsolld", version)]
struct Arguments {
    /// Serve all users: /run/plimsoll and /etc/plimsoll/plimsoll.toml
    #[arg(long)]
    system: bool,
    /// The configuration file; it must exist
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Directory for the socket, the pages and the state
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Path of the socket
    #[arg(long, value_name = "FILE")]
    socket: Option<PathBuf>,
    /// Cgroup directory whose limit bounds what is shared out, instead of the broker's own
    #[arg(long, value_name = "DIR")]
    domain: Option<PathBuf>,
    /// Share out at most this much memory (1500M)
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    budget: Option<Bytes>,
    /// Exit this many seconds after the last program and connection are gone
    #[arg(long, value_name = "SECONDS")]
    idle_exit: Option<u64>,
    /// Check the configuration, say whether it is good, and exit
    #[arg(long)]
    check: bool,
}

fn bytes(text: &str) -> Result<Bytes, String> {
    match text.parse() {
        Ok(Size::Bytes(bytes)) => Ok(Bytes(bytes)),
        Ok(Size::Part(_)) => Err("give a size (1500M); a part goes into plimsoll.toml".into()),
        Err(error) => Err(error.to_string()),
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    plimsoll_broker::service::log_to_stderr();
    let options = Options {
        system: arguments.system,
        directory: arguments.directory,
        socket: arguments.socket,
        config: arguments.config,
        idle_exit: arguments.idle_exit.map(Duration::from_secs),
        domain: arguments.domain,
        budget: arguments.budget,
        check: arguments.check,
    };
    match run(options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("plimsolld: {error}");
            ExitCode::FAILURE
        }
    }
}
