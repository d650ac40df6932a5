//! Man pages and completions, made from the definitions in [`crate::args`].

use crate::args::Cli;
use crate::error::CliError;
use clap::CommandFactory;
use clap_complete::Shell;
use std::path::Path;

/// Writes `plimsoll.1`, and the pages of our commands. `plimsoll-lab` writes those of its own.
///
/// # Errors
/// When the directory cannot be made or written to.
pub fn write(dir: &Path) -> Result<(), CliError> {
    std::fs::create_dir_all(dir).map_err(CliError::path(dir))?;
    let mut command = Cli::command();
    command.build();
    write_page(command.clone(), "plimsoll", dir)?;
    write_commands(&command, dir)
}

/// Writes one `plimsoll-COMMAND.1` for each command, and one for each command below such a command. The
/// commands are built. Those that have no flags here are left out.
///
/// # Errors
/// As [`write`].
pub fn write_commands(command: &clap::Command, dir: &Path) -> Result<(), CliError> {
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        if sub.is_disable_help_flag_set() {
            continue;
        }
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

/// The completion script of a shell, for these commands of `plimsoll`.
pub fn completions(all: &clap::Command, shell: Shell) -> String {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut shown_commands(all), "plimsoll", &mut text);
    let text = String::from_utf8_lossy(&text).into_owned();
    match shell {
        Shell::Bash => text + BASH_NAMES,
        Shell::Fish => text + FISH_NAMES,
        Shell::Zsh => {
            // The script completes file names there. It calls a function that it defines last.
            let text = text.replace("NAME|ID:_default", "NAME|ID:_plimsoll_names");
            let text = text.replace(
                "several have the name:_default",
                "several have the name:_plimsoll_names",
            );
            let (head, rest) = text.split_once('\n').unwrap_or((&text, ""));
            format!("{head}\n{ZSH_NAMES}{rest}")
        }
        _ => text,
    }
}

/// The commands without those that are hidden: the completions of a shell show all that they get.
fn shown_commands(all: &clap::Command) -> clap::Command {
    let shown = all
        .get_subcommands()
        .filter(|sub| !sub.is_hide_set())
        .cloned();
    clap::Command::new("plimsoll")
        .version(env!("CARGO_PKG_VERSION"))
        .disable_help_subcommand(true)
        .args(all.get_arguments().cloned())
        .subcommands(shown)
}

/// Names of principals where one is meant. The names come from the listing of the broker, if one answers.
const BASH_NAMES: &str = r#"
_plimsoll_names() {
    plimsoll ps --json 2>/dev/null | sed -n 's/^ *"name": "\([^"\\]*\)",*$/\1/p' |
        while read -r name; do printf '%q\n' "$name"; done
}
_plimsoll_with_names() {
    local before=${COMP_WORDS[COMP_CWORD-1]}
    case "$before" in
        set|--parent|--principal|--collector)
            local IFS=$'\n'
            COMPREPLY=($(compgen -W "$(_plimsoll_names)" -- "${COMP_WORDS[COMP_CWORD]}"))
            [ ${#COMPREPLY[@]} -gt 0 ] && return 0 ;;
    esac
    _plimsoll "$@"
}
complete -F _plimsoll_with_names -o bashdefault -o default plimsoll
"#;

/// As [`BASH_NAMES`].
const FISH_NAMES: &str = r#"
function __plimsoll_names
    plimsoll ps --json 2>/dev/null | sed -n 's/^ *"name": "\([^"\\]*\)",*$/\1/p'
end
complete -c plimsoll -n "__fish_seen_subcommand_from set" -f -a "(__plimsoll_names)"
complete -c plimsoll -n "__fish_seen_subcommand_from set" -l parent -x -a "(__plimsoll_names)"
complete -c plimsoll -n "__fish_seen_subcommand_from map" -l principal -x -a "(__plimsoll_names)"
complete -c plimsoll -n "__fish_seen_subcommand_from top" -s g -l collector -x -a "(__plimsoll_names)"
"#;

/// As [`BASH_NAMES`].
const ZSH_NAMES: &str = r#"
_plimsoll_names() {
    local -a names
    names=(${(f)"$(plimsoll ps --json 2>/dev/null | sed -n 's/^ *"name": "\([^"\\]*\)",*$/\1/p')"})
    compadd -a names
}
"#;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::COMMANDS;

    #[test]
    fn every_command_has_a_page_with_all_its_flags() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path()).unwrap();
        let mut command = Cli::command();
        command.build();
        let ours = |sub: &&clap::Command| !sub.is_hide_set() && !COMMANDS.contains(&sub.get_name());
        for sub in command.get_subcommands().filter(ours) {
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
        assert!(!dir.path().join("plimsoll-trace.1").exists());
        assert!(!dir.path().join("plimsoll-broker.1").exists());
        assert!(dir.path().join("plimsoll.1").exists());
    }

    #[test]
    fn every_shell_gets_a_script() {
        use clap::ValueEnum;
        for shell in Shell::value_variants() {
            let script = completions(&Cli::command(), *shell);
            assert!(script.contains("adopt"), "{shell}");
            assert!(
                !script.contains("undo-phases") && !script.contains("undo__phases"),
                "{shell}"
            );
        }
        for (shell, times) in [(Shell::Bash, 2), (Shell::Fish, 5), (Shell::Zsh, 5)] {
            let names = completions(&Cli::command(), shell)
                .matches("plimsoll_names")
                .count();
            assert!(names >= times, "{shell}: {names}");
        }
    }

    #[test]
    fn a_directory_that_cannot_be_made_is_named() {
        let error = write(Path::new("/proc/nowhere")).unwrap_err();
        assert!(error.to_string().starts_with("/proc/nowhere: "), "{error}");
    }
}
