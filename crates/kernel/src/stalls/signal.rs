//! The stall signal of one process, by the best tier that works.

use super::cgroup_psi::Group;
use super::delays::{Delays, PAUSE};
use super::reclaim::{Counted, Timed};
use super::{Declined, Stalled, Tier, cgroup_psi};
use crate::process::Process;
use crate::{Error, Result, sandbox};
use plimsoll_unit::Nanos;

/// The allocation stalls of one process, our own or another.
///
/// 1. [`Stalls::open`] tries the tiers, best first, and says by [`Stalls::declined`] why it passed
///    one over.
/// 2. [`Stalls::read`] at the beginning and at the end of something, e.g. of a collection.
/// 3. [`Stalled::since`] of the two is what happened within.
///
/// A tier may stop working after it was opened: the process gives a right up, its group is removed. Where a
/// reading fails for good, or several in a row do, the next tier that opens is taken: [`Stalls::tier`] and
/// [`Stalls::declined`] say so from then on. It counts from elsewhere, so a caller that sees another tier
/// after a reading begins anew with it.
///
/// It may be sent to another thread. Reading allocates nothing, except where it fails.
#[derive(Debug)]
pub struct Stalls {
    /// The number of the process.
    pid: i32,
    /// The process; `None` for our own. That need not be asked whether it lives; and it may be somebody
    /// else's program, which closes descriptors that it does not know: what would have their numbers in the
    /// end would be closed with this.
    process: Option<Process>,
    source: Source,
    tier: Tier,
    declined: Vec<(Tier, Declined)>,
    /// The tiers that are tried when this one stops working, best first.
    lesser: std::vec::IntoIter<Tier>,
    /// Readings in a row that failed; changed by each reading.
    failed: u32,
}

/// So many failed readings in a row end a tier, whatever the reason is.
const MAX_FAILED: u32 = 5;

#[derive(Debug)]
enum Source {
    Delays(Delays),
    Reclaim(Timed),
    ReclaimCount(Counted),
    Pressure(Group),
    Faults,
    /// A count that a test sets.
    #[cfg(test)]
    MadeUp(std::vec::IntoIter<Result<Stalled>>),
}

impl Stalls {
    /// Opens the signal of the process that has this number now. Takes less than a millisecond.
    ///
    /// # Errors
    /// [`Error::Gone`], [`Error::Denied`], as [`Process::open`]. A tier that does not work is no
    /// error.
    pub fn open(pid: i32) -> Result<Stalls> {
        Stalls::of(Process::open(pid)?)
    }

    /// Opens the signal of this process, all its threads. For code in somebody else's program, too: where
    /// system calls are filtered, only tiers that need no unusual ones are tried; no reading sleeps; and if
    /// the program closes a descriptor of this, major faults are read from then on ([`Stalls::tier`] says
    /// so).
    ///
    /// # Errors
    /// As [`Stalls::open`].
    pub fn own() -> Result<Stalls> {
        Stalls::own_if(sandbox::is_filtered())
    }

    fn own_if(is_filtered: bool) -> Result<Stalls> {
        Stalls::first_of(Process::own()?, &Tier::ALL, |tier| {
            tier.is_usual() || !is_filtered
        })
    }

    /// Opens the signal of a process that is held already.
    ///
    /// # Errors
    /// As [`Stalls::open`].
    pub fn of(process: Process) -> Result<Stalls> {
        Stalls::among(process, &Tier::ALL)
    }

    /// As [`Stalls::of`], with these tiers only, in this order; for tests and measurements.
    ///
    /// # Errors
    /// As [`Stalls::open`]; [`Error::Argument`] if none of them works.
    pub fn among(process: Process, tiers: &[Tier]) -> Result<Stalls> {
        Stalls::first_of(process, tiers, |_| true)
    }

