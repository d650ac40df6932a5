//! One look at a process: which file pages it has mapped, and which of those are present in its page
//! tables. Reads `maps` and the page map only: no page is touched, no reference bit cleared.

use crate::error::PinError;
use crate::filesystem::{in_memory, is_in_memory, is_no_file, not_local};
use crate::pages::Run;
use plimsoll_kernel::cgroup::locate;
use plimsoll_kernel::clock;
use plimsoll_kernel::mapped::{lists_alike, told_apart};
use plimsoll_kernel::mounts::{Mounts, NotLocal};
use plimsoll_kernel::pages::PageMap;
use plimsoll_kernel::process::{Process, page_size};
use plimsoll_kernel::smaps::{Addresses, Area, FileKey, each_mapping};
use plimsoll_kernel::{Error, Result};
use plimsoll_unit::Nanos;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The most mappings of one process that are looked at.
const MAX_MAPPINGS: usize = 65_536;
/// The most bytes of the names of one process's mappings. A path may have 4 KiB.
const MAX_NAMES: usize = 16 << 20;
/// The most runs of present pages that are looked at, of one mapping and of one process. A program can have
/// many mappings of the same pages: a run takes it 16 bytes of page tables.
const MAX_RUNS: usize = 65_536;
const MAX_ALL_RUNS: usize = 1 << 20;
/// The most pages of one process whose frames are looked at, 2 bytes each: 16 GiB of pages of 4 KiB.
const MAX_FRAMES: usize = 4 << 20;
/// The most refused mappings that one look reports.
const MAX_PASSED: usize = 64;
/// How long what was opened of a process is kept. After that it may have other memory.
const KEPT: Nanos = Nanos::millis(500);

/// A file as a process has mapped it, at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// The process.
    pub pid: i32,
    /// Which file: as the kernel lists it, or where it lists several files alike, as `stat(2)` shows it.
    pub key: FileKey,
    /// Where in the process.
    pub addresses: Addresses,
    /// Which pages of the file.
    pub run: Run,
    /// The first of them at which nobody looked: the end of `run`, or less where too many runs are present.
    pub seen: u64,
    /// Those of them that are present in its page tables, in order.
    pub present: Vec<Run>,
    /// Which frame of memory each of those pages is in, shortened; in order. Empty where the kernel
    /// does not say. 0 is unknown.
    pub frames: Vec<u16>,
    /// The file's path as the process sees it, as far as the kernel shows it.
    pub path: String,
}

/// The result of one look.
#[derive(Debug, Default)]
pub struct Seen {
    /// The mappings of files that may be held.
    pub views: Vec<View>,
    /// Files that cannot be held, and why.
    pub passed: Vec<(FileKey, PinError)>,
    /// There were more of those than are reported.
    pub more_passed: bool,
    /// Processor time that it took.
    pub cost: Nanos,
    /// There were more mappings, or more runs or pages in one, than are looked at.
    pub truncated: bool,
}

/// A process that is looked at.
#[derive(Debug)]
pub struct Watched {
    process: Process,
    open: Open,
    majors: u64,
    shows_frames: bool,
}

/// The open files of a process, its mounts and its cgroup. The page map stays that of the memory that the
/// process had when it was opened: after an `exec` it shows nothing, for ever. Mounts and cgroup change
/// too.
#[derive(Debug)]
struct Open {
    map: PageMap,
    mounts: Mounts,
    user: u32,
    group: Option<PathBuf>,
    /// From then on it is opened again, monotonic.
    until: Nanos,
}

impl Open {
    fn of(process: &Process) -> Result<Open> {
        Ok(Open {
            map: PageMap::open(process)?,
            mounts: Mounts::of(process)?,
            user: process.ids()?.uid,
            group: group_of(process.pid())?,
            until: clock::now() + KEPT,
        })
    }
}

/// How much more is kept of one look at a process.
#[derive(Debug)]
struct Room {
    /// Frames of pages.
    frames: usize,
    /// Runs of present pages.
    runs: usize,
}

/// The memory cgroup of a process. Without a memory controller the machine is the only domain. Waits
/// for nothing that the process holds.
///
/// # Errors
/// As [`locate`].
pub fn group_of(pid: i32) -> Result<Option<PathBuf>> {
    let group = locate(pid)?.filter(|location| location.exact);
    Ok(group.map(|location| location.dir))
}

/// Whether the kernel shows us frames: it hides those of our own pages when it hides any.
fn shows_frames() -> bool {
    static SHOWN: OnceLock<bool> = OnceLock::new();
    let known = SHOWN.get().copied();
    known.unwrap_or_else(|| match look_for_frames() {
        Ok(shown) => *SHOWN.get_or_init(|| shown),
        Err(_) => false,
    })
}

fn look_for_frames() -> Result<bool> {
    let here = 0u8;
    let page = page_size();
    let start = (&raw const here as u64) / page * page;
    let mut shown = false;
    let map = PageMap::open(&Process::own()?)?;
    map.each_frame(&(start..start + page), &mut |_, frame| {
        shown = frame != 0;
        false
    })?;
    Ok(shown)
}

