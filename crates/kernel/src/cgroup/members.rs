//! The processes in a group; making and removing groups.

use super::{Cgroup, Location, MAX_DEPTH, Version, locate};
use crate::parse::{lines, number};
use crate::process::Process;
use crate::reader::{read_text, write_text};
use crate::{Error, Result};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest `cgroup.procs` that is read, bytes.
const MAX_PROCS: usize = 1 << 20;
/// Most groups that are visited below one.
const MAX_GROUPS: usize = 4096;
/// How often removing is tried; dying processes leave a group a moment after they are reaped.
const REMOVE_TRIES: u32 = 50;
const REMOVE_PAUSE: Duration = Duration::from_millis(10);
/// Processes that are held open at a time while a group is emptied.
const HELD_AT_ONCE: usize = 64;

impl Cgroup {
    /// Makes a group below this one, or opens it when it is already there.
    ///
    /// # Errors
    /// [`Error::Argument`] for a name with `/`, control characters or the kernel's own prefixes;
    /// [`Error::Denied`] without rights; [`Error::Busy`] in v2 when this group holds processes
    /// itself (see [`Cgroup::move_members_to_leaf`]).
    pub fn create_child(&self, name: &str) -> Result<Cgroup> {
        Ok(self.child(name)?.0)
    }

    /// As [`Cgroup::create_child`]; `None` when there is one of this name, which is somebody else's.
    ///
    /// # Errors
    /// As [`Cgroup::create_child`].
    pub fn create_new_child(&self, name: &str) -> Result<Option<Cgroup>> {
        let (child, is_new) = self.child(name)?;
        Ok(Some(child).filter(|_| is_new))
    }

    /// A child of this name, and whether it was made now.
    fn child(&self, name: &str) -> Result<(Cgroup, bool)> {
        check_name(name)?;
        if self.version == Version::V2 {
            self.hand_controller_down()?;
        }
        let dir = self.dir.join(name);
        let is_new = match rustix::fs::mkdir(&dir, rustix::fs::Mode::from_raw_mode(0o755)) {
            Ok(()) => true,
            Err(rustix::io::Errno::EXIST) => false,
            Err(errno) => return Err(Error::of_file("mkdir", &dir, errno)),
        };
        let child = Cgroup::open(Location {
            version: self.version,
            dir,
            mount: self.mount.clone(),
            exact: true,
        })?;
        Ok((child, is_new))
    }

    /// Whether groups with limits can be made below this group now. In v2 every group but the top
    /// has either processes or such children (cgroup-v2.rst, "No Internal Process Constraint").
    ///
    /// # Errors
    /// [`Error::Denied`], [`Error::Io`] when that cannot be read.
    pub fn may_have_limited_children(&self) -> Result<bool> {
        if self.version == Version::V1 || self.is_top() || self.hands_down()? {
            return Ok(true);
        }
        let mut text = Vec::new();
        read_text(&self.dir.join("cgroup.procs"), MAX_PROCS, &mut text)?;
        Ok(parse_processes(&text).next().is_none())
    }

    /// v2: whether children have the memory controller.
    fn hands_down(&self) -> Result<bool> {
        let mut text = Vec::new();
        read_text(&self.dir.join("cgroup.subtree_control"), 4096, &mut text)?;
        Ok(crate::parse::words(text.trim_ascii()).any(|c| c == b"memory"))
    }

    /// v2: refuses a group that could not give its children the memory controller if it were empty.
    fn check_controller(&self) -> Result<()> {
        let mut text = Vec::new();
        let path = self.dir.join("cgroup.type");
        // The top group has no such file.
        if read_text(&path, 4096, &mut text).is_ok() && text.trim_ascii() != b"domain" {
            let needs = "to be `domain`: no group with threads apart can divide its memory";
            return Err(Error::Denied { path, needs });
        }
        let path = self.dir.join("cgroup.controllers");
        text.clear();
        read_text(&path, 4096, &mut text)?;
        if !crate::parse::words(text.trim_ascii()).any(|controller| controller == b"memory") {
            let needs = "the memory controller, which a group above does not hand down";
            return Err(Error::Denied { path, needs });
        }
        Ok(())
    }