    /// Opens the first of these tiers that may be tried and works.
    fn first_of(
        process: Process,
        tiers: &[Tier],
        may_be_tried: impl Fn(Tier) -> bool,
    ) -> Result<Stalls> {
        let pid = process.pid();
        // One more may come, within a reading, which allocates nothing.
        let mut declined = Vec::with_capacity(tiers.len() + 1);
        let mut lesser = Vec::from(tiers).into_iter();
        let opened = open_first(&process, &mut lesser, may_be_tried, &mut declined)?;
        let (tier, source) = opened.ok_or(Error::Argument {
            what: "stall signal",
            why: "none of the tiers that were asked for works here",
        })?;
        Ok(Stalls {
            pid,
            process: (pid != own_pid()).then_some(process),
            source,
            tier,
            declined,
            lesser,
            failed: 0,
        })
    }

    /// The tier in use.
    pub fn tier(&self) -> Tier {
        self.tier
    }

    /// The better tiers that do not work here, and why: each a sentence for a person.
    pub fn declined(&self) -> &[(Tier, Declined)] {
        &self.declined
    }

    /// How long the threads had waited for memory to come back that had been taken from the process, as of
    /// the latest reading: no allocation stalls, but time that a smaller heap may save. Known with
    /// [`Tier::DelayAccounting`]. With other tiers this is 0; the time of [`Tier::Pressure`] has it in it.
    pub fn returning(&self) -> Nanos {
        match &self.source {
            Source::Delays(delays) => delays.returning(),
            _ => Nanos::ZERO,
        }
    }

    /// The stalls so far. See [`Tier`] for what they are, and [`Stalled`] for where they begin.
    ///
    /// # Errors
    /// [`Error::Gone`] when the process has exited; otherwise why it could not be read, this time or by any
    /// tier.
    pub fn read(&mut self) -> Result<Stalled> {
        self.look_after();
        let read = self.read_source();
        // A zombie still has counters, and another process may have got the number.
        if !self.process.as_ref().is_none_or(Process::alive) {
            return Err(Error::Gone { pid: self.pid });
        }
        match read {
            Ok(stalled) => {
                self.failed = 0;
                Ok(stalled)
            }
            Err(why) => {
                self.failed += 1;
                if may_pass(&why) && self.failed < MAX_FAILED {
                    Err(why)
                } else {
                    self.fall(why)
                }
            }
        }
    }

    fn read_source(&mut self) -> Result<Stalled> {
        let other = self.process.as_ref();
        match &mut self.source {
            Source::Delays(delays) => delays.read(self.pid, other.map(|_| PAUSE)),
            Source::Reclaim(timed) => timed.read(),
            Source::ReclaimCount(counted) => counted.read(),
            Source::Pressure(group) => group.read(),
            Source::Faults => match other {
                Some(other) => other.faults().map(|faults| stalls_of_faults(faults.major)),
                None => own_major_faults().map(stalls_of_faults),
            },
            #[cfg(test)]
            Source::MadeUp(readings) => readings.next().unwrap_or(Ok(Stalled::default())),
        }
    }

    /// Takes the next tier that opens, and reads it: this one stopped working. Without another one it stays.
    fn fall(&mut self, why: Error) -> Result<Stalled> {
        self.failed = 0;
        let told = self.declined.len();
        let (lesser, declined) = (&mut self.lesser, &mut self.declined);
        let opened = match &self.process {
            Some(other) => open_first(other, lesser, |_| true, declined),
            // A filter may have been set since the start, so the signal is asked again.
            None => Process::own().and_then(|own| {
                let may_be_tried = |tier: Tier| tier.is_usual() || !sandbox::is_filtered();
                open_first(&own, lesser, may_be_tried, declined)
            }),
        };
        let Ok(Some((tier, source))) = opened else {
            return Err(why);
        };
        self.declined
            .insert(told, (self.tier, Declined::Kernel(why)));
        self.tier = tier;
        let ended = std::mem::replace(&mut self.source, source);
        if self.process.is_none() && !ended.is_ours() {
            // The program closed it meanwhile: as in `lose`.
            std::mem::forget(ended);
        }
        self.read_source()
    }

