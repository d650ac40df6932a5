//! Programs that keep file pages in memory while the servers run, in a cgroup of their own under the same
//! limit.

use super::server_software::Server;
use crate::harness::ground::Ground;
use crate::harness::programs::sibling;
use crate::{Error, Result};
use plimsoll_kernel::cgroup::Cgroup;
use plimsoll_kernel::smaps::{Area, each_area, each_mapping_of};
use plimsoll_testbed::children::{end, end_with_us, enter};
use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The most that `plimsoll pin` may hold, MiB.
pub(super) const BUDGET: u64 = 128;
/// The time over which it looks for pages that come back, seconds.
pub(super) const WINDOW: u64 = 6;
/// The most that prelockd locks by default: of a file, and of all, bytes.
const FILE_MOST: u64 = 50 << 20;
const ALL_MOST: u64 = 250 << 20;

/// How file pages are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Way {
    /// By the kernel alone.
    Plain,
    /// `plimsoll pin`.
    Pin,
    /// `vmtouch -l`: all pages of the files that `plimsoll pin` last held in part.
    Vmtouch,
    /// As prelockd does: all pages of files that are mapped as executable.
    Executables,
    /// `plimsoll pin --dry-run`: looks, and holds nothing.
    DryRun,
}

impl Way {
    /// The ways to keep some.
    pub(super) const ALL: [Way; 4] = [Way::Plain, Way::Pin, Way::Vmtouch, Way::Executables];

    /// For tables.
    pub(super) fn name(self) -> &'static str {
        match self {
            Way::Plain => "plain",
            Way::Pin => "plimsoll pin",
            Way::Vmtouch => "vmtouch -l",
            Way::Executables => "all executables",
            Way::DryRun => "plimsoll pin --dry-run",
        }
    }
}

/// A program that holds pages until this is dropped.
#[derive(Debug)]
pub(super) struct Holder {
    child: Child,
    output: PathBuf,
    log: PathBuf,
}

impl Holder {
    /// Starts one. `files` are those that `plimsoll pin` held last; without any, all that the servers
    /// have mapped are taken. `None` for [`Way::Plain`], and where the program is not installed.
    ///
    /// # Errors
    /// When it cannot be started for another reason.
    pub(super) fn start(
        way: Way,
        ground: &Ground,
        groups: &Groups,
        servers: &[Server],
        files: &[PathBuf],
    ) -> Result<Option<Holder>> {
        let mut command = match way {
            Way::Plain => return Ok(None),
            Way::Pin => pin(groups.servers.dir(), WINDOW),
            Way::DryRun => {
                // It ends with its window, which is longer than the run.
                let mut command = pin(groups.servers.dir(), 10 * WINDOW);
                command.arg("--dry-run");
                command
            }
            Way::Vmtouch => {
                let mut command = Command::new("vmtouch");
                command.args(["-l", "-q", "-m", "64G"]);
                match files {
                    [] => command.args(mapped(servers, false)),
                    files => command.args(files),
                };
                command
            }
            Way::Executables => {
                let list = ground.folder().join("executables");
                let paths = within(mapped(servers, true));
                let paths: Vec<_> = paths.iter().map(|path| path.to_string_lossy()).collect();
                std::fs::write(&list, paths.join("\n")).map_err(Error::file("write", &list))?;
                let mut command = Command::new(sibling("plimsoll-misbehave"));
                command.arg("lock").arg("--path").arg(list);
                command
            }
        };
        let output = ground.folder().join("holder.out");
        let log = ground.folder().join("holder.log");
        let file = |path: &Path| File::create(path).map_err(Error::file("write", path));
        command
            .stdin(Stdio::null())
            .stdout(file(&output)?)
            .stderr(file(&log)?);
        end_with_us(&mut command);
        let group = &groups.holder;
        enter(&mut command, group).map_err(Error::file("enter", group.dir()))?;
        match command.spawn() {
            Ok(child) => Ok(Some(Holder { child, output, log })),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(Error::start(&command)(e)),
        }
    }

    /// Its process.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Why it has ended, if it has.
    pub(super) fn ended(&mut self) -> Option<String> {
        let status = self.child.try_wait().ok().flatten()?;
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let last = log.lines().last().unwrap_or("it wrote nothing");
        Some(format!("{status}: {last}"))
    }

