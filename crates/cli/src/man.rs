//! Man pages and completions, made from the definitions in [`crate::args`].

use crate::args::Cli;
use crate::error::CliError;
use clap::CommandFactory;
use std::path::Path;

/// Writes `plimsoll.1`, one `plimsoll-COMMAND.1` for each command, and one for each command below such a
/// command.
///
/// # Errors
/// When the directory cannot be made or written to.
pub fn write(dir: &Path) -> Result<(), CliError> {
    std::fs::create_dir_all(dir).map_err(CliError::path(dir))?;
    let mut command = Cli::command();
    command.build();
    write_page(command.clone(), "plimsoll", dir)?;
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        let name = format!("plimsoll-{}", sub.get_name());
        write_page(sub.clone(), &name, dir)?;
        for below in sub.get_subcommands() {
            write_page(below.clone(), &format!("{name}-{}", below.get_name()), dir)?;
        }
    }
    Ok(())
}

fn write_page(command: clap::Command, name: &str, dir: &Path) -> Result<(), CliError> {
    let path = dir.join(format!("{name}.1"));
    let page = clap_mangen::Man::new(command.disable_help_flag(true));
    let mut text = Vec::new();
    page.render(&mut text).map_err(CliError::path(&path))?;
    std::fs::write(&path, text).map_err(CliError::path(&path))
}

/// The completion script of a shell.
pub fn completions(shell: clap_complete::Shell) -> String {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "plimsoll", &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page_with_all_its_flags() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path()).unwrap();
        let mut command = Cli::command();
        command.build();
        for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
            let path = dir.path().join(format!("plimsoll-{}.1", sub.get_name()));
            let page = std::fs::read_to_string(&path).unwrap().replace("\\-", "-");
            let shown = sub.get_arguments().filter(|arg| !arg.is_hide_set());
            for arg in shown.filter_map(|arg| arg.get_long()) {
                assert!(
                    arg == "help" || page.contains(&format!("--{arg}")),
                    "{path:?}: --{arg}"
                );
            }
        }
        assert!(dir.path().join("plimsoll-trace-synth.1").exists());
        assert!(!dir.path().join("plimsoll-broker.1").exists());
        assert!(dir.path().join("plimsoll.1").exists());
    }

    #[test]
    fn every_shell_gets_a_script() {
        use clap::ValueEnum;
        for shell in clap_complete::Shell::value_variants() {
            assert!(completions(*shell).contains("adopt"), "{shell}");
        }
    }

    #[test]
    fn a_directory_that_cannot_be_made_is_named() {
        let error = write(Path::new("/proc/nowhere")).unwrap_err();
        assert!(error.to_string().starts_with("/proc/nowhere: "), "{error}");
    }
}