    /// Leaves descriptors that the program has closed.
    fn look_after(&mut self) {
        if self.process.is_none() && !self.source.is_ours() {
            self.lose();
        }
    }

    /// The program closed what this is read by. Its major faults need no descriptor.
    fn lose(&mut self) {
        // Not dropped: the numbers may be descriptors of the program's by now.
        std::mem::forget(std::mem::replace(&mut self.source, Source::Faults));
        self.declined.push((self.tier, Declined::Closed));
        self.tier = Tier::MajorFaults;
        self.lesser = Vec::new().into_iter();
    }
}

impl Drop for Stalls {
    fn drop(&mut self) {
        self.look_after();
    }
}

/// Opens the first of these tiers that may be tried and works; takes it and those before it off them, and
/// notes why these were passed over.
fn open_first(
    process: &Process,
    tiers: &mut std::vec::IntoIter<Tier>,
    may_be_tried: impl Fn(Tier) -> bool,
    declined: &mut Vec<(Tier, Declined)>,
) -> Result<Option<(Tier, Source)>> {
    for tier in tiers {
        let opened = if may_be_tried(tier) {
            Source::open(tier, process)
        } else {
            Err(Declined::Filtered)
        };
        match opened {
            // Not every tier notices by itself.
            Ok(_) if !process.alive() => return Err(Error::Gone { pid: process.pid() }),
            Ok(source) => return Ok(Some((tier, source))),
            Err(Declined::Kernel(e)) if e.is_gone() => return Err(e),
            Err(why) => declined.push((tier, why)),
        }
    }
    Ok(None)
}

/// Whether a reading that failed like this may work the next time.
fn may_pass(why: &Error) -> bool {
    match why {
        Error::Absent { .. }
        | Error::Denied { .. }
        | Error::Unsupported { .. }
        | Error::NotPermitted { .. } => false,
        Error::Io { source, .. } | Error::Call { source, .. } => !matches!(
            source.raw_os_error(),
            Some(libc::EPERM | libc::EACCES | libc::EBADF | libc::ENODEV | libc::ENXIO)
        ),
        Error::Gone { .. }
        | Error::Broken { .. }
        | Error::Busy { .. }
        | Error::Missed { .. }
        | Error::Argument { .. } => true,
    }
}

fn stalls_of_faults(major: u64) -> Stalled {
    Stalled {
        count: major,
        time: Nanos::ZERO,
    }
}

/// Major faults of all threads of this process, by a call that opens nothing.
fn own_major_faults() -> Result<u64> {
    // SAFETY: plain old data, filled in by getrusage.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is valid for writing.
    match unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) } {
        0 => Ok(u64::try_from(usage.ru_majflt).unwrap_or(0)),
        _ => Err(Error::Call {
            call: "getrusage",
            pid: own_pid(),
            source: std::io::Error::last_os_error(),
        }),
    }
}

fn own_pid() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

impl Source {
    /// Whether the descriptors by which it is read are still ours.
    fn is_ours(&self) -> bool {
        match self {
            Source::Delays(delays) => delays.is_ours(),
            Source::Reclaim(timed) => timed.is_ours(),
            Source::ReclaimCount(counted) => counted.is_ours(),
            Source::Pressure(group) => group.is_ours(),
            Source::Faults => true,
            #[cfg(test)]
            Source::MadeUp(_) => true,
        }
    }

    #[cfg(test)]
    fn numbers(&self) -> Vec<std::os::fd::RawFd> {
        match self {
            Source::Delays(delays) => delays.numbers(),
            Source::Reclaim(timed) => timed.numbers(),
            Source::ReclaimCount(counted) => counted.numbers(),
            Source::Pressure(group) => group.numbers(),
            Source::Faults | Source::MadeUp(_) => Vec::new(),
        }
    }

