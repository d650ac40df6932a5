//! Whether a program works, judged by its processor time. The absence of collections would tell
//! much later.

use super::observation::Seen;
use plimsoll_unit::Nanos;

/// The window over which processor time is measured.
const WINDOW: Nanos = Nanos::millis(400);
/// A resting virtual machine uses up to this part of a processor.
const RESTING: f64 = 0.02;
/// Use above this part of a processor is noticed before the window is over.
const AWAKE: f64 = 0.2;
/// After this much processor time an older measurement of allocation counts half as much, seconds.
const MEMORY: f64 = 1.0;
/// Up to this many major faults in a window mean nothing: our own looks cause some.
const FEW: u64 = 8;

/// How much a program works.
#[derive(Debug, Default)]
pub(super) struct Activity {
    /// When the current window began.
    since: Option<Mark>,
    /// The part of a processor that was used in each of the last three windows, newest first. Three
    /// are kept so that a short rest does not count as one.
    parts: [Option<f64>; 3],
    /// Bytes allocated, and the seconds of processor time in which they were; older ones count less.
    allocated: (f64, f64),
    /// The processor time when allocation was last counted.
    counted_at: Nanos,
    /// Since when it has been resting; `None` while it works.
    pub(super) rests_since: Option<Nanos>,
}

/// The counters at one time.
#[derive(Clone, Copy, Debug)]
struct Mark {
    /// Wall-clock time less the time of requested commands: a program that is stopped
    /// for a requested collection does not rest.
    own: Nanos,
    /// Processor time of the process so far.
    processor: Nanos,
    /// Major faults of the process so far.
    major_faults: u64,
}

impl Activity {
    /// Takes in one moment.
    pub(super) fn look(&mut self, seen: &Seen) {
        self.measure(seen);
        let since = self.rests_since.unwrap_or(seen.now);
        self.rests_since = self.rests().then_some(since);
    }

    fn measure(&mut self, seen: &Seen) {
        let mark = Mark {
            own: seen.now - seen.asked,
            processor: seen.processor,
            major_faults: seen.major_faults,
        };
        let Some(began) = self.since.filter(|_| seen.processor > Nanos::ZERO) else {
            (self.since, self.counted_at) = (Some(mark), seen.processor);
            return;
        };
        let passed = mark.own - began.own;
        let part = began.part_until(&mark);
        if passed >= WINDOW {
            self.parts.rotate_right(1);
            self.parts[0] = Some(part);
            self.since = Some(mark);
        } else if passed >= WINDOW / 4 && part > AWAKE {
            self.parts[0] = Some(part);
        }
    }

    /// Notes that the program allocated `bytes` since the last call. A collection tells only what was
    /// allocated before it, so a single value may be far from the mean.
    pub(super) fn allocated(&mut self, bytes: f64, seen: &Seen) {
        let seconds = (seen.processor - self.counted_at).duration().as_secs_f64();
        let kept = MEMORY / (MEMORY + seconds);
        self.allocated = (
            self.allocated.0 * kept + bytes,
            self.allocated.1 * kept + seconds,
        );
        self.skip(seen);
    }

    /// Leaves out the processor time since the last call: it is not known how much was allocated in it.
    pub(super) fn skip(&mut self, seen: &Seen) {
        self.counted_at = seen.processor;
    }

    /// Bytes allocated per second of processor time; `None` until known.
    fn per_processor(&self) -> Option<f64> {
        let (bytes, seconds) = self.allocated;
        (bytes > 0.0 && seconds > 0.0).then(|| bytes / seconds)
    }

    /// The part of a processor used beyond that of a resting machine; `None` until all three
    /// windows are measured.
    fn part(&self) -> Option<f64> {
        let most = |most: f64, part: &Option<f64>| Some(most.max((*part)?));
        let most = self.parts.iter().try_fold(0.0, most)?;
        Some((most - RESTING).max(0.0))
    }

    /// Whether the program has not worked for about a second.
    pub(super) fn rests(&self) -> bool {
        self.part() == Some(0.0)
    }

    /// The allocation rate at the present level of activity, bytes per second; `None` until it is
    /// known. Collections tell the rate too, but much later when a program begins or stops working.
    pub(super) fn rate(&self) -> Option<f64> {
        if self.part()? == 0.0 {
            return Some(0.0);
        }
        let [now, before, long_before] = self.parts.map(|part| part.unwrap_or(0.0));
        let lately = now.max(before);
        // A program that works little does so in bursts, so average over more windows.
        let part = if lately > AWAKE {
            lately
        } else {
            (lately + long_before) / 2.0
        };
        match part {
            0.0 => Some(0.0),
            part => Some(part * self.per_processor()?),
        }
    }
}

impl Mark {
    /// The part of a processor that was used until `later`. A program that waits for the disk
    /// counts as using a whole processor, because a program that lacks memory does not rest.
    fn part_until(&self, later: &Mark) -> f64 {
        let passed = (later.own - self.own).max(Nanos(1));
        match later.major_faults.saturating_sub(self.major_faults) {
            0..=FEW => (later.processor - self.processor).0 as f64 / passed.0 as f64,
            _ => 1.0,
        }
    }
}
