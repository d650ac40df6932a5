//! `/proc/PID/smaps` and `smaps_rollup`: what each area of a process holds.
//! Source: kernel document `proc.rst` 1.1, "smaps".

use crate::parse::{hexadecimal, lines, number, pair, words};
use crate::process::{MAX_MAPS, Process, text_through, through};
use crate::reader::read_lines;
use crate::{Error, Result};
use rustix::io::Errno;
use std::fmt::Display;
use std::io;
use std::ops::Range;
use std::path::Path;

/// Longest `smaps` that is read, bytes: about 250,000 areas. It is never in memory as a whole.
const MAX_SMAPS: u64 = 256 << 20;
/// Longest `smaps` that is read by those that sum areas up in between other work, bytes. A process with
/// 65,530 areas, the kernel's default bound, has 50 MiB.
const MAX_SUMMED: u64 = 64 << 20;

/// Longest `smaps_rollup` that is read, bytes.
const MAX_ROLLUP: usize = 4 << 10;

/// Addresses, from first byte to one past the last.
pub type Addresses = Range<u64>;

/// Identifies a mapped file or shared segment on this machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileKey {
    /// Major number of the device.
    pub major: u32,
    /// Minor number of the device.
    pub minor: u32,
    /// Inode, 0 for anonymous memory.
    pub inode: u64,
}

/// One area (VMA) of a process; sizes in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Area {
    /// Where it is.
    pub addresses: Addresses,
    /// Whether writes are seen by others who map it.
    pub shared_mapping: bool,
    /// Whether it can be read.
    pub readable: bool,
    /// Whether it can be written.
    pub writable: bool,
    /// Whether it can be executed.
    pub executable: bool,
    /// Where in the file it begins, bytes; 0 for anonymous memory.
    pub offset: u64,
    /// The file behind it.
    pub file: FileKey,
    /// The file's name, or `[heap]` and the like.
    pub name: String,
    /// Resident.
    pub rss: u64,
    /// Resident, each page divided by how many processes map it.
    pub pss: u64,
    /// Resident and anonymous.
    pub anonymous: u64,
    /// Resident with the reference bit set.
    pub referenced: u64,
    /// Resident and mapped by nobody else.
    pub private: u64,
    /// In swap. For a shared mapping of tmpfs: the bytes of the mapped part of the file in swap, whoever
    /// used them.
    pub swap: u64,
    /// Locked.
    pub locked: u64,
    /// Resident as huge pages: anonymous and shared memory.
    pub huge: u64,
    /// In memory as pages of hugetlbfs, which the kernel does not count in `rss`.
    pub hugetlb: u64,
    /// Whether its flags (`VmFlags`) forbid paging it out: locked, I/O, hugetlb, PFN map.
    pub pinned: bool,
}

impl Area {
    /// Mapped addresses, bytes.
    pub fn size(&self) -> u64 {
        self.addresses.end.saturating_sub(self.addresses.start)
    }

    /// Resident and mapped more than once: by other processes, or again by this one. Bytes.
    pub fn shared(&self) -> u64 {
        self.rss.saturating_sub(self.private)
    }
}

/// Memory of a whole process; sizes in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rollup {
    /// Resident.
    pub rss: u64,
    /// Resident, each page divided by how many processes map it.
    pub pss: u64,
    /// Resident and anonymous.
    pub anonymous: u64,
    /// Resident with the reference bit set.
    pub referenced: u64,
    /// In swap.
    pub swap: u64,
    /// Resident as huge pages: anonymous and shared memory.
    pub huge: u64,
}

/// Reads the areas of a process, at most `max` of them (and those in the first 256 MiB of text). The
/// text is parsed piece by piece. Walks all of the process's pages: 20-40 ms/GiB.
///
/// # Errors
/// [`Error::Gone`]; [`Error::Denied`] for other users' processes.
pub fn areas(process: &Process, max: usize) -> Result<Vec<Area>> {
    let found = through(process.pid(), "smaps", Vec::is_empty, |path| {
        let mut found = Vec::new();
        read_lines(path, MAX_SMAPS, &mut |line| take(&mut found, line, max))?;
        Ok(found)
    })?;
    if !process.alive() {
        return Err(Error::Gone { pid: process.pid() });
    }
    Ok(found)
}

/// Calls `look` with each area of the process that has this number, until it returns false or 64 MiB of
/// text were read. Holds one area at a time. Walks all of the process's pages, as [`areas`] does.
///
/// # Errors
/// The system's error; `NotFound` when the process is gone, `PermissionDenied` where we may not look into
/// it.
pub fn each_area(pid: u32, look: &mut dyn FnMut(&Area) -> bool) -> io::Result<()> {
    let mut current = Vec::new();
    each_line(pid, "smaps", MAX_SUMMED, &mut |line| {
        step(&mut current, line, look)
    })?;
    if let Some(last) = current.first() {
        look(last);
    }
    Ok(())
}