    fn open(tier: Tier, process: &Process) -> std::result::Result<Source, Declined> {
        match tier {
            Tier::DelayAccounting => Delays::open(process).map(Source::Delays),
            Tier::Reclaim => Timed::open(process).map(Source::Reclaim),
            Tier::ReclaimCount => Counted::open(process).map(Source::ReclaimCount),
            Tier::Pressure => cgroup_psi::open(process).map(Source::Pressure),
            Tier::MajorFaults => {
                process.faults()?;
                Ok(Source::Faults)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pressure::{MACHINE, Psi};
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
    use std::os::unix::net::UnixStream;
    use std::path::Path;

    #[test]
    fn where_calls_are_filtered_no_unusual_one_is_tried() {
        let stalls = Stalls::own_if(true).unwrap();
        assert!(stalls.tier().is_usual());
        for (tier, why) in stalls.declined() {
            let is_filtered = matches!(why, Declined::Filtered);
            assert_eq!(is_filtered, !tier.is_usual(), "{tier:?}: {why}");
        }
    }

    /// Whether anything came through a socket.
    fn got_anything(socket: &UnixStream) -> bool {
        let mut byte = [0];
        rustix::net::recv(socket, &mut byte, rustix::net::RecvFlags::DONTWAIT).is_ok()
    }

    /// Each tier that has descriptors: all of them become sockets of the program.
    #[test]
    fn a_descriptor_that_the_program_closed_is_not_used_again() {
        for tier in [Tier::DelayAccounting, Tier::Reclaim, Tier::ReclaimCount] {
            for reads in [true, false] {
                let process = Process::own().unwrap();
                loses(
                    Stalls::among(process, &[tier, Tier::MajorFaults]).unwrap(),
                    reads,
                );
            }
        }
        for reads in [true, false] {
            // Wherever this runs there is the machine's file, but not a group's.
            let Ok(psi) = Psi::open(Path::new(MACHINE)) else {
                return;
            };
            loses(by_pressure(psi), reads);
        }
    }

    fn by_pressure(psi: Psi) -> Stalls {
        Stalls {
            pid: own_pid(),
            process: None,
            source: Source::Pressure(Group::of(psi)),
            tier: Tier::Pressure,
            declined: Vec::new(),
            lesser: Vec::new().into_iter(),
            failed: 0,
        }
    }

    /// Delay accounting of our own process that reads like this, before these tiers.
    fn made_up(readings: Vec<Result<Stalled>>, lesser: &[Tier]) -> Stalls {
        Stalls {
            pid: own_pid(),
            process: None,
            source: Source::MadeUp(readings.into_iter()),
            tier: Tier::DelayAccounting,
            declined: Vec::new(),
            lesser: Vec::from(lesser).into_iter(),
            failed: 0,
        }
    }

    fn failed_with(errno: i32) -> Result<Stalled> {
        Err(Error::Call {
            call: "test",
            pid: 1,
            source: std::io::Error::from_raw_os_error(errno),
        })
    }

    fn refused() -> Result<Stalled> {
        Err(Error::NotPermitted {
            call: "taskstats",
            pid: 1,
            needs: "CAP_NET_ADMIN",
        })
    }

    #[test]
    fn a_tier_that_fails_for_good_is_given_up_for_the_next_one_that_opens() {
        for (error, says) in [
            (refused(), "CAP_NET_ADMIN"),
            (failed_with(libc::ENODEV), "device"),
            (failed_with(libc::EBADF), "descriptor"),
        ] {
            let mut stalls = made_up(vec![Ok(Stalled::default()), error], &Tier::ALL[1..]);
            stalls.read().unwrap();
            assert_eq!(stalls.tier(), Tier::DelayAccounting);
            stalls.read().unwrap();
            assert!(stalls.tier() > Tier::DelayAccounting);
            let (lost, why) = &stalls.declined()[0];
            assert_eq!(*lost, Tier::DelayAccounting);
            assert!(why.to_string().contains(says), "{why}");
            let between = stalls.declined()[1..].iter().map(|(tier, _)| *tier);
            let passed = Tier::ALL[1..].iter().filter(|&&tier| tier < stalls.tier());
            assert!(between.eq(passed.copied()), "{:?}", stalls.declined());
            stalls.read().unwrap();
        }
    }

    #[test]
    fn what_may_pass_ends_a_tier_only_if_it_comes_several_times_in_a_row() {
        let fails = |times: u32| (0..times).map(|_| failed_with(libc::EAGAIN));
        let mut readings: Vec<_> = fails(MAX_FAILED - 1).collect();
        readings.push(Ok(Stalled::default()));
        readings.extend(fails(MAX_FAILED));
        let count = readings.len();
        let mut stalls = made_up(readings, &[Tier::MajorFaults]);
        for _ in 1..count {
            let _ = stalls.read();
            assert_eq!(stalls.tier(), Tier::DelayAccounting);
        }
        stalls.read().unwrap();
        assert_eq!(stalls.tier(), Tier::MajorFaults);
        assert_eq!(stalls.declined().len(), 1);
    }

    #[test]
    fn the_last_tier_stays_and_says_why_it_fails() {
        let mut stalls = made_up(vec![refused(), refused()], &[]);
        for _ in 0..2 {
            assert!(matches!(stalls.read(), Err(Error::NotPermitted { .. })));
        }
        assert!(stalls.declined().is_empty());
        assert_eq!(stalls.tier(), Tier::DelayAccounting);
        stalls.read().unwrap();
    }

    /// Rights belong to threads: only the one of this test gives its own up.
    #[test]
    fn a_right_that_is_given_up_is_no_end_of_the_signal() {
        let fell = std::thread::spawn(|| {
            let mut stalls = Stalls::own().unwrap();
            let tier = stalls.tier();
            let mut held = rustix::thread::capabilities(None).unwrap();
            held.effective = rustix::thread::CapabilitySet::empty();
            rustix::thread::set_capabilities(None, held).unwrap();
            stalls.read().unwrap();
            (tier, stalls.tier())
        });
        let (before, after) = fell.join().unwrap();
        assert!(before != Tier::DelayAccounting || after > before);
    }

    #[test]
    fn what_is_read_of_our_own_process_keeps_no_descriptor_but_the_sources() {
        let own = Stalls::own().unwrap();
        assert!(own.process.is_none());
        let faults = Stalls::among(Process::own().unwrap(), &[Tier::MajorFaults]).unwrap();
        assert!(faults.process.is_none() && faults.source.numbers().is_empty());
        let mut other = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let stalls = Stalls::among(
            Process::open(other.id() as i32).unwrap(),
            &[Tier::MajorFaults],
        );
        let is_held = stalls.unwrap().process.is_some();
        other.kill().unwrap();
        other.wait().unwrap();
        assert!(is_held, "its number may become another's");
    }

    fn loses(mut stalls: Stalls, reads: bool) {
        let (tier, numbers) = (stalls.tier(), stalls.source.numbers());
        if numbers.is_empty() {
            return;
        }
        let (ours, theirs) = UnixStream::pair().unwrap();
        for &number in &numbers {
            // SAFETY: a descriptor of `stalls`, which it does not use after this. The test is about that.
            let made = unsafe { libc::dup2(ours.as_raw_fd(), number) };
            assert_eq!(made, number);
        }
        if reads {
            stalls.read().unwrap();
            assert_eq!(stalls.tier(), Tier::MajorFaults);
            let last = stalls.declined().last();
            assert!(matches!(last, Some((lost, Declined::Closed)) if *lost == tier));
        }
        drop(stalls);
        assert!(!got_anything(&theirs), "nothing was sent to the program");
        for number in numbers {
            // SAFETY: made above, and closed by nobody else: each is open still, or this fails.
            let socket = unsafe { OwnedFd::from_raw_fd(number) };
            rustix::io::write(&socket, b"x").unwrap();
            assert!(got_anything(&theirs), "it still has its connection");
        }
    }
}
