//! `plimsoll-lab`, which has the commands that simulate and record. It is a program and a package of its own,
//! because nobody needs it to run programs.

use crate::error::CliError;
use crate::run::child;
use plimsoll_kernel::environment;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Its name, and that of its package.
const PROGRAM: &str = "plimsoll-lab";
/// Its commands.
pub const COMMANDS: [&str; 3] = ["sim", "together", "trace"];

/// The program, if it is installed: beside ours, or in `PATH`.
fn found() -> Option<PathBuf> {
    let own = std::env::current_exe().ok();
    let beside = own.map(|own| own.with_file_name(PROGRAM));
    let beside = beside.filter(|path| path.is_file());
    // A user with fewer rights than ours must not choose what we execute.
    let in_path = || environment::is_trusted().then(|| child::find(Path::new(PROGRAM)));
    beside.or_else(|| in_path().flatten())
}

/// Becomes the program, for one of its commands. Returns only if that fails.
pub fn become_it(name: &str, args: &[OsString]) -> CliError {
    let Some(program) = found() else {
        return CliError::NoLab(name.to_owned());
    };
    let mut command = Command::new(&program);
    command.arg(name).args(args);
    CliError::path(program)(child::replace_us(command))
}

/// Lets it write what it also has to say, where it is installed: completions of all commands, or its own man
/// pages. Returns whether it did.
///
/// # Errors
/// It cannot be started.
pub fn asked(name: &str, arg: &OsStr) -> Result<bool, CliError> {
    let Some(program) = found() else {
        return Ok(false);
    };
    let status = Command::new(&program).arg(name).arg(arg).status();
    Ok(status.map_err(CliError::path(program))?.success())
}

/// The arguments after the command's name, from our whole command line and those that were parsed: the parser
/// drops a `--` that comes first.
pub fn arguments(all: Vec<OsString>, parsed: usize) -> Vec<OsString> {
    let mut from = all.len() - parsed.min(all.len());
    if from > 0 && all[from - 1] == "--" {
        from -= 1;
    }
    all[from..].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser;

    #[test]
    fn its_arguments_are_passed_on_as_they_are() {
        for line in [
            "sim --help",
            "sim a.trace --scheduler rr,larf -V",
            "trace -o x -- java -jar a.jar -- --socket y",
            "trace -- java",
            "together -m 64M a b",
            "trace",
        ] {
            let all: Vec<OsString> = ["plimsoll", "--socket", "/x"]
                .into_iter()
                .chain(line.split(' '))
                .map(OsString::from)
                .collect();
            let parsed = match Cli::try_parse_from(&all).unwrap().command {
                Command::Sim(it) | Command::Together(it) | Command::Trace(it) => it.args,
                other => panic!("{other:?}"),
            };
            assert_eq!(arguments(all.clone(), parsed.len()), all[4..], "{line}");
        }
    }
}
