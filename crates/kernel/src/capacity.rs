//! How much memory there is: the machine's, or that of the tightest cgroup above a process.

use crate::cgroup::{self, Cgroup, MAX_DEPTH};
use crate::meminfo::{Meminfo, MeminfoReader};
use crate::{Error, Result, clock};
use plimsoll_unit::{Bytes, Nanos, SECOND};
use std::path::Path;

/// After this many reads the groups above are looked up again, because a process can be moved.
const READS_PER_SCAN: u32 = 256;

/// How long figures of the machine stand in [`Domain::read_lately`].
const MACHINE_LASTS: Nanos = Nanos::seconds(1);
/// The most memory that programs of a machine are taken to fill in a second.
const FASTEST: Bytes = Bytes::mib(8 << 10);

/// Capacity and use of a domain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// The most that the domain may hold: the limit of the binding group, or the machine's memory.
    pub capacity: Bytes,
    /// The lowest limit of the groups above, or the machine's memory if that is less. Unlike
    /// `capacity`, it does not change when others use more and another group begins to bind.
    pub lowest: Bytes,
    /// In use, and cannot be dropped for free.
    pub used: Bytes,
    /// All that is charged, including droppable memory.
    pub usage: Bytes,
    /// Memory that could go to swap, if there were room: anonymous memory and tmpfs, without
    /// what is locked.
    pub anonymous: Bytes,
    /// In swap: of the group, or of the machine.
    pub swapped: Bytes,
    /// Pages of files.
    pub files: FilePages,
    /// The machine's swap space.
    pub swap_total: Bytes,
    /// The machine's swap space not in use.
    pub swap_free: Bytes,
}

/// Pages of files on disks and elsewhere, without tmpfs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FilePages {
    /// All of them, and locked memory of other kinds.
    pub all: Bytes,
    /// The most of them that [`Reading::used`] can contain: those that the kernel's lists call active, that
    /// must be written first, or that are locked.
    pub in_use: Bytes,
}

impl FilePages {
    fn new(inactive: Bytes, active: Bytes, dirty: Bytes, locked: Bytes) -> FilePages {
        FilePages {
            all: inactive + active + locked,
            in_use: active + dirty.min(inactive) + locked,
        }
    }
}

impl Reading {
    /// Memory that is left until the capacity is reached.
    pub fn room(&self) -> Bytes {
        self.capacity - self.used
    }

    /// The use below the lowest limit that would leave the same room; memory that others take
    /// elsewhere counts as used here. Does not jump when another group begins to bind.
    pub fn used_of_lowest(&self) -> Bytes {
        self.lowest + self.used - self.capacity
    }
}

/// Where a domain was taken from.
#[derive(Clone, Debug)]
enum Whose {
    Machine,
    Process(i32),
    Group(std::path::PathBuf),
}

/// The machine, or the nested groups above a process. The one with the least room binds. Limits are
/// read each time; the list of groups is made again every `READS_PER_SCAN` reads, and at once if
/// a group disappeared.
#[derive(Debug)]
pub struct Domain {
    whose: Whose,
    machine: MeminfoReader,
    /// Its last figures, and when they were read.
    told: Option<(Nanos, Meminfo)>,
    groups: Vec<Cgroup>,
    /// Whether limits may bind it that are not visible here.
    is_unseen: bool,
    binding: Option<usize>,
    lowest: Option<usize>,
    reads: u32,
}

impl Domain {
    /// The whole machine, regardless of our group.
    ///
    /// # Errors
    /// When `/proc/meminfo` cannot be opened.
    pub fn machine() -> Result<Domain> {
        Domain::new(Whose::Machine)
    }

    /// The domain that bounds this process.
    ///
    /// # Errors
    /// As [`Domain::of_process`].
    pub fn of_self() -> Result<Domain> {
        Domain::of_process(rustix::process::getpid().as_raw_nonzero().get())
    }

    /// The domain that bounds the process `pid`.
    ///
    /// # Errors
    /// [`Error::Gone`] when there is no such process; [`Error::Denied`] when its groups cannot be read.
    pub fn of_process(pid: i32) -> Result<Domain> {
        Domain::new(Whose::Process(pid))
    }

