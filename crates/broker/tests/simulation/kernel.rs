//! The simulated kernel: gives memory, pages it out and takes it back, in nested domains.

use crate::program::Program;
use crate::scenario::Hog;
use plimsoll_broker::decide::SensedDomain;
use plimsoll_unit::Bytes;

/// The kernel's view of groups: capacity and parent.
#[derive(Clone, Debug)]
pub(crate) struct Cgroup {
    pub(crate) parent: Option<usize>,
    pub(crate) capacity: Option<u64>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Kernel {
    pub(crate) capacity: u64,
    pub(crate) cgroups: Vec<Cgroup>,
    /// Bytes paged out because there was no room, which a broker must prevent.
    pub(crate) paged: u64,
}

impl Kernel {
    /// Whether `inner` lies in `outer` (`None` is the root).
    pub(crate) fn is_in(&self, inner: Option<usize>, outer: Option<usize>) -> bool {
        let Some(outer) = outer else { return true };
        let mut next = inner;
        while let Some(at) = next {
            if at == outer {
                return true;
            }
            next = self.cgroups[at].parent;
        }
        false
    }

    /// Bytes used in a domain.
    pub(crate) fn used(&self, domain: Option<usize>, programs: &[Program], hogs: &[Hog]) -> u64 {
        let programs = programs
            .iter()
            .filter(|program| self.is_in(program.place.group, domain));
        let hogs = hogs.iter().filter(|hog| self.is_in(hog.group, domain));
        programs.map(|program| program.memory.resident).sum::<u64>()
            + hogs.map(|hog| hog.resident).sum::<u64>()
    }

    pub(crate) fn sense(
        &self,
        domain: Option<usize>,
        programs: &[Program],
        hogs: &[Hog],
    ) -> Option<SensedDomain> {
        let capacity = match domain {
            None => self.capacity,
            Some(at) => self.cgroups[at].capacity?,
        };
        Some(SensedDomain {
            capacity: Bytes(capacity),
            used: Bytes(self.used(domain, programs, hogs)),
            ..SensedDomain::default()
        })
    }

    /// Pages out what does not fit: first within each program's own bound, then within each cgroup,
    /// then on the whole machine, from all programs in proportion.
    pub(crate) fn reclaim(&mut self, programs: &mut [Program], hogs: &mut [Hog]) {
        for program in programs.iter_mut() {
            let over = program.memory.resident.saturating_sub(program.memory.bound);
            program.memory.page_out(over);
        }
        for at in (0..self.cgroups.len()).rev() {
            if let Some(capacity) = self.cgroups[at].capacity {
                self.shrink(Some(at), capacity, programs, hogs);
            }
        }
        self.shrink(None, self.capacity, programs, hogs);
    }

    fn shrink(
        &mut self,
        domain: Option<usize>,
        capacity: u64,
        programs: &mut [Program],
        hogs: &mut [Hog],
    ) {
        let used = self.used(domain, programs, hogs);
        let over = used.saturating_sub(capacity);
        if over == 0 {
            return;
        }
        let part =
            |resident: u64| (u128::from(over) * u128::from(resident) / u128::from(used)) as u64 + 1;
        for program in programs.iter_mut() {
            if self.is_in(program.place.group, domain) {
                let bytes = part(program.memory.resident).min(program.memory.resident);
                program.memory.page_out(bytes);
                self.paged += bytes;
            }
        }
        for hog in hogs.iter_mut().filter(|hog| self.is_in(hog.group, domain)) {
            hog.resident -= part(hog.resident).min(hog.resident);
        }
    }
}

/// The memory of one program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    /// Bytes in memory and paged out.
    pub(crate) resident: u64,
    pub(crate) swapped: u64,
    /// Resident bytes when last sensed.
    pub(crate) sensed: u64,
    /// The kernel's limit on the resident bytes.
    pub(crate) bound: u64,
}

impl Memory {
    /// None, and no limit.
    pub(crate) fn new() -> Memory {
        Memory {
            resident: 0,
            swapped: 0,
            sensed: 0,
            bound: u64::MAX,
        }
    }

    pub(crate) fn total(&self) -> u64 {
        self.resident + self.swapped
    }

    /// Allocates bytes (positive) or frees them.
    pub(crate) fn change(&mut self, by: i64) {
        if by >= 0 {
            self.resident += by as u64;
        } else {
            self.free(by.unsigned_abs());
        }
    }

    /// Frees bytes: those in memory first.
    fn free(&mut self, bytes: u64) {
        let resident = bytes.min(self.resident);
        self.resident -= resident;
        self.swapped -= (bytes - resident).min(self.swapped);
    }

    /// Moves bytes to swap.
    pub(crate) fn page_out(&mut self, bytes: u64) {
        let bytes = bytes.min(self.resident);
        self.resident -= bytes;
        self.swapped += bytes;
    }

    /// Reads at most that many bytes from swap, as far as the limit allows.
    pub(crate) fn page_in(&mut self, most: u64) {
        let room = self.bound.saturating_sub(self.resident);
        let back = self.swapped.min(most).min(room);
        self.swapped -= back;
        self.resident += back;
    }
}