/// Takes in the next line, and shows the area before if the line begins another one. False, with nothing
/// left to show, when no more are wanted.
fn step(current: &mut Vec<Area>, line: &[u8], look: &mut dyn FnMut(&Area) -> bool) -> bool {
    if take(current, line, 1) {
        return true;
    }
    let goes_on = current.first().is_none_or(look);
    current.clear();
    goes_on && take(current, line, 1)
}

/// Calls `take` with each mapping of a process, by `maps`, so that all sizes in memory are 0, until
/// it returns false. Walks no pages: 1 us a mapping.
///
/// # Errors
/// As [`areas`].
pub fn each_mapping(process: &Process, take: &mut dyn FnMut(&Area) -> bool) -> Result<()> {
    each_line(process.pid(), "maps", MAX_SMAPS, &mut |line| {
        parse_head(line).is_none_or(|area| take(&area))
    })?;
    if process.alive() {
        Ok(())
    } else {
        Err(Error::Gone { pid: process.pid() })
    }
}

/// As [`each_mapping`], of the process that has this number; looks at up to 16 MiB of text.
///
/// # Errors
/// As [`each_area`].
pub fn each_mapping_of(pid: u32, take: &mut dyn FnMut(&Area) -> bool) -> io::Result<()> {
    Ok(each_line_of_maps(pid, take)?)
}

/// As [`each_mapping_of`], of this process itself.
///
/// # Errors
/// As [`areas`].
pub fn each_own_mapping(take: &mut dyn FnMut(&Area) -> bool) -> Result<()> {
    each_line_of_maps("self", take)
}

fn each_line_of_maps(pid: impl Display, take: &mut dyn FnMut(&Area) -> bool) -> Result<()> {
    each_line(pid, "maps", MAX_MAPS, &mut |line| {
        parse_head(line).is_none_or(|area| take(&area))
    })
}

/// Takes lines, until it returns false.
type Take<'a> = &'a mut dyn FnMut(&[u8]) -> bool;

/// Calls `take` with each line of a file of a process, as [`read_lines`] does.
fn each_line(pid: impl Display, name: &str, max: u64, take: Take<'_>) -> Result<()> {
    each_line_by(
        pid,
        name,
        &mut |path, take| read_lines(path, max, take),
        take,
    )
}