impl Watched {
    /// Whether refaults between two looks are seen, by pages that are in another frame.
    pub fn shows_frames(&self) -> bool {
        self.shows_frames
    }

    /// Opens a process. May block as [`Watched::look`] does.
    ///
    /// # Errors
    /// [`Error::Gone`]; [`Error::Denied`] for other users' processes.
    pub fn open(pid: i32) -> Result<Watched> {
        let process = Process::open(pid)?;
        let opened = Open::of(&process).and_then(|open| Ok((open, process.faults()?)));
        if !process.alive() {
            // Then the kernel says many things.
            return Err(Error::Gone { pid });
        }
        let (open, faults) = opened?;
        Ok(Watched {
            open,
            majors: faults.major,
            shows_frames: shows_frames(),
            process,
        })
    }

    /// Its number.
    pub fn pid(&self) -> i32 {
        self.process.pid()
    }

    /// The memory cgroup that it was in when it was opened last.
    pub fn group(&self) -> Option<&Path> {
        self.open.group.as_deref()
    }

    /// The effective user that it had when it was opened last.
    pub fn user(&self) -> u32 {
        self.open.user
    }

    /// Whether it still runs.
    pub fn alive(&self) -> bool {
        self.process.alive()
    }

    /// Its major faults since the last call, count: pages that it had to wait for.
    ///
    /// # Errors
    /// [`Error::Gone`].
    pub fn new_majors(&mut self) -> Result<u64> {
        let now = self.process.faults()?.major;
        let new = now.saturating_sub(self.majors);
        self.majors = now;
        Ok(new)
    }

    /// Looks at all of its mappings of files, 3 to 13 ns a present page and 2 us a mapping. Opens the
    /// process again where that was half a second ago. May block for as long as the process holds its
    /// address space locked.
    ///
    /// # Errors
    /// [`Error::Gone`] when it exited half-way; [`Error::Denied`].
    pub fn look(&mut self) -> Result<Seen> {
        let start = clock::thread_cpu();
        let mut seen = self.read_mappings();
        if matches!(seen, Err(Error::Gone { .. })) && self.alive() {
            // It has executed another program since: what is open belongs to the memory before that.
            seen = Open::of(&self.process).and_then(|open| {
                self.open = open;
                self.read_mappings()
            });
        }
        if !self.alive() {
            return Err(Error::Gone { pid: self.pid() });
        }
        Ok(Seen {
            cost: clock::thread_cpu() - start,
            ..seen?
        })
    }

    fn read_mappings(&mut self) -> Result<Seen> {
        if clock::now() >= self.open.until {
            self.open = Open::of(&self.process)?;
        }
        let mut areas = Vec::new();
        let mut seen = Seen::default();
        let mut names = 0;
        each_mapping(&self.process, &mut |area| {
            seen.truncated = areas.len() >= MAX_MAPPINGS || names >= MAX_NAMES;
            // Pages that programs write through shared mappings are left to the kernel.
            let is_written = area.shared_mapping && area.writable;
            if area.file.inode != 0 && !is_written && !seen.truncated {
                names += area.name.len();
                areas.push(area.clone());
            }
            !seen.truncated
        })?;
        if areas.iter().any(|area| self.is_unknown(area)) {
            // Something was mounted meanwhile.
            self.open.mounts = Mounts::of(&self.process)?;
        }
        let mut room = Room {
            frames: MAX_FRAMES,
            runs: MAX_ALL_RUNS,
        };
        for mut area in areas {
            match self.refusal(&area) {
                Some(error) if seen.passed.len() < MAX_PASSED => {
                    seen.passed.push((area.file, error));
                }
                Some(_) => seen.more_passed = true,
                None => {
                    area.file = self.identity(&area);
                    let (view, whole) = self.view(area, &room)?;
                    room.frames = room.frames.saturating_sub(view.frames.len());
                    room.runs = room.runs.saturating_sub(view.present.len());
                    seen.views.push(view);
                    seen.truncated |= !whole;
                }
            }
        }
        Ok(seen)
    }

    /// The identity of a mapping's file.
    fn identity(&self, area: &Area) -> FileKey {
        let FileKey { major, minor, .. } = area.file;
        let mounts = &self.open.mounts;
        let kind = mounts.kind((major, minor));
        let apart = kind
            .filter(|kind| lists_alike(kind))
            .and_then(|_| told_apart(self.pid(), area, mounts));
        apart.unwrap_or(area.file)
    }