    /// v2: gives children the memory controller. Every group but the top may do that only while it
    /// holds no processes.
    fn hand_controller_down(&self) -> Result<()> {
        if self.hands_down()? {
            return Ok(());
        }
        self.check_controller()?;
        let file = self.dir.join("cgroup.subtree_control");
        match write_text(&file, b"+memory") {
            Err(Error::Busy { path, .. }) => Err(Error::Busy {
                path,
                why: "a group holds either processes or children with limits; move its processes to a \
                      child first",
            }),
            other => other,
        }
    }

    /// v2: moves this group's own processes into a child of that name, so that the group may have
    /// limited children. If not all of them can be moved, they come back.
    ///
    /// # Errors
    /// As [`Cgroup::create_child`] and [`Cgroup::add`].
    pub fn move_members_to_leaf(&self, name: &str) -> Result<Cgroup> {
        check_name(name)?;
        if self.version == Version::V2 {
            self.check_controller()?;
        }
        self.try_move_to_leaf(name).inspect_err(|_| {
            // Why it failed says more.
            let _ = self.take_members_back(name);
        })
    }

    /// Undoes [`Cgroup::move_members_to_leaf`], if the leaf is the only child by now. In v2 children lose the
    /// memory controller, and so any limits.
    ///
    /// # Errors
    /// [`Error::Busy`] when there are other children; as [`Cgroup::add`].
    pub fn take_members_back(&self, name: &str) -> Result<()> {
        let leaf = self.dir.join(name);
        if !leaf.is_dir() {
            return Ok(());
        }
        if groups_below(&self.dir).len() > 2 {
            return Err(Error::Busy {
                path: self.dir.clone(),
                why: "there are other cgroups in it",
            });
        }
        if self.version == Version::V2 && self.hands_down()? {
            write_text(&self.dir.join("cgroup.subtree_control"), b"-memory")?;
        }
        move_all(&leaf, &self.dir)?;
        rustix::fs::rmdir(&leaf).map_err(|errno| Error::of_file("rmdir", &leaf, errno))
    }

    fn try_move_to_leaf(&self, name: &str) -> Result<Cgroup> {
        let dir = self.dir.join(name);
        match rustix::fs::mkdir(&dir, rustix::fs::Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(errno) => return Err(Error::of_file("mkdir", &dir, errno)),
        }
        move_all(&self.dir, &dir)?;
        if self.version == Version::V2 {
            self.hand_controller_down()?;
        }
        Cgroup::open(Location {
            version: self.version,
            dir,
            mount: self.mount.clone(),
            exact: true,
        })
    }

    /// Moves a process here; its later children follow. Memory that it already has stays charged
    /// where it was.
    ///
    /// # Errors
    /// [`Error::Gone`] when there is no such process; [`Error::Denied`] without rights;
    /// [`Error::Busy`] for a v2 group with limited children.
    pub fn add(&self, pid: i32) -> Result<()> {
        add(&self.dir, pid)
    }

    /// Moves exactly this process here, and not another that gets its number meanwhile. The kernel
    /// takes only a number, so we check before and after. If another process got the number in
    /// between, it is moved to the group of its parent.
    ///
    /// # Errors
    /// As [`Cgroup::add`].
    pub fn add_process(&self, process: &Process) -> Result<()> {
        add_process(&self.dir, process)
    }

    /// Appends the processes in this group and below it, at most `max` of them; returns false when
    /// there were more.
    ///
    /// # Errors
    /// [`Error::Absent`] when the group was removed; [`Error::Denied`], [`Error::Io`].
    pub fn processes(&self, max: usize, out: &mut Vec<i32>) -> Result<bool> {
        let start = out.len();
        let mut text = Vec::new();
        for dir in groups_below(&self.dir) {
            text.clear();
            match read_text(&dir.join("cgroup.procs"), MAX_PROCS, &mut text) {
                Err(e) if e.is_absent() && dir != self.dir => continue,
                other => other?,
            }
            for pid in parse_processes(&text) {
                if out.len() - start >= max {
                    return Ok(false);
                }
                out.push(pid);
            }
        }
        Ok(true)
    }

