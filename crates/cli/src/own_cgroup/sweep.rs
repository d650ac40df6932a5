//! Removes cgroups that killed processes of ours left behind: empty groups whose maker is gone.

use plimsoll_kernel::process::exists;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

/// The prefix of the names of our cgroups. The number of the process that made it follows.
const PREFIX: &str = "plimsoll-run-";
/// The most cgroups in a directory that is swept.
const MOST_SWEPT: usize = 10_000;

/// A name for another cgroup of this process.
pub(super) fn name() -> String {
    static MADE: AtomicU32 = AtomicU32::new(0);
    let pid = std::process::id();
    match MADE.fetch_add(1, Ordering::Relaxed) {
        0 => format!("{PREFIX}{pid}"),
        more => format!("{PREFIX}{pid}-{more}"),
    }
}

/// The process that made the cgroup of this name, if the name is one of ours.
fn maker(name: &str) -> Option<u32> {
    let pid = name.strip_prefix(PREFIX)?;
    let pid = pid.split_once('-').map_or(pid, |(pid, _)| pid);
    pid.parse().ok()
}

/// Removes the empty cgroups of ours in `dir` whose makers are gone.
pub(super) fn sweep(dir: &Path) {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return;
    };
    for entry in entries.take(MOST_SWEPT).flatten() {
        let maker = entry.file_name().to_str().and_then(maker);
        if maker.is_some_and(|pid| !exists(pid)) {
            // The kernel refuses to remove groups with processes. Groups below are those of
            // programs.
            let below = std::fs::read_dir(entry.path()).into_iter().flatten();
            for program in below.take(MOST_SWEPT).flatten() {
                let _ = std::fs::remove_dir(program.path());
            }
            let _ = std::fs::remove_dir(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sweeping_spares_what_is_not_ours_or_alive() {
        let dir = tempfile::tempdir().unwrap();
        let alive = format!("{PREFIX}{}-1", std::process::id());
        let full = format!("{PREFIX}4194999");
        for name in [
            "other-4194999",
            &alive,
            &full,
            "plimsoll-run-4194998/0000beef-1-program",
            "plimsoll-run-4194998-2",
        ] {
            std::fs::create_dir_all(dir.path().join(name)).unwrap();
        }
        std::fs::write(dir.path().join(&full).join("x"), "").unwrap();
        sweep(dir.path());
        let mut left: Vec<String> = std::fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        let mut expected = vec!["other-4194999".to_owned(), alive, full];
        expected.sort();
        assert_eq!(left, expected);
    }

    #[test]
    fn names_of_one_process_differ_and_name_it() {
        let (one, other) = (name(), name());
        assert_ne!(one, other);
        assert_eq!((maker(&one), maker(&other)), (maker(&one), maker(&one)));
        assert_eq!(maker(&one), Some(std::process::id()));
        assert_eq!(
            (maker("plimsoll-run-"), maker("plimsoll-run-x-1")),
            (None, None)
        );
    }
}
