//! Evidence before the start: a command line.

use crate::start_environment::Setting;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A command line that is to be started.
pub struct Command<'a> {
    /// Program and arguments.
    pub argv: &'a [OsString],
    /// Where it will start.
    pub setting: &'a Setting<'a>,
    executable: Option<PathBuf>,
}

impl<'a> Command<'a> {
    /// Looks up the file that the command line starts.
    pub fn new(argv: &'a [OsString], setting: &'a Setting<'a>) -> Command<'a> {
        let path = argv.first().and_then(|name| program(name, setting));
        Command {
            argv,
            setting,
            executable: path.map(|path| std::fs::canonicalize(&path).unwrap_or(path)),
        }
    }

    /// The file that the command line starts, with links followed; `None` if it was not found.
    pub fn executable(&self) -> Option<&Path> {
        self.executable.as_deref()
    }
}

/// Where programs are looked for if there is no `PATH` (`confstr(_CS_PATH)`).
const USUAL: &str = "/bin:/usr/bin";

/// The path of a program, found as the system finds it: the name itself if it has a slash, else the first
/// file in `PATH` that may be executed.
pub fn program(name: &OsStr, setting: &Setting<'_>) -> Option<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return Some(setting.folder.join(name));
    }
    let path = (setting.variables)("PATH").unwrap_or_else(|| USUAL.into());
    let is_program = |file: &PathBuf| {
        file.metadata()
            .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    std::env::split_paths(&path)
        .map(|dir| setting.folder.join(dir).join(name))
        .find(is_program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_lies_where_its_name_says_or_in_the_path() {
        let dir = tempfile::tempdir().unwrap();
        for (name, mode) in [("tool", 0o755), ("text", 0o644)] {
            let file = dir.path().join(name);
            std::fs::write(&file, "").unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        }
        let path = dir.path().as_os_str().to_owned();
        let setting = Setting {
            variables: &|name: &str| (name == "PATH").then(|| path.clone()),
            folder: dir.path(),
        };
        let file = std::fs::canonicalize(dir.path().join("tool")).unwrap();
        for (name, found) in [
            ("tool", true),
            ("./tool", true),
            ("other", false),
            ("text", false),
        ] {
            let argv = [OsString::from(name)];
            let command = Command::new(&argv, &setting);
            assert_eq!(command.executable() == Some(&*file), found, "{name}");
        }
        assert_eq!(Command::new(&[], &setting).executable(), None);
        // Without the variable the system looks in its own folders.
        let none = Setting {
            variables: &|_: &str| None,
            folder: dir.path(),
        };
        assert!(program(OsStr::new("sh"), &none).is_some());
    }
}
