//! Memory that several principals map: who pays for it, by how often each touches it.
//!
//! Per epoch: the reference bits of all mappers are cleared, a random time passes, each mapper's
//! bits are read per segment (linux-vm: accessed bits are per process). `policy::ownership` makes
//! portions of it. A principal is charged its portion of each segment at all times: the time average
//! of a charge that rotates, without the jumps.

use super::sampler::{Place, Probe, Probes, Subject};
use plimsoll_kernel::clock::{now_ns, thread_cpu_ns};
use plimsoll_kernel::referenced::{Segment, clear, shared_segments};
use plimsoll_kernel::smaps::FileKey;
use plimsoll_policy::ownership::{Ownership, Sample, Settings};
use plimsoll_wire::messages::Id;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

/// Segments of one process that are looked at, largest first.
const MAX_SEGMENTS: usize = 64;
/// A process with less shared memory than this (bytes) is not looked into.
const WORTHWHILE: u64 = 1 << 20;
/// Who maps what is found out at this interval (ns), and twice as late each time nothing changed.
const SHORTEST_SCAN_NS: u64 = 10_000_000_000;
const LONGEST_SCAN_NS: u64 = 640_000_000_000;
/// An epoch is followed by a pause of at least this many times its processor time.
const REST: u64 = 500;
/// tmpfs and shared anonymous memory have devices without a major number.
const NO_DEVICE: u32 = 0;

/// One segment and its resident bytes per principal (the most that one of its processes maps).
type Mappers = BTreeMap<Id, u64>;

/// The books of shared memory.
#[derive(Debug)]
pub(super) struct SharedMemory {
    ownership: Ownership,
    segments: BTreeMap<FileKey3, (u64, Mappers)>,
    numbers: HashMap<FileKey3, u64>,
    next_number: u64,
    pays: HashMap<Id, u64>,
    scan_at: u64,
    interval: u64,
    epoch_at: u64,
}

/// [`FileKey`] as something to sort by.
type FileKey3 = (u32, u32, u64);

fn key_of(file: FileKey) -> FileKey3 {
    (file.major, file.minor, file.inode)
}

impl SharedMemory {
    pub(super) fn new() -> SharedMemory {
        SharedMemory {
            ownership: Ownership::new(Settings::default()),
            segments: BTreeMap::new(),
            numbers: HashMap::new(),
            next_number: 1,
            pays: HashMap::new(),
            scan_at: 0,
            interval: SHORTEST_SCAN_NS,
            epoch_at: 0,
        }
    }

    /// Shared memory that a principal pays for, bytes; `None` when it has none.
    pub(super) fn pays(&self, id: Id) -> Option<u64> {
        self.pays.get(&id).copied()
    }

    /// Does what is due. `false` when the thread is to end.
    pub(super) fn step(&mut self, place: &Place, subjects: &[Subject], probes: &Probes) -> bool {
        let now = now_ns();
        if now >= self.scan_at {
            self.scan(subjects, probes, now);
        }
        let any_shared = self.segments.values().any(|(_, mappers)| mappers.len() > 1);
        if any_shared && now >= self.epoch_at && !self.epoch(place, subjects, probes) {
            return false;
        }
        self.settle();
        true
    }

    /// Finds out who maps what.
    fn scan(&mut self, subjects: &[Subject], probes: &Probes, now: u64) {
        let before: HashSet<FileKey3> = self.segments.keys().copied().collect();
        let mut found: BTreeMap<FileKey3, (u64, Mappers)> = BTreeMap::new();
        for (id, probe) in processes(subjects, probes) {
            for segment in segments_of(probe) {
                let (size, mappers) = found.entry(key_of(segment.key)).or_default();
                *size = segment.size.max(*size);
                let held = mappers.entry(id).or_default();
                *held = segment.rss.max(*held);
            }
        }
        let same = found.len() == before.len() && found.keys().all(|key| before.contains(key));
        self.interval = if same {
            (self.interval * 2).min(LONGEST_SCAN_NS)
        } else {
            SHORTEST_SCAN_NS
        };
        self.scan_at = now.saturating_add(self.interval);
        for key in before.iter().filter(|key| !found.contains_key(*key)) {
            if let Some(number) = self.numbers.remove(key) {
                self.ownership.remove_segment(number);
            }
        }
        self.segments = found;
    }