    /// Bytes in memory that it has locked. Its own memory counts, as far as it was touched.
    pub(super) fn locked(&self) -> u64 {
        let mut locked = 0;
        // One that has ended locks nothing.
        let _ = each_area(self.pid(), &mut |area| {
            locked += if area.pinned { area.rss } else { 0 };
            true
        });
        locked
    }

    /// The files that `plimsoll pin` held in part, as it said last.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        let text = std::fs::read_to_string(&self.output).unwrap_or_default();
        let reports = serde_json::Deserializer::from_str(&text).into_iter::<serde_json::Value>();
        let mut paths = BTreeSet::new();
        if let Some(report) = reports.map_while(std::result::Result::ok).last() {
            find_held(&report, &mut paths);
        }
        paths.into_iter().collect()
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        end(&mut self.child, Duration::from_secs(5));
    }
}

/// The groups below the one with the limit.
#[derive(Debug)]
pub(super) struct Groups {
    pub(super) servers: Cgroup,
    pub(super) holder: Cgroup,
}

impl Groups {
    /// Makes them.
    ///
    /// # Errors
    /// When the kernel refuses them.
    pub(super) fn new(ground: &Ground) -> Result<Groups> {
        Ok(Groups {
            servers: ground.cgroup().create_child("servers")?,
            holder: ground.cgroup().create_child("holder")?,
        })
    }
}

fn pin(group: &Path, window: u64) -> Command {
    let mut command = Command::new(sibling("plimsoll"));
    command.args(["pin", "--cgroup"]).arg(group);
    command.args(["--budget", &format!("{BUDGET}M")]);
    command.args(["--window", &window.to_string(), "--json"]);
    command
}

/// Paths of all objects that name a file and a range of it.
fn find_held(value: &serde_json::Value, paths: &mut BTreeSet<PathBuf>) {
    match value {
        serde_json::Value::Array(values) => values.iter().for_each(|one| find_held(one, paths)),
        serde_json::Value::Object(fields) => {
            let path = fields.get("path").and_then(serde_json::Value::as_str);
            match path {
                Some(path) if fields.contains_key("offset") => {
                    paths.insert(PathBuf::from(path));
                }
                _ => fields.values().for_each(|one| find_held(one, paths)),
            }
        }
        _ => {}
    }
}

/// The files that the servers have mapped, or only those that they have mapped as executable.
fn mapped(servers: &[Server], executable: bool) -> Vec<PathBuf> {
    let mut paths = BTreeSet::new();
    for server in servers {
        // One that has ended maps nothing.
        let _ = each_mapping_of(server.pid(), &mut |mapping| {
            paths.extend(file_of(mapping, executable));
            true
        });
    }
    let regular = |path: &PathBuf| path.is_file();
    paths.into_iter().filter(regular).collect()
}

/// The file of a mapping, if it is wanted.
fn file_of(mapping: &Area, executable: bool) -> Option<PathBuf> {
    let wanted = !executable || mapping.executable;
    (wanted && mapping.name.starts_with('/')).then(|| PathBuf::from(&mapping.name))
}

/// Those that prelockd's bounds let through.
fn within(mut paths: Vec<PathBuf>) -> Vec<PathBuf> {
    let mut sum = 0;
    paths.retain(|path| {
        let bytes = path.metadata().map_or(0, |metadata| metadata.len());
        let fits = bytes <= FILE_MOST && sum + bytes <= ALL_MOST;
        sum += if fits { bytes } else { 0 };
        fits
    });
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_among_mappings() {
        let mapping = |name: &str, executable| Area {
            name: name.to_owned(),
            executable,
            ..Area::default()
        };
        let file = mapping("/usr/lib/a b.so", true);
        assert_eq!(file_of(&file, true), Some("/usr/lib/a b.so".into()));
        let read = mapping("/usr/lib/a b.so", false);
        assert_eq!(file_of(&read, true), None);
        assert!(file_of(&read, false).is_some());
        for name in ["", "[heap]"] {
            assert_eq!(file_of(&mapping(name, false), false), None);
        }
    }

    #[test]
    fn held_files_are_found_in_reports() {
        let text = r#"{"groups": [{"path": "/sys/x", "held": 1}],
            "held": [{"path": "/a", "offset": 0, "bytes": 1}, {"path": "/b", "offset": 4096}]}"#;
        let mut paths = BTreeSet::new();
        find_held(&serde_json::from_str(text).unwrap(), &mut paths);
        let wanted = ["/a", "/b"].map(PathBuf::from);
        assert_eq!(paths, BTreeSet::from(wanted));
    }
}
