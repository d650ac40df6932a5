//! Memory that several principals map: divides it by how often each one touches it.
//!
//! In each epoch the reference bits of all mappers are cleared, a random time passes, and each
//! mapper's bits are read per segment (accessed bits are per process). `policy::ownership` computes
//! portions from them. A principal is always charged its portion of each segment: the time average
//! of a rotating charge, without the jumps.
//!
//! A segment with a single mapping principal is paid by it alone, each page once. (ZGC without
//! generations maps its heap three times.)
//!
//! The same epochs measure how often principals use the same files (`files`).

use super::file_window::{self, FileKey, key_of};
use super::files::Files;
use super::samples::{Exchange, Portion, Probe, Probes, Subject, changed, probes_of};
use crate::background::Monitor;
use plimsoll_kernel::clock;
use plimsoll_kernel::referenced::{Segment, Segments, clear, segments};
use plimsoll_policy::ownership::{Ownership, Sample, Settings};
use plimsoll_unit::{Bytes, Nanos};
use plimsoll_wire::messages::Id;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Most segments of one process that are examined, largest first.
const MAX_SEGMENTS: usize = 64;
/// A process with less shared memory than this is not examined.
const WORTHWHILE: Bytes = Bytes::mib(1);
/// Interval at which a principal's mappings are scanned; doubles each time nothing changed.
const SHORTEST_SCAN: Nanos = Nanos::seconds(10);
const LONGEST_SCAN: Nanos = Nanos::seconds(640);
/// After a large change a scan is due at once, but scans of one principal take at most a 25th of
/// one processor.
const SCAN_REST: u64 = 25;
/// Ratio of the pause after an epoch to its processor time, at least.
const REST: u64 = 500;

/// Memory that a principal holds of one segment.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    /// Largest size that one of its processes shows.
    most: Bytes,
    /// Sum of the proportional set sizes of its processes.
    proportional: Bytes,
}

/// One segment, by principal.
#[derive(Debug, Default)]
struct Mapped {
    /// Size of the segment.
    size: Bytes,
    /// The part of it that each principal holds.
    mappers: BTreeMap<Id, Held>,
}

impl Mapped {
    fn resident(&self) -> Bytes {
        let most = self.mappers.values().map(|held| held.most).max();
        most.unwrap_or_default().min(self.size)
    }
}

/// Times of the last and the next scan of a principal.
#[derive(Clone, Copy, Debug, Default)]
struct Scan {
    /// Sum of the shared memory of its processes at that scan.
    of: Bytes,
    /// Earliest time of the next scan, if shared memory changes a lot.
    not_before: Nanos,
    /// Time of the next scan otherwise.
    at: Nanos,
    /// Interval until that scan.
    interval: Nanos,
}

/// The accounts of shared memory. Belongs to the sampling thread.
#[derive(Debug)]
pub(super) struct SharedMemory {
    /// Decides who pays for which part of a segment.
    ownership: Ownership,
    /// The segments that were seen in the last scans.
    segments: BTreeMap<FileKey, Mapped>,
    /// The accounts of files.
    files: Files,
    /// The number that `ownership` knows a segment or file by.
    numbers: HashMap<FileKey, u64>,
    /// The number for the next new segment.
    next_number: u64,
    /// The memory that each principal pays.
    pays: HashMap<Id, Bytes>,
    /// When each principal was scanned, and is to be scanned again.
    scans: HashMap<Id, Scan>,
    /// Time of the next epoch.
    epoch_at: Nanos,
}

impl SharedMemory {
    pub(super) fn new() -> SharedMemory {
        SharedMemory {
            ownership: Ownership::new(Settings::default()),
            segments: BTreeMap::new(),
            files: Files::default(),
            numbers: HashMap::new(),
            next_number: 1,
            pays: HashMap::new(),
            scans: HashMap::new(),
            epoch_at: Nanos::ZERO,
        }
    }

    /// Shared memory that a principal pays for; `None` when it has none.
    pub(super) fn pays(&self, id: Id) -> Option<Portion> {
        let pays = *self.pays.get(&id)?;
        let of = self.scans.get(&id)?.of;
        let mut shared = self.segments.values().filter(|s| s.mappers.len() > 1);
        let alone = !shared.any(|s| s.mappers.contains_key(&id));
        Some(Portion { pays, of, alone })
    }

