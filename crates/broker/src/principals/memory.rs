//! The memory of a principal, as far as it is known.

use crate::act::Home;
use crate::sense::{self, Figures, Sampled, Tree};
use plimsoll_unit::{Bytes, Nanos};

/// Shared memory from which on the sampler checks how often a process maps it.
const MUCH_SHARED: Bytes = Bytes::mib(8);

/// The processes of a principal, and what was read and sampled of them. Without processes all is 0.
#[derive(Debug, Default)]
pub struct Memory {
    /// Its processes; `None` for a group, and until its process attaches.
    pub tree: Option<Tree>,
    /// Values read last.
    figures: Figures,
    /// Memory accounted to it and memory in swap, as read last.
    accounted: (Bytes, Bytes),
    /// When they were read; 0 before the first time.
    read_at: Nanos,
    /// When it said last that it gave memory back, unless it was read since then.
    released_at: Option<Nanos>,
    /// Values sampled last.
    sampled: Sampled,
    /// Shared memory last reported to the sampling thread.
    shmem_told: Bytes,
}

impl Memory {
    /// Process id and start time of the root of its processes.
    #[must_use]
    pub fn root(&self) -> Option<(i32, u64)> {
        let root = self.tree.as_ref().map(Tree::root)?;
        Some((root.pid(), root.start_time()))
    }

    /// Process id and start time of each process, the root first.
    pub fn instances(&self) -> impl Iterator<Item = (i32, u64)> {
        let processes = self.tree.iter().flat_map(Tree::processes);
        processes.map(|process| (process.pid(), process.start_time()))
    }

    /// Whether no process lived when it was read last.
    #[must_use]
    pub fn is_absent(&self) -> bool {
        self.figures.processes == 0
    }

    /// Reads the memory accounted to it (own, without child principals) and that in swap. Returns whether
    /// this is the first reading since it gave memory back. A cgroup counts a page once that its processes
    /// share by fork or that one maps several times; the process tree counts it in each process. So the
    /// smaller value is right. Idle principals are read only now and then, unless `all` is set or they gave
    /// memory back.
    pub fn read(&mut self, now: Nanos, all: bool, home: Option<&Home>) -> bool {
        let answers = self.released_at.take_if(|at| now >= *at).is_some();
        let Some(tree) = &mut self.tree else {
            return answers;
        };
        self.figures = tree.read(now, all || answers);
        self.read_at = tree.read_at();
        let Figures {
            anon, shmem, swap, ..
        } = self.figures;
        let portion = self.sampled.shared;
        let pays = portion.map_or(shmem, |portion| portion.now(self.figures.shmem_sum));
        let by_tree = anon + pays;
        let mapped_often = portion.is_none_or(|portion| portion.alone) && shmem >= MUCH_SHARED;
        let is_counted_often = self.figures.processes > 1 || mapped_often;
        let charged = home.filter(|home| home.complete && is_counted_often);
        self.accounted = match charged.map(Home::read) {
            Some(Ok((bytes, swapped))) => (by_tree.min(bytes), swapped.max(swap)),
            _ => (by_tree, swap),
        };
        answers
    }

    /// Memory accounted to it and memory in swap, as read last.
    #[must_use]
    pub fn accounted(&self) -> (Bytes, Bytes) {
        self.accounted
    }

    /// Pages of files that it uses and pays for, in addition.
    #[must_use]
    pub fn files(&self) -> Bytes {
        self.sampled.files.min(self.figures.file_sum)
    }

    /// When they were read; 0 before the first time.
    #[must_use]
    pub fn read_at(&self) -> Nanos {
        self.read_at
    }

    /// It says at `now` that it gave memory back.
    pub fn released(&mut self, now: Nanos) {
        self.released_at = Some(now);
    }

    /// Whether it gave memory back and was not read since then.
    #[must_use]
    pub fn is_released(&self) -> bool {
        self.released_at.is_some()
    }

    /// Values sampled last.
    #[must_use]
    pub fn sampled(&self) -> Sampled {
        self.sampled
    }

    /// Takes over newer samples. The last working set stays where there is none.
    pub fn take_over(&mut self, found: &Sampled) {
        let working_set = found.working_set.or(self.sampled.working_set);
        self.sampled = Sampled {
            working_set,
            ..*found
        };
    }

    /// Whether its shared memory changed so much since it was told last that it has to be measured again.
    #[must_use]
    pub fn is_shared_anew(&self) -> bool {
        sense::changed(self.shmem_told, self.figures.shmem_sum)
    }

    /// Tells its shared memory, summed over its processes.
    pub fn tell_shared(&mut self) -> Bytes {
        self.shmem_told = self.figures.shmem_sum;
        self.shmem_told
    }

    /// Whether it is large enough to be sampled.
    #[must_use]
    pub fn is_worthwhile(&self) -> bool {
        let Figures {
            anon,
            shmem,
            file_sum,
            ..
        } = self.figures;
        anon.max(shmem).max(file_sum) >= sense::WORTHWHILE
    }

    /// Major faults up to `now` since it was registered.
    pub fn major_faults(&mut self, now: Nanos) -> u64 {
        self.tree.as_mut().map_or(0, |tree| tree.major_faults(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_answered_by_one_reading_that_is_not_older() {
        let mut memory = Memory::default();
        memory.released(Nanos(5));
        assert!(!memory.read(Nanos(4), false, None) && memory.is_released());
        assert!(memory.read(Nanos(5), false, None) && !memory.is_released());
        assert!(!memory.read(Nanos(6), false, None));
    }

    #[test]
    fn a_working_set_stays_until_there_is_another() {
        let sampled = |working_set, wanted| Sampled {
            working_set,
            wanted,
            ..Sampled::default()
        };
        let mut memory = Memory::default();
        memory.take_over(&sampled(Some(Bytes(3)), 9));
        memory.take_over(&sampled(None, 0));
        assert_eq!(memory.sampled(), sampled(Some(Bytes(3)), 0));
    }
}