    /// Whether processes of another pid namespace are in this group or below it. They have no number here:
    /// [`Cgroup::processes`] passes over them, and they cannot be moved.
    ///
    /// # Errors
    /// As [`Cgroup::processes`].
    pub fn holds_unseen(&self) -> Result<bool> {
        let mut text = Vec::new();
        for dir in groups_below(&self.dir) {
            text.clear();
            match read_text(&dir.join("cgroup.procs"), MAX_PROCS, &mut text) {
                Err(e) if e.is_absent() && dir != self.dir => continue,
                other => other?,
            }
            if lines(&text).any(|line| line.trim_ascii() == b"0") {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Removes the group and those below it. Remaining processes move to `refuge` or, if none is
    /// given, to the group above (which in version 2 takes none once it had children with limits).
    /// They never move farther up, out of a limit that bound them. Gives up after half a second,
    /// and at once if they cannot be moved.
    ///
    /// # Errors
    /// [`Error::Busy`] when processes keep entering, or the refuge takes none; [`Error::Denied`]
    /// without rights. A group that is gone already is no error.
    pub fn remove(self, refuge: Option<&Path>) -> Result<()> {
        let Some(refuge) = refuge.or(self.dir.parent()).filter(|_| !self.is_top()) else {
            return Err(Error::Argument {
                what: "remove",
                why: "the top group cannot be removed",
            });
        };
        let mut last = Ok(());
        for _ in 0..REMOVE_TRIES {
            last = Ok(());
            // Children first.
            for dir in groups_below(&self.dir).into_iter().rev() {
                match rustix::fs::rmdir(&dir) {
                    Ok(()) | Err(rustix::io::Errno::NOENT) => {}
                    Err(errno) => {
                        last = Err(Error::of_file("rmdir", &dir, errno));
                        match move_all(&dir, refuge) {
                            Err(never) if never.is_denied() || never.is_busy() => {
                                return Err(never);
                            }
                            // The next rmdir shows why it failed.
                            _ => {}
                        }
                    }
                }
            }
            if last.is_ok() {
                return Ok(());
            }
            std::thread::sleep(REMOVE_PAUSE);
        }
        last
    }
}

fn add(dir: &Path, pid: i32) -> Result<()> {
    let file = dir.join("cgroup.procs");
    let fd = rustix::fs::open(
        &file,
        rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::CLOEXEC,
        rustix::fs::Mode::empty(),
    )
    .map_err(|e| Error::of_file("write", &file, e))?;
    match rustix::io::write(&fd, pid.to_string().as_bytes()) {
        Ok(_) => Ok(()),
        Err(rustix::io::Errno::SRCH) => Err(Error::Gone { pid }),
        Err(errno) => Err(Error::of_file("write", &file, errno)),
    }
}

fn add_process(dir: &Path, process: &Process) -> Result<()> {
    let pid = process.pid();
    if process.alive() {
        add(dir, pid)?;
        if process.alive() {
            return Ok(());
        }
        put_back(dir, pid, process.start_time());
    }
    Err(Error::Gone { pid })
}

/// Undoes the move if the process that has this number now started at another time than `meant`. It
/// goes to the group of its parent, where it was born a moment ago.
fn put_back(dir: &Path, pid: i32, meant: u64) {
    let stranger = Process::open(pid).ok();
    let Some(stranger) = stranger.filter(|stranger| stranger.start_time() != meant) else {
        return;
    };
    let parent = stranger.ids().map_or(0, |ids| ids.parent);
    let home = locate(parent).ok().flatten().filter(|home| home.exact);
    if let Some(home) = home.filter(|home| home.dir != dir && stranger.alive()) {
        // A process that cannot be moved back stays until the group is removed.
        let _ = add(&home.dir, pid);
    }
}

/// Moves every process of one group to another; those that exit meanwhile are passed over.
fn move_all(from: &Path, to: &Path) -> Result<()> {
    let pids = listed(from)?;
    for some in pids.chunks(HELD_AT_ONCE) {
        let held: Vec<Result<Process>> = some.iter().map(|&pid| Process::open(pid)).collect();
        // A process that is still in the list was held open while it was in the group, unless it
        // ended.
        let still = listed(from)?;
        for (&pid, held) in some.iter().zip(held) {
            let moved = match held {
                _ if !still.contains(&pid) => continue,
                Ok(process) => add_process(to, &process),
                // `/proc` hides the process, but we may still move it.
                Err(e) if e.is_denied() => add(to, pid),
                Err(e) => Err(e),
            };
            match moved {
                Err(e) if e.is_gone() => {}
                other => other?,
            }
        }
    }
    Ok(())
}

/// The processes of a group; none when it was removed.
fn listed(dir: &Path) -> Result<Vec<i32>> {
    let mut text = Vec::new();
    match read_text(&dir.join("cgroup.procs"), MAX_PROCS, &mut text) {
        Err(e) if e.is_absent() => return Ok(Vec::new()),
        other => other?,
    }
    Ok(parse_processes(&text).collect())
}

/// Parses `cgroup.procs`; 0 (a process outside our namespace) and nonsense are passed over.
pub(super) fn parse_processes(text: &[u8]) -> impl Iterator<Item = i32> + '_ {
    lines(text)
        .filter_map(|line| i32::try_from(number(line.trim_ascii())?).ok())
        .filter(|&pid| pid > 0)
}

/// A directory and the groups below it, parents before children.
fn groups_below(dir: &Path) -> Vec<PathBuf> {
    let mut found = vec![dir.to_path_buf()];
    let depth = dir.components().count();
    let mut next = 0;
    while next < found.len() && found.len() < MAX_GROUPS {
        let here = found[next].clone();
        next += 1;
        if here.components().count() - depth >= MAX_DEPTH {
            continue;
        }
        let Ok(entries) = std::fs::read_dir(&here) else {
            continue;
        };
        let directories = entries
            .flatten()
            .filter(|e| e.file_type().is_ok_and(|t| t.is_dir()));
        found.extend(directories.take(MAX_GROUPS).map(|e| e.path()));
    }
    found
}

fn check_name(name: &str) -> Result<()> {
    let kernels = [
        "cgroup.", "memory.", "cpu.", "cpuset.", "io.", "pids.", "hugetlb.", "rdma.", "misc.",
    ];
    let bad = name.is_empty()
        || name.len() > 255
        || name == "."
        || name == ".."
        || name.bytes().any(|b| b == b'/' || b < 0x20 || b == 0x7f)
        || kernels.iter().any(|prefix| name.starts_with(prefix));
    if bad {
        let why = "give 1 to 255 characters without `/`, control characters or the kernel's own prefixes \
                   (`memory.`, ...)";
        return Err(Error::Argument {
            what: "name of a cgroup",
            why,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_testbed::{TestCgroup, skip};

    #[test]
    fn names_are_checked() {
        for bad in ["", ".", "..", "a/b", "a\nb", "memory.max", "cgroup.procs"] {
            assert!(check_name(bad).is_err(), "{bad:?}");
        }
        assert!(check_name("plimsoll-1").is_ok());
    }

    #[test]
    fn who_has_the_number_by_now_goes_back_where_its_parent_is() {
        let Ok(ground) = TestCgroup::new("moved", None) else {
            return skip("no cgroup of our own here");
        };
        let group = Cgroup::at(ground.cgroup().dir()).unwrap();
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let process = Process::open(child.id() as i32).unwrap();
        let (pid, began) = (process.pid(), process.start_time());
        let dir = group.dir();
        let is_here = || locate(pid).is_ok_and(|found| found.is_some_and(|found| found.dir == dir));
        group.add_process(&process).unwrap();
        assert!(is_here());
        put_back(dir, pid, began);
        assert!(is_here(), "it is the one that was meant");
        put_back(dir, pid, began + 1);
        assert!(!is_here());
        group.add_process(&process).unwrap();
        move_all(dir, dir.parent().unwrap()).unwrap();
        assert!(!is_here());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(group.add_process(&process).unwrap_err().is_gone());
    }

    #[test]
    fn processes_pass_over_nonsense() {
        let found: Vec<i32> = parse_processes(b"12\n0\nx\n\n99999999999\n-3\n7").collect();
        assert_eq!(found, [12, 7]);
    }
}