    /// Pages of files that a principal pays for.
    pub(super) fn pays_for_files(&self, id: Id) -> Bytes {
        self.files.pays(id)
    }

    /// Does the work that is due. Returns `false` when the thread must end.
    pub(super) fn step(
        &mut self,
        monitor: &Monitor<Exchange>,
        subjects: &[Subject],
        probes: &mut Probes,
    ) -> bool {
        self.files.gather(subjects, probes);
        self.forget(subjects);
        for subject in subjects {
            if self.is_due(subject) {
                self.scan(subject, probes);
            }
        }
        self.settle();
        let now = clock::now();
        if now >= self.epoch_at && !self.epoch(monitor, subjects, probes) {
            return false;
        }
        self.settle();
        true
    }

    fn is_due(&self, subject: &Subject) -> bool {
        let Some(scan) = self.scans.get(&subject.id) else {
            return true;
        };
        let now = clock::now();
        now >= scan.at || (now >= scan.not_before && changed(scan.of, subject.shmem))
    }

    /// Removes principals that left.
    fn forget(&mut self, subjects: &[Subject]) {
        let known: HashSet<Id> = subjects.iter().map(|subject| subject.id).collect();
        self.scans.retain(|id, _| known.contains(id));
        for mapped in self.segments.values_mut() {
            mapped.mappers.retain(|id, _| known.contains(id));
        }
        self.drop_unmapped();
    }

    fn drop_unmapped(&mut self) {
        let (numbers, ownership) = (&mut self.numbers, &mut self.ownership);
        self.segments.retain(|_, mapped| !mapped.mappers.is_empty());
        numbers.retain(|key, number| {
            let kept = self.segments.contains_key(key) || self.files.is_used(key);
            if !kept {
                ownership.remove_segment(*number);
            }
            kept
        });
    }

    /// Scans the mappings of one principal.
    fn scan(&mut self, subject: &Subject, probes: &Probes) {
        let (id, cpu) = (subject.id, clock::thread_cpu());
        let mut found: BTreeMap<FileKey, (Bytes, Held)> = BTreeMap::new();
        let mut of = Bytes::ZERO;
        for probe in probes_of(subject, probes) {
            let memory = probe.process.memory().unwrap_or_default();
            of += memory.shmem;
            if memory.shmem < WORTHWHILE {
                continue;
            }
            for segment in segments_of(probe).memory {
                let (size, held) = found.entry(key_of(segment.key)).or_default();
                *size = segment.size.max(*size);
                held.most = segment.rss.max(held.most);
                held.proportional += segment.pss;
            }
        }
        let mut before = 0;
        for (key, mapped) in &mut self.segments {
            let had = mapped.mappers.remove(&id).is_some();
            before += usize::from(had && found.contains_key(key));
        }
        let same = before == found.len();
        for (key, (size, held)) in found {
            let mapped = self.segments.entry(key).or_default();
            mapped.size = if mapped.mappers.is_empty() {
                size
            } else {
                mapped.size.max(size)
            };
            mapped.mappers.insert(id, held);
        }
        self.drop_unmapped();
        let now = clock::now();
        let cost = clock::thread_cpu() - cpu;
        let last = self
            .scans
            .get(&id)
            .map_or(Nanos::ZERO, |scan| scan.interval);
        let interval = if same {
            (last * 2).clamp(SHORTEST_SCAN, LONGEST_SCAN)
        } else {
            SHORTEST_SCAN
        };
        self.scans.insert(
            id,
            Scan {
                of,
                not_before: now + cost * SCAN_REST,
                at: now + interval,
                interval,
            },
        );
    }

