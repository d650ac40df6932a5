//! The evidence that a runtime is recognised by: a command line before the start, a process after
//! it.

use crate::process::{Process, place};
use crate::setting::Setting;
use plimsoll_kernel::smaps::each_mapping_of;
use std::cell::OnceCell;
use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
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

/// A Java virtual machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Jvm {
    /// The one of OpenJDK and Oracle, with `libjvm.so`.
    HotSpot,
    /// The one of Eclipse and IBM, which has a `libjvm.so` of its own.
    OpenJ9,
}

/// A running process, as it was when it was looked at.
#[derive(Debug)]
pub struct Candidate {
    /// Its process id.
    pid: u32,
    /// The files that it has mapped, as paths below its own root.
    files: Vec<String>,
    /// We may not look into it.
    closed: bool,
    /// Its Java virtual machine; empty until somebody asks.
    jvm: OnceCell<Option<Jvm>>,
}

impl Candidate {
    /// Looks at a process. A process that is gone has no files.
    pub fn look(pid: u32) -> Candidate {
        let mut files = Vec::new();
        let looked = each_mapping_of(pid, &mut |mapping| {
            note(&mut files, &mapping.name);
            true
        });
        let closed = looked.is_err_and(|error| error.kind() == ErrorKind::PermissionDenied);
        Candidate {
            pid,
            files,
            closed,
            jvm: OnceCell::new(),
        }
    }

    /// Its number.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// A handle of the process; `None` if it is gone.
    pub fn process(&self) -> Option<Process> {
        Process::new(self.pid).ok()
    }

    /// The files that the process has mapped, as paths below its own root. Includes files that were
    /// deleted since.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(String::as_str)
    }

    /// The file names of [`Candidate::files`], without their folders.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.files().filter_map(|file| file.rsplit('/').next())
    }

    /// Whether we may not look into the process because it has rights that we lack. Its files are
    /// unknown then.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// The Java virtual machine of the process. Several runtimes ask, so the answer is kept.
    pub(crate) fn jvm(&self, look: impl FnOnce() -> Option<Jvm>) -> Option<Jvm> {
        *self.jvm.get_or_init(look)
    }

    /// `/proc/PID/<name>`, or that of a living thread, as [`place`].
    pub fn path(&self, name: &str) -> PathBuf {
        place(self.pid, name)
    }

    /// A process that has mapped these files.
    #[cfg(test)]
    pub(crate) fn made_up(names: &[&str]) -> Candidate {
        let mut files = Vec::new();
        for name in names {
            note(&mut files, name);
        }
        Candidate {
            pid: 0,
            files,
            closed: false,
            jvm: OnceCell::new(),
        }
    }
}

/// Notes the name of a mapping, if it is that of a file. A file that is mapped in several pieces, one after
/// another, is noted once.
fn note(files: &mut Vec<String>, name: &str) {
    let file = name.trim_end_matches(" (deleted)");
    if file.starts_with('/') && files.last().is_none_or(|last| last != file) {
        files.push(file.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_a_map_are_told_once_and_without_what_is_no_file() {
        let found = Candidate::made_up(&["/a/b.so", "/a/b.so", "", "[heap]", "/c d (deleted)"]);
        assert_eq!(found.files().collect::<Vec<_>>(), ["/a/b.so", "/c d"]);
        assert_eq!(found.names().collect::<Vec<_>>(), ["b.so", "c d"]);
        assert_eq!(found.jvm(|| Some(Jvm::HotSpot)), Some(Jvm::HotSpot));
        let again = found.jvm(|| unreachable!("it was looked for"));
        assert_eq!(again, Some(Jvm::HotSpot));
        let own = Candidate::look(std::process::id());
        assert!(!own.is_closed() && own.names().any(|name| name == "libc.so.6"));
        let none = Candidate::look(0);
        assert!(!none.is_closed() && none.files().next().is_none() && none.process().is_none());
    }

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
