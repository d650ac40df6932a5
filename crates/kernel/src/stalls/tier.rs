//! The tiers of the stall signal, what each tells, and why one is not used. Pure.

use crate::Error;
use plimsoll_unit::Nanos;

/// The pressure of a group tells a shortage of one of its processes if it took more than one part in this
/// many of the time.
const PRESSED: u64 = 64;

/// A way to learn of a process's allocation stalls, best first. The numbers are stable: they are
/// written to pages that other programs read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Tier {
    /// Delay accounting (taskstats of the thread group): count and time, exact, threads that have
    /// exited included.
    DelayAccounting = 1,
    /// The tracepoints of reclaim, begin and end: count and time, exact, from the moment of opening.
    Reclaim = 2,
    /// The tracepoints of reclaim, counted only: no time.
    ReclaimCount = 3,
    /// The total of the process's own group's `memory.pressure`: the time for which at least one
    /// thread *of the group* waited, reading from swap included; no count.
    Pressure = 4,
    /// Major faults: pages that had to be read from swap or a file. No stalls at all, but what
    /// follows them; no time.
    MajorFaults = 5,
}

impl Tier {
    /// All, best first.
    pub const ALL: [Tier; 5] = [
        Tier::DelayAccounting,
        Tier::Reclaim,
        Tier::ReclaimCount,
        Tier::Pressure,
        Tier::MajorFaults,
    ];

    /// The tier with this number.
    pub fn from_number(number: u8) -> Option<Tier> {
        Tier::ALL.into_iter().find(|tier| *tier as u8 == number)
    }

    /// Fewer stalls than this from one collection to the next mean nothing: classes and libraries are read
    /// from files all the time. The number for major faults is from related work that the paper of Isla
    /// Vista names (section 5).
    pub fn few(self) -> u64 {
        match self {
            Tier::MajorFaults => 10,
            _ => 0,
        }
    }

    /// Whether these stalls of a process within a span tell that it is short of memory. The
    /// pressure of a group is that of all its processes, so one stall of a neighbour tells nothing.
    pub fn is_short(self, stalled: Stalled, span: Nanos) -> bool {
        match self {
            Tier::Pressure => stalled.time > span / PRESSED,
            Tier::MajorFaults => stalled.count >= self.few(),
            _ => stalled.any(),
        }
    }

    /// Whether [`Stalled::count`] is counted. If not, it stays 0.
    pub fn counts(self) -> bool {
        self != Tier::Pressure
    }

    /// Whether [`Stalled::time`] is measured. If not, it stays 0.
    pub fn times(self) -> bool {
        matches!(self, Tier::DelayAccounting | Tier::Reclaim | Tier::Pressure)
    }

    /// Whether it is read by calls that every program makes, so that no filter of system calls ends a
    /// program for them.
    pub fn is_usual(self) -> bool {
        !matches!(self, Tier::Reclaim | Tier::ReclaimCount)
    }

    /// Its name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Tier::DelayAccounting => "delay accounting",
            Tier::Reclaim => "reclaim tracepoints",
            Tier::ReclaimCount => "reclaim tracepoints, counted only",
            Tier::Pressure => "pressure of the own group",
            Tier::MajorFaults => "major faults",
        }
    }
}

/// Allocation stalls so far. Where it begins differs between tiers, so that only differences mean
/// something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stalled {
    /// How many (major faults with [`Tier::MajorFaults`]); see [`Tier::counts`].
    pub count: u64,
    /// How long they took, summed over threads (over the time of the group with
    /// [`Tier::Pressure`]); see [`Tier::times`].
    pub time: Nanos,
}

impl Stalled {
    /// The difference from an earlier reading of the same signal. A counter that wrapped or went
    /// backwards gives 0.
    #[must_use]
    pub fn since(self, earlier: Stalled) -> Stalled {
        Stalled {
            count: self.count.saturating_sub(earlier.count),
            time: self.time - earlier.time,
        }
    }