    /// Runs one epoch over the processes that map shared segments or use the same files. It is postponed
    /// while the working set of one of them is being sampled, because its bits must not be cleared then.
    fn epoch(
        &mut self,
        monitor: &Monitor<Exchange>,
        subjects: &[Subject],
        probes: &Probes,
    ) -> bool {
        let mappers: HashSet<Id> = self
            .segments
            .values()
            .filter(|mapped| mapped.mappers.len() > 1)
            .flat_map(|mapped| mapped.mappers.keys().copied())
            .chain(self.files.sharers())
            .collect();
        if mappers.is_empty() {
            return true;
        }
        let involved: Vec<(Id, &Probe)> = processes(subjects, probes)
            .filter(|(id, _)| mappers.contains(id))
            .collect();
        if involved.iter().any(|(_, probe)| probe.in_window) {
            return true;
        }
        let epoch = self.ownership.next_epoch(draw());
        let cpu = clock::thread_cpu();
        let cleared: Vec<(Id, &Probe, Nanos)> = involved
            .into_iter()
            .filter(|(_, probe)| clear(&probe.process).is_ok())
            .map(|(id, probe)| (id, probe, clock::now()))
            .collect();
        if !monitor.rest(epoch.wait.duration()) {
            return false;
        }
        self.take_in(&cleared);
        let cost = clock::thread_cpu() - cpu;
        self.epoch_at = clock::now() + epoch.pause.max(cost * REST);
        true
    }

    fn take_in(&mut self, cleared: &[(Id, &Probe, Nanos)]) {
        let mut samples: BTreeMap<FileKey, BTreeMap<Id, Sample>> = BTreeMap::new();
        for &(id, probe, since) in cleared {
            let Segments { memory, files, .. } = segments_of(probe);
            for segment in memory.into_iter().chain(files) {
                let waited = clock::now() - since;
                let of = samples.entry(key_of(segment.key)).or_default();
                let sample = of.entry(id).or_insert(Sample {
                    principal: id,
                    referenced: Bytes::ZERO,
                    waited,
                });
                // The busiest of a principal's processes counts.
                sample.referenced = sample.referenced.max(segment.referenced);
            }
        }
        for (key, samples) in samples {
            let mapped = self.segments.get(&key).filter(|m| m.mappers.len() > 1);
            let shared = mapped.map(Mapped::resident);
            let Some(resident) = shared.or_else(|| self.files.divided(&key)) else {
                continue;
            };
            let next = self.next_number;
            let number = *self.numbers.entry(key).or_insert(next);
            self.next_number = self.next_number.max(number + 1);
            let samples: Vec<Sample> = samples.into_values().collect();
            self.ownership.measured(number, resident, &samples, draw());
        }
    }

    /// Computes what each principal pays: memory that it maps alone, and its portion of shared
    /// memory (an even part until its accesses were measured).
    fn settle(&mut self) {
        self.pays.clear();
        for (key, mapped) in &self.segments {
            let (resident, mappers) = (mapped.resident(), &mapped.mappers);
            let portions = self
                .numbers
                .get(key)
                .map_or(&[][..], |&number| self.ownership.portions(number));
            for (&id, held) in mappers {
                let portion = portions
                    .iter()
                    .find(|portion| portion.principal == id)
                    .map(|portion| portion.fraction);
                let even = 1.0 / mappers.len() as f64;
                let part = match mappers.len() {
                    1 => held.proportional,
                    _ => Bytes((resident.0 as f64 * portion.unwrap_or(even)) as u64),
                };
                *self.pays.entry(id).or_default() += part;
            }
        }
        let (numbers, ownership) = (&self.numbers, &self.ownership);
        self.files.settle(|key| {
            numbers
                .get(key)
                .map_or(&[][..], |&number| ownership.portions(number))
        });
    }
}

fn processes<'a>(
    subjects: &'a [Subject],
    probes: &'a Probes,
) -> impl Iterator<Item = (Id, &'a Probe)> {
    subjects
        .iter()
        .flat_map(move |subject| probes_of(subject, probes).map(move |probe| (subject.id, probe)))
}

/// The segments of a process that are worthwhile.
fn segments_of(probe: &Probe) -> Segments {
    let Ok(memory) = probe.process.memory() else {
        return Segments::default();
    };
    if memory.shmem < WORTHWHILE && memory.file < file_window::WORTHWHILE {
        return Segments::default();
    }
    let mut found = segments(&probe.process, MAX_SEGMENTS).unwrap_or_default();
    let worthwhile = |least: Bytes| move |segment: &Segment| segment.rss >= least;
    found.memory.retain(worthwhile(WORTHWHILE));
    found.files.retain(worthwhile(file_window::WORTHWHILE));
    found
}

/// A random number that no program can predict.
fn draw() -> u64 {
    let mut bytes = [0; 8];
    let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    u64::from_ne_bytes(bytes)
}
