//! The names of our cgroups, and what killed processes of ours left: empty groups whose maker is gone are
//! removed, and the bounds of those that still hold programs are lifted.

use plimsoll_kernel::Result;
use plimsoll_kernel::cgroup::Cgroup;
use plimsoll_kernel::process::{Process, own};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

/// The prefix of the names of our cgroups. The maker follows.
const PREFIX: &str = "plimsoll-run-";
/// The most cgroups in a directory that is swept.
const MOST_SWEPT: usize = 10_000;
/// How many names are tried. None is taken, unless somebody else gives these names.
const NAMES: usize = 8;

/// The process that made a cgroup. Its number alone may be that of another one in another pid namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Maker {
    /// Its pid namespace.
    namespace: u64,
    /// Its number there.
    pid: u32,
    /// Clock ticks after boot at which it started.
    began: u64,
}

impl Maker {
    fn ours() -> Maker {
        Maker {
            namespace: own::pid_namespace().unwrap_or(0),
            pid: std::process::id(),
            began: Process::own().map_or(0, |process| process.start_time()),
        }
    }

    /// The maker of the cgroup of this name, if the name is one of ours.
    fn of(name: &str) -> Option<Maker> {
        let mut words = name.strip_prefix(PREFIX)?.split('-');
        Some(Maker {
            namespace: words.next()?.parse().ok()?,
            pid: words.next()?.parse().ok()?,
            began: words.next()?.parse().ok()?,
        })
    }

    /// Whether it is certain that it has ended. In another namespace nobody can tell.
    fn is_gone(self) -> bool {
        if own::pid_namespace() != Some(self.namespace) || !own::is_shown() {
            return false;
        }
        let Ok(pid) = i32::try_from(self.pid) else {
            return true;
        };
        match Process::open(pid) {
            Ok(process) => process.start_time() != self.began,
            Err(error) => error.is_gone(),
        }
    }
}

/// Makes another cgroup of this process, which nobody else has made.
///
/// # Errors
/// As [`Cgroup::create_child`]; when the names are taken.
pub(super) fn make_in(parent: &Cgroup) -> Result<Cgroup> {
    for _ in 0..NAMES {
        if let Some(made) = parent.create_new_child(&name())? {
            return Ok(made);
        }
    }
    Err(plimsoll_kernel::Error::Busy {
        path: parent.dir().into(),
        why: "there are cgroups of the names that we give ours",
    })
}

fn name() -> String {
    static MADE: AtomicU32 = AtomicU32::new(0);
    let Maker {
        namespace,
        pid,
        began,
    } = Maker::ours();
    match MADE.fetch_add(1, Ordering::Relaxed) {
        0 => format!("{PREFIX}{namespace}-{pid}-{began}"),
        more => format!("{PREFIX}{namespace}-{pid}-{began}-{more}"),
    }
}

/// Whether a cgroup is one of ours, by its name.
pub(super) fn is_one(dir: &Path) -> bool {
    let name = dir.file_name().and_then(|name| name.to_str());
    name.and_then(Maker::of).is_some()
}

/// Puts the cgroups of ours in `dir` in order whose makers are gone.
pub(super) fn sweep(dir: &Path) {
    for entry in below(dir) {
        let maker = entry.file_name().and_then(|name| Maker::of(name.to_str()?));
        if maker.is_some_and(Maker::is_gone) {
            // Groups below are those of programs.
            let programs = below(&entry).map(|program| let_go(&program));
            if programs.count() == 0 || std::fs::remove_dir(&entry).is_err() {
                let_go(&entry);
            }
        }
    }
}

/// Sweeps the scopes beside one of ours.
pub(super) fn sweep_scopes(scope: &Path) {
    let is_scope = |dir: &Path| {
        let name = dir.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("plimsoll-") && name.ends_with(".scope")
    };
    let beside = scope.parent().into_iter().flat_map(below);
    beside
        .filter(|dir| dir != scope && is_scope(dir))
        .for_each(|dir| sweep(&dir));
}

/// Removes a cgroup. If a program is in it, which the kernel does not allow, lifts the bound of a broker: the
/// one that knew it may have been killed, and another does not know it. A budget is a limit that was asked
/// for, and stays.
fn let_go(dir: &Path) {
    if std::fs::remove_dir(dir).is_err()
        && let Ok(cgroup) = Cgroup::at(dir)
        && cgroup.limit().is_ok_and(|limit| limit.is_none())
    {
        let _ = cgroup.set_high(None);
    }
}

fn below(dir: &Path) -> impl Iterator<Item = std::path::PathBuf> + use<> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let is_dir = |entry: &std::fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    let dirs = entries.take(MOST_SWEPT).filter(is_dir);
    dirs.map(|entry| entry.path())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(maker: Maker) -> String {
        format!("{PREFIX}{}-{}-{}", maker.namespace, maker.pid, maker.began)
    }

    #[test]
    fn sweeping_spares_what_is_not_ours_or_alive_or_of_another_namespace() {
        let dir = tempfile::tempdir().unwrap();
        let ours = Maker::ours();
        // Larger than any number of a process.
        let gone = Maker {
            pid: 4_194_999,
            ..ours
        };
        let reused = Maker {
            began: ours.began + 1,
            ..ours
        };
        let elsewhere = Maker {
            namespace: ours.namespace + 1,
            ..gone
        };
        let alive = format!("{}-1", named(ours));
        let full = format!("{}-7", named(gone));
        let spared = [
            "other-4194999".to_owned(),
            "plimsoll-run-4194999".to_owned(),
            alive,
            full.clone(),
            named(elsewhere),
        ];
        let swept = [
            named(gone) + "/1-program",
            named(gone) + "-2",
            named(reused),
        ];
        for name in spared.iter().chain(&swept) {
            std::fs::create_dir_all(dir.path().join(name)).unwrap();
        }
        std::fs::write(dir.path().join(&full).join("x"), "").unwrap();
        sweep(dir.path());
        let mut left: Vec<String> = std::fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        let mut expected = spared.to_vec();
        expected.sort();
        assert_eq!(left, expected);
    }

    #[test]
    fn names_of_one_process_differ_and_name_it() {
        let (one, other) = (name(), name());
        assert_ne!(one, other);
        assert_eq!(Maker::of(&one), Some(Maker::ours()));
        assert_eq!(Maker::of(&other), Some(Maker::ours()));
        assert!(is_one(&Path::new("/sys/fs/cgroup").join(one)));
        for none in ["plimsoll-run-", "plimsoll-run-x-1-2", "plimsoll-run-1-2"] {
            assert_eq!(Maker::of(none), None);
        }
    }
}