    /// The domain that bounds the processes of a group: its own limit and those above.
    ///
    /// # Errors
    /// [`Error::Absent`] when it is no memory cgroup.
    pub fn of_group(dir: &Path) -> Result<Domain> {
        Domain::new(Whose::Group(dir.to_path_buf()))
    }

    fn new(whose: Whose) -> Result<Domain> {
        let groups = groups_of(&whose)?;
        Ok(Domain {
            is_unseen: is_unseen(&whose, &groups)?,
            whose,
            machine: MeminfoReader::open()?,
            told: None,
            groups,
            binding: None,
            lowest: None,
            reads: 0,
        })
    }

    /// The directory of the group that bound at the last read; `None` when it was the machine.
    pub fn binding(&self) -> Option<&Path> {
        Some(self.groups[self.binding?].dir())
    }

    /// The directory of the group that had the lowest limit at the last read; `None` when the
    /// machine has less memory.
    pub fn lowest(&self) -> Option<&Path> {
        Some(self.groups[self.lowest?].dir())
    }

    /// Whether limits may bind it that nobody can show us, because the group of the process is not visible
    /// here: its file system is not mounted, lies below another mount, or shows other groups only. Then the
    /// figures are those of the machine, and the process may have far less.
    pub fn is_unseen(&self) -> bool {
        self.is_unseen
    }

    /// Reads the domain. Takes 10 us for the machine and 10 us for each group with a limit.
    ///
    /// # Errors
    /// [`Error::Gone`], [`Error::Absent`] when the process or the group is no more.
    pub fn read(&mut self) -> Result<Reading> {
        self.reads += 1;
        if self.reads >= READS_PER_SCAN {
            self.rescan()?;
        }
        match self.read_all() {
            // A group was removed and perhaps made again. Look once more before failing.
            Err(e) if e.is_absent() => {
                self.rescan()?;
                self.read_all()
            }
            other => other,
        }
    }

    /// As [`Domain::read`], for what is read many times in a second: while a group binds, and the machine has
    /// so much more room that no program could fill it since, the figures of the machine (its swap) may be up
    /// to a second old. That saves a half of the time.
    ///
    /// # Errors
    /// As [`Domain::read`].
    pub fn read_lately(&mut self) -> Result<Reading> {
        let now = clock::now();
        if let Some((at, machine)) = self.told.filter(|(at, _)| now - *at < MACHINE_LASTS)
            && self.reads + 1 < READS_PER_SCAN
            && let Ok(reading) = self.read_groups(&machine)
            && self.binding.is_some()
            && room_of(&machine, now - at) > reading.room()
        {
            self.reads += 1;
            return Ok(reading);
        }
        self.read()
    }

    /// [`Reading::lowest`] as it is now, and the most that [`Reading::used_of_lowest`] can be: all that is
    /// charged counts as used. Takes 1 us for each group and 1 us more for each limit. `None` where only
    /// [`Domain::read`] can tell.
    pub fn used_at_most(&self) -> Option<(Bytes, Bytes)> {
        let (at, machine) = self.told?;
        let passed = Some(clock::now() - at).filter(|passed| *passed < MACHINE_LASTS)?;
        let (mut lowest, mut room) = (machine.total, room_of(&machine, passed));
        for group in &self.groups {
            let Some(limit) = group.limit().ok()?.filter(|&limit| limit < machine.total) else {
                continue;
            };
            lowest = lowest.min(limit);
            room = room.min(limit - group.usage().ok()?);
        }
        Some((lowest, lowest - room))
    }

    /// Room in swap for the domain's memory, given its `reading`; there may be less memory that
    /// could go there ([`Reading::anonymous`]). 0 if the machine has no swap left, if a group above has
    /// none left, or if the kernel takes no anonymous memory when a group is at its limit (swappiness 0).
    /// A program that exceeds the limit is killed then. Opens files if there is any swap.
    ///
    /// # Errors
    /// [`Error::Gone`], [`Error::Absent`] when the group is no more.
    pub fn pageable(&self, reading: &Reading) -> Result<Bytes> {
        let mut least = reading.swap_free;
        if least == Bytes::ZERO || self.binding.is_some() && self.groups[0].takes_no_anon()? {
            return Ok(Bytes::ZERO);
        }
        for group in &self.groups {
            if let Some(bytes) = group.pageable(reading.room())? {
                least = least.min(bytes);
            }
        }
        Ok(least)
    }