    /// One epoch over the processes that map shared segments. Postponed while a working set is being
    /// sampled in one of them: its bits must not be cleared then.
    fn epoch(&mut self, place: &Place, subjects: &[Subject], probes: &Probes) -> bool {
        let mappers: HashSet<Id> = self
            .segments
            .values()
            .filter(|(_, mappers)| mappers.len() > 1)
            .flat_map(|(_, mappers)| mappers.keys().copied())
            .collect();
        let involved: Vec<(Id, &Probe)> = processes(subjects, probes)
            .filter(|(id, _)| mappers.contains(id))
            .collect();
        if involved.iter().any(|(_, probe)| probe.in_window) {
            return true;
        }
        let epoch = self.ownership.next_epoch(draw());
        let cpu = thread_cpu_ns();
        let cleared: Vec<(Id, &Probe, u64)> = involved
            .into_iter()
            .filter(|(_, probe)| clear(&probe.process).is_ok())
            .map(|(id, probe)| (id, probe, now_ns()))
            .collect();
        if !place.sleep(Duration::from_nanos(epoch.wait)) {
            return false;
        }
        self.take_in(&cleared);
        let cost = thread_cpu_ns().saturating_sub(cpu);
        self.epoch_at = now_ns().saturating_add(epoch.pause.max(cost.saturating_mul(REST)));
        true
    }

    fn take_in(&mut self, cleared: &[(Id, &Probe, u64)]) {
        let mut samples: BTreeMap<FileKey3, BTreeMap<Id, Sample>> = BTreeMap::new();
        for &(id, probe, since) in cleared {
            for segment in segments_of(probe) {
                let waited = now_ns().saturating_sub(since);
                let of = samples.entry(key_of(segment.key)).or_default();
                let sample = of.entry(id).or_insert(Sample {
                    principal: id,
                    referenced: 0,
                    waited,
                });
                // Several processes of one principal: the busiest stands for it.
                sample.referenced = sample.referenced.max(segment.referenced);
            }
        }
        for (key, samples) in samples {
            let Some((size, mappers)) = self
                .segments
                .get(&key)
                .filter(|(_, mappers)| mappers.len() > 1)
            else {
                continue;
            };
            let resident = mappers.values().copied().max().unwrap_or(0).min(*size);
            let next = self.next_number;
            let number = *self.numbers.entry(key).or_insert(next);
            self.next_number = self.next_number.max(number + 1);
            let samples: Vec<Sample> = samples.into_values().collect();
            self.ownership.measured(number, resident, &samples, draw());
        }
    }

    /// What each principal pays: what it maps alone, and its portion of what it shares (an even
    /// part until its accesses were measured).
    fn settle(&mut self) {
        self.pays.clear();
        for (key, (_, mappers)) in &self.segments {
            let resident = mappers.values().copied().max().unwrap_or(0);
            let portions = self
                .numbers
                .get(key)
                .map_or(&[][..], |&number| self.ownership.portions(number));
            for (&id, &held) in mappers {
                let portion = portions
                    .iter()
                    .find(|portion| portion.principal == id)
                    .map(|portion| portion.fraction);
                let even = 1.0 / mappers.len() as f64;
                let part = match mappers.len() {
                    1 => held,
                    _ => (resident as f64 * portion.unwrap_or(even)) as u64,
                };
                let pays = self.pays.entry(id).or_default();
                *pays = pays.saturating_add(part);
            }
        }
    }
}

fn processes<'a>(
    subjects: &'a [Subject],
    probes: &'a Probes,
) -> impl Iterator<Item = (Id, &'a Probe)> {
    subjects.iter().flat_map(move |subject| {
        subject
            .processes
            .iter()
            .filter_map(move |key| Some((subject.id, probes.get(key)?)))
    })
}

fn segments_of(probe: &Probe) -> Vec<Segment> {
    let holds = probe
        .process
        .memory()
        .is_ok_and(|memory| memory.shmem >= WORTHWHILE);
    if !holds {
        return Vec::new();
    }
    let mut segments = shared_segments(&probe.process, MAX_SEGMENTS).unwrap_or_default();
    segments.retain(|segment| segment.key.major == NO_DEVICE && segment.rss >= WORTHWHILE);
    segments
}

/// A random number that no program can foresee.
fn draw() -> u64 {
    let mut bytes = [0; 8];
    let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    u64::from_ne_bytes(bytes)
}