    /// Looks at one mapping, as far as there is room. Also returns whether that is all.
    fn view(&self, area: Area, room: &Room) -> Result<(View, bool)> {
        let page = page_size();
        let first = area.offset / page;
        let start = area.addresses.start;
        let in_file = |at: u64| first.saturating_add(at.saturating_sub(start) / page);
        let mut present: Vec<Run> = Vec::new();
        let mut places: Vec<Addresses> = Vec::new();
        let most = MAX_RUNS.min(room.runs);
        self.open.map.each_file_run(&area.addresses, &mut |run| {
            match places.last_mut() {
                Some(last) if last.end == run.start => last.end = run.end,
                _ => places.push(run),
            }
            places.len() < most
        })?;
        let mut whole = places.len() < most;
        // The list was cut: nothing is known of what lies behind its last entry.
        let seen = match places.last() {
            Some(last) if !whole => last.end,
            _ => area.addresses.end,
        };
        let mut frames = Vec::new();
        for place in &places {
            present.push(in_file(place.start)..in_file(place.end));
            // Frames are in the order of pages, so none follow those that are left out.
            whole &= frames.len() as u64 + (place.end - place.start) / page <= room.frames as u64;
            if whole {
                self.frames(place, &mut frames)?;
            }
        }
        let view = View {
            pid: self.pid(),
            key: area.file,
            run: first..in_file(area.addresses.end),
            seen: in_file(seen),
            addresses: area.addresses,
            present,
            frames,
            path: area.name,
        };
        Ok((view, whole))
    }

    /// Appends the frames of a run of pages, unless the kernel hides them.
    fn frames(&self, place: &Addresses, frames: &mut Vec<u16>) -> Result<()> {
        if !self.shows_frames {
            return Ok(());
        }
        let (start, page) = (place.start, page_size());
        let pages = ((place.end - start) / page) as usize;
        let from = frames.len();
        frames.resize(from + pages, 0);
        self.open.map.each_frame(place, &mut |at, frame| {
            let index = (at.saturating_sub(start) / page) as usize;
            if let Some(slot) = frames[from..].get_mut(index) {
                *slot = shortened(frame);
            }
            true
        })
    }

    fn is_unknown(&self, area: &Area) -> bool {
        let FileKey {
            major,
            minor,
            inode,
        } = area.file;
        inode != 0
            && major == 0
            && !is_no_file(area)
            && self.open.mounts.kind((major, minor)).is_none()
    }

    /// Why the file of this mapping cannot be held.
    fn refusal(&self, area: &Area) -> Option<PinError> {
        let FileKey { major, minor, .. } = area.file;
        let path = || area.name.clone();
        if is_no_file(area) {
            return Some(in_memory(path(), "tmpfs"));
        }
        let mounts = &self.open.mounts;
        match mounts.check_device((major, minor)) {
            Ok(()) => {
                let kind = mounts.kind((major, minor)).unwrap_or("tmpfs");
                is_in_memory(kind).then(|| in_memory(path(), kind))
            }
            Err(NotLocal::Unlisted) => Some(PinError::UnknownDevice {
                path: path(),
                major,
                minor,
                pid: self.pid(),
            }),
            Err(on) => Some(not_local(path(), on)),
        }
    }
}

/// 16 bits that tell frames apart, 0 for none.
fn shortened(frame: u64) -> u16 {
    match frame {
        0 => 0,
        _ => ((frame ^ frame >> 16 ^ frame >> 32) as u16).max(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_executable_is_seen_and_shared_memory_is_not() {
        let mut own = Watched::open(std::process::id() as i32).unwrap();
        let Seen { views, passed, .. } = own.look().unwrap();
        let exe = std::env::current_exe().unwrap();
        let of_exe: Vec<&View> = views.iter().filter(|view| *view.path == *exe).collect();
        assert!(!of_exe.is_empty(), "{passed:?}");
        for view in &of_exe {
            let inside = |run: &Run| run.start >= view.run.start && run.end <= view.run.end;
            assert!(view.present.iter().all(inside), "{view:?}");
        }
        assert!(of_exe.iter().any(|view| !view.present.is_empty()));
        for view in &views {
            let pages: u64 = view.present.iter().map(|run| run.end - run.start).sum();
            let told = if own.shows_frames() { pages } else { 0 };
            assert_eq!(view.frames.len() as u64, told, "{view:?}");
        }
        assert!(Watched::open(i32::MAX).is_err());
    }

    #[test]
    fn no_more_runs_are_kept_than_there_is_room_for() {
        let own = Watched::open(std::process::id() as i32).unwrap();
        let mut areas = Vec::new();
        each_mapping(&own.process, &mut |area| {
            areas.extend((area.file.inode != 0).then(|| area.clone()));
            true
        })
        .unwrap();
        let room = Room {
            frames: MAX_FRAMES,
            runs: 1,
        };
        let mut kept = 0;
        for area in areas {
            let (view, whole) = own.view(area, &room).unwrap();
            kept += view.present.len();
            match &view.present[..] {
                [] => {}
                [only] => assert!(!whole && view.seen == only.end, "{view:?}"),
                more => panic!("{more:?}"),
            }
        }
        assert!(kept > 0);
    }
}