    /// Whether there was any.
    pub fn any(self) -> bool {
        self.count > 0 || self.time > Nanos::ZERO
    }
}

/// Why a tier is not used.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Declined {
    /// The kernel counts no delays.
    #[error(
        "kernel.task_delayacct is off, so no delays are counted: `sysctl kernel.task_delayacct=1`, and \
         programs that are started after it have them"
    )]
    SwitchedOff,
    /// The process is older than the switch.
    #[error(
        "process {pid} was started before kernel.task_delayacct was switched on (or, before Linux 6.0, \
         never waited yet), and is not counted: start it again to have its delays"
    )]
    OlderThanSwitch { pid: i32 },
    /// The calls for it are unusual, and the process is under a filter of calls.
    #[error(
        "the process is under a filter of system calls (seccomp), which may end it for this one, so it is \
         not tried"
    )]
    Filtered,
    /// Somebody closed what it is read by, or whether that is still ours cannot be asked any more.
    #[error(
        "the program closed the descriptor by which it is read, or gave up the right to read it"
    )]
    Closed,
    /// No family `TASKSTATS`.
    #[error("the kernel offers no taskstats: it was built without CONFIG_TASKSTATS")]
    NoTaskstats,
    /// Programs in the kernel know processes by other numbers than we do.
    #[error(
        "this is a container with a pid namespace of its own, in which the kernel's tracing cannot name \
         the process"
    )]
    PidNamespace,
    /// The numbers of tracepoints are unknown.
    #[error(
        "tracefs can be neither read nor mounted, so the tracepoints have no numbers: root, or \
         `mount -t tracefs tracefs /sys/kernel/tracing` and read permission there"
    )]
    NoTracefs,
    /// Too many threads to count for each.
    #[error(
        "process {pid} has more than {most} threads, each of which would need descriptors of ours"
    )]
    ManyThreads { pid: i32, most: usize },
    /// Threads are made faster than they can be listed.
    #[error("process {pid} makes new threads so fast that it cannot be told which are counted")]
    Unsteady { pid: i32 },
    /// The process's group of version 2 is not mounted here.
    #[error(
        "the version 2 group of process {pid} is not mounted here, so its pressure is not known"
    )]
    NoGroup { pid: i32 },
    /// The top group's pressure is that of the machine.
    #[error(
        "process {pid} is in the top group of version 2, whose pressure is that of the whole machine: \
         start it in a group of its own, as systemd and `plimsoll run` under version 2 do"
    )]
    TopGroup { pid: i32 },
    /// No `memory.pressure`.
    #[error(
        "pressure is not counted: `psi=1` on the kernel's command line, Linux 4.20, and 1 in the \
         group's cgroup.pressure turn it on"
    )]
    NoPressure,
    /// An interface of the kernel refused.
    #[error(transparent)]
    Kernel(#[from] Error),
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_are_stable_and_tiers_tell_something() {
        for (index, tier) in Tier::ALL.into_iter().enumerate() {
            assert_eq!(tier as usize, index + 1);
            assert_eq!(Tier::from_number(tier as u8), Some(tier));
            assert!(tier.counts() || tier.times());
        }
        assert_eq!(Tier::from_number(0), None);
        assert!(Tier::DelayAccounting < Tier::MajorFaults, "best first");
    }

    proptest! {
        #[test]
        fn a_difference_is_never_negative_nor_more_than_what_was_read(
            a in any::<(u64, u64)>(),
            b in any::<(u64, u64)>(),
        ) {
            let stalled = |of: (u64, u64)| Stalled { count: of.0, time: Nanos(of.1) };
            let (a, b) = (stalled(a), stalled(b));
            let d = b.since(a);
            prop_assert!(d.count <= b.count && d.time <= b.time);
            prop_assert!(b.count < a.count || a.count + d.count == b.count);
            prop_assert!(b.time >= a.time || d.time == Nanos::ZERO);
            prop_assert!(!a.since(a).any());
        }
    }
}