/// As [`each_line`], by another reader. No line is passed on twice: when the thread that is read ends midway,
/// another one is asked only if nothing was passed on yet.
fn each_line_by(
    pid: impl Display,
    name: &str,
    read: &mut dyn FnMut(&Path, Take<'_>) -> Result<()>,
    take: Take<'_>,
) -> Result<()> {
    let (mut lines, mut failed) = (0, None);
    let says_nothing = |lines: &usize| *lines == 0;
    through(pid, name, says_nothing, |path| {
        if lines > 0 {
            return Err(Error::of_file("read", path, Errno::SRCH));
        }
        let done = read(path, &mut |line| {
            lines += 1;
            take(line)
        });
        if lines == 0 {
            done?;
        } else {
            failed = done.err();
        }
        Ok(lines)
    })?;
    failed.map_or(Ok(()), Err)
}

/// Reads the sums of a process. Walks all of its pages: 36-79 ms/GiB with 4 KiB pages, 0.2 ms/GiB
/// with huge ones.
///
/// # Errors
/// As [`areas`]; [`Error::Absent`] before Linux 4.14.
pub fn rollup(process: &Process) -> Result<Rollup> {
    let text = text_through(process.pid(), "smaps_rollup", MAX_ROLLUP, Vec::is_empty)?;
    let rollup = parse_rollup(&text);
    if process.alive() {
        Ok(rollup)
    } else {
        Err(Error::Gone { pid: process.pid() })
    }
}

/// Parses `smaps` (or `maps`: then all sizes are 0).
pub fn parse_areas(text: &[u8], max: usize) -> Vec<Area> {
    let mut found: Vec<Area> = Vec::new();
    for line in lines(text) {
        if !take(&mut found, line, max) {
            break;
        }
    }
    found
}

/// Takes in the next line; false when it begins an area that is one too many.
fn take(found: &mut Vec<Area>, line: &[u8], max: usize) -> bool {
    if let Some(area) = parse_head(line) {
        if found.len() >= max {
            return false;
        }
        found.push(area);
    } else if let Some(area) = found.last_mut() {
        set_field(area, line);
    }
    true
}

/// `start-end perms offset major:minor inode   name`
fn parse_head(line: &[u8]) -> Option<Area> {
    let mut fields = line.splitn(6, |&b| b == b' ');
    let range = fields.next()?;
    let dash = range.iter().position(|&b| b == b'-')?;
    let addresses = hexadecimal(&range[..dash])?..hexadecimal(&range[dash + 1..])?;
    let permissions = fields.next()?;
    if permissions.len() < 4 || addresses.is_empty() {
        return None;
    }
    let offset = hexadecimal(fields.next()?)?;
    let device = fields.next()?;
    let colon = device.iter().position(|&b| b == b':')?;
    let file = FileKey {
        major: hexadecimal(&device[..colon])? as u32,
        minor: hexadecimal(&device[colon + 1..])? as u32,
        inode: number(fields.next()?)?,
    };
    let name = fields
        .next()
        .map(|n| String::from_utf8_lossy(n.trim_ascii_start()).into_owned())
        .unwrap_or_default();
    Some(Area {
        addresses,
        shared_mapping: permissions[3] == b's',
        readable: permissions[0] == b'r',
        writable: permissions[1] == b'w',
        executable: permissions[2] == b'x',
        offset,
        file,
        name,
        ..Area::default()
    })
}

fn set_field(area: &mut Area, line: &[u8]) {
    if let Some(flags) = line.strip_prefix(b"VmFlags:") {
        area.pinned = words(flags).any(|f| matches!(f, b"lo" | b"io" | b"pf" | b"ht" | b"mm"));
        return;
    }
    let Some((name, value)) = pair(line) else {
        return;
    };
    match name {
        b"Rss" => area.rss = value,
        b"Pss" => area.pss = value,
        b"Anonymous" => area.anonymous = value,
        b"Referenced" => area.referenced = value,
        b"Private_Clean" | b"Private_Dirty" => area.private = area.private.saturating_add(value),
        b"Swap" => area.swap = value,
        b"Locked" => area.locked = value,
        b"AnonHugePages" | b"ShmemPmdMapped" => area.huge = area.huge.saturating_add(value),
        b"Shared_Hugetlb" | b"Private_Hugetlb" => {
            area.hugetlb = area.hugetlb.saturating_add(value);
        }
        _ => {}
    }
}

/// Parses `smaps_rollup`.
pub fn parse_rollup(text: &[u8]) -> Rollup {
    let mut rollup = Rollup::default();
    for line in lines(text) {
        match pair(line) {
            Some((b"Rss", n)) => rollup.rss = n,
            Some((b"Pss", n)) => rollup.pss = n,
            Some((b"Anonymous", n)) => rollup.anonymous = n,
            Some((b"Referenced", n)) => rollup.referenced = n,
            Some((b"Swap", n)) => rollup.swap = n,
            Some((b"AnonHugePages" | b"ShmemPmdMapped", n)) => {
                rollup.huge = rollup.huge.saturating_add(n);
            }
            _ => {}
        }
    }
    rollup
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_code_is_found_and_the_look_ends_there() {
        let code = parse_rollup as *const () as u64;
        let (mut last, mut after) = (None, 0);
        each_own_mapping(&mut |area| {
            after += usize::from(last.is_some());
            last = area.addresses.contains(&code).then(|| area.clone());
            last.is_none()
        })
        .unwrap();
        let found = last.unwrap();
        assert!(found.executable && found.file.inode != 0 && after == 0);
        let own = std::process::id();
        let mut again = None;
        each_mapping_of(own, &mut |area| {
            again = (*area == found).then(|| area.clone());
            again.is_none()
        })
        .unwrap();
        assert_eq!(again, Some(found));
    }

    #[test]
    fn no_line_is_passed_on_twice_when_a_thread_ends_midway() {
        let child = plimsoll_testbed::Leaderless::start().unwrap();
        let shown = |passes: usize| {
            let (mut reads, mut seen) = (0, Vec::new());
            let mut read = |path: &Path, take: Take<'_>| {
                reads += 1;
                for line in 0..if reads == 1 { passes } else { 2 } {
                    take(&[line as u8]);
                }
                match reads {
                    1 => Err(Error::of_file("read", path, Errno::SRCH)),
                    _ => Ok(()),
                }
            };
            let mut take = |line: &[u8]| {
                seen.push(line[0]);
                true
            };
            let done = each_line_by(child.pid(), "maps", &mut read, &mut take);
            (done.is_ok(), reads, seen)
        };
        assert_eq!(shown(0), (true, 2, vec![0, 1]));
        assert_eq!(shown(2), (false, 1, vec![0, 1]));
    }

    #[test]
    fn areas_are_shown_one_at_a_time_until_no_more_are_wanted() {
        let text = b"a000-b000 rw-p 0 00:00 0\nRss: 4 kB\nb000-c000 rw-p 0 00:00 0\nRss: 8 kB\n\
                     c000-d000 rw-p 0 00:00 0\nRss: 12 kB\n";
        let shown = |most: usize| {
            let (mut current, mut sizes) = (Vec::new(), Vec::new());
            for line in lines(text) {
                let more = step(&mut current, line, &mut |area| {
                    sizes.push(area.rss >> 10);
                    sizes.len() < most
                });
                if !more {
                    break;
                }
            }
            (sizes, current.first().map(|area| area.rss >> 10))
        };
        assert_eq!(shown(9), (vec![4, 8], Some(12)));
        assert_eq!(shown(1), (vec![4], None));
        let mut all = 0;
        each_area(std::process::id(), &mut |area| {
            all += u64::from(area.rss > 0);
            true
        })
        .unwrap();
        assert!(all > 3);
        let gone = each_area(0, &mut |_| true).unwrap_err();
        assert_eq!(gone.kind(), io::ErrorKind::NotFound);
    }
}
