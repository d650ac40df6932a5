//! The simulated kernel: gives memory, pages it out and takes it back, in nested domains.

use crate::program::Program;
use crate::scenario::Hog;
use plimsoll_broker::decide::SensedDomain;

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
            .filter(|program| self.is_in(program.group, domain));
        let hogs = hogs.iter().filter(|hog| self.is_in(hog.group, domain));
        programs.map(|program| program.resident).sum::<u64>()
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
            capacity,
            used: self.used(domain, programs, hogs),
            cliff: false,
        })
    }

    /// Pages out what does not fit: first within each program's own bound, then within each cgroup,
    /// then on the whole machine, from all programs in proportion.
    pub(crate) fn reclaim(&mut self, programs: &mut [Program], hogs: &mut [Hog]) {
        for program in programs.iter_mut() {
            let over = program.resident.saturating_sub(program.bound);
            page_out(program, over);
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
            if self.is_in(program.group, domain) {
                let bytes = part(program.resident).min(program.resident);
                page_out(program, bytes);
                self.paged += bytes;
            }
        }
        for hog in hogs.iter_mut().filter(|hog| self.is_in(hog.group, domain)) {
            hog.resident -= part(hog.resident).min(hog.resident);
        }
    }
}

/// Moves bytes of a program to swap.
pub(crate) fn page_out(program: &mut Program, bytes: u64) {
    let bytes = bytes.min(program.resident);
    program.resident -= bytes;
    program.swapped += bytes;
}

/// Frees bytes of a program: those in memory first.
pub(crate) fn free(program: &mut Program, bytes: u64) {
    let resident = bytes.min(program.resident);
    program.resident -= resident;
    program.swapped -= (bytes - resident).min(program.swapped);
}