    /// Whether an excess ends a program instead of slowing it, because less than a sixteenth of the
    /// domain's capacity can still go to swap.
    ///
    /// # Errors
    /// As [`Domain::pageable`].
    pub fn is_cliff(&mut self) -> Result<bool> {
        let reading = self.read()?;
        Ok(self.pageable(&reading)? < reading.capacity / 16)
    }

    /// The lowest limit of the groups above; `None` if none is below the machine's memory.
    /// It bounds what a program can ever have.
    ///
    /// # Errors
    /// As [`Domain::read`].
    pub fn lowest_limit(&mut self) -> Result<Option<Bytes>> {
        let total = self.machine.read()?.total;
        let mut lowest = None;
        for group in &self.groups {
            let limit = group.limit()?.filter(|&limit| limit < total);
            lowest = lowest.into_iter().chain(limit).min();
        }
        Ok(lowest)
    }

    fn rescan(&mut self) -> Result<()> {
        self.groups = groups_of(&self.whose)?;
        self.is_unseen = is_unseen(&self.whose, &self.groups)?;
        (self.binding, self.lowest) = (None, None);
        self.reads = 0;
        Ok(())
    }

    fn read_all(&mut self) -> Result<Reading> {
        let machine = self.machine.read()?;
        self.told = Some((clock::now(), machine));
        self.read_groups(&machine)
    }

    fn read_groups(&mut self, machine: &Meminfo) -> Result<Reading> {
        let swapped = machine.swap_total - machine.swap_free;
        let mut tightest = Reading {
            capacity: machine.total,
            lowest: machine.total,
            used: machine.used(),
            usage: machine.total - machine.free,
            anonymous: machine.anonymous(),
            swapped,
            files: FilePages::new(
                machine.inactive_file,
                machine.active_file,
                machine.dirty,
                machine.unevictable,
            ),
            swap_total: machine.swap_total,
            swap_free: machine.swap_free,
        };
        (self.binding, self.lowest) = (None, None);
        for (index, group) in self.groups.iter().enumerate() {
            let Some(limit) = group.limit()? else {
                continue;
            };
            if limit >= machine.total {
                continue;
            }
            if limit < tightest.lowest {
                tightest.lowest = limit;
                self.lowest = Some(index);
            }
            let usage = group.usage()?;
            // A group that is far from its limit even with all its caches cannot bind.
            if limit - usage > tightest.room() {
                continue;
            }
            let stat = group.stat()?;
            let used = usage - stat.droppable();
            let here = Reading {
                capacity: limit,
                used,
                usage,
                anonymous: Bytes(stat.inactive_anon) + Bytes(stat.active_anon),
                files: FilePages::new(
                    Bytes(stat.inactive_file),
                    Bytes(stat.active_file),
                    Bytes(stat.dirty),
                    Bytes(stat.unevictable),
                ),
                ..tightest
            };
            if here.room() <= tightest.room() {
                tightest = Reading {
                    swapped: group.swapped_beside(&stat)?,
                    ..here
                };
                self.binding = Some(index);
            }
        }
        Ok(tightest)
    }
}

/// The least room that a machine can have, if this time has passed since it was read.
fn room_of(machine: &Meminfo, passed: Nanos) -> Bytes {
    machine.total - machine.used() - FASTEST.part(passed.0, SECOND)
}

fn is_unseen(whose: &Whose, groups: &[Cgroup]) -> Result<bool> {
    match whose {
        Whose::Process(pid) if groups.is_empty() => cgroup::is_unseen(*pid),
        _ => Ok(false),
    }
}

/// The groups whose limits bind, innermost first.
fn groups_of(whose: &Whose) -> Result<Vec<Cgroup>> {
    let first = match whose {
        Whose::Machine => None,
        Whose::Process(pid) => Cgroup::of(*pid)?,
        Whose::Group(dir) => Some(Cgroup::at(dir)?),
    };
    let mut groups = Vec::new();
    let mut next = first;
    while let Some(group) = next {
        if groups.len() >= MAX_DEPTH {
            return Err(Error::Argument {
                what: "cgroup",
                why: "it is nested deeper than 64 levels",
            });
        }
        next = group.parent()?.filter(Cgroup::is_hierarchical);
        groups.push(group);
    }
    Ok(groups)
}
