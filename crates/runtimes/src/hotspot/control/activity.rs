//! Whether a program works: told from its processor time, long before a collection that does not
//! come would tell.

use super::Seen;

/// Processor time is measured over so long, nanoseconds.
const WINDOW: u64 = 400_000_000;
/// A virtual machine that rests uses up to this part of a processor.
const RESTING: f64 = 0.02;
/// More than this part is noticed before a window is over.
const AWAKE: f64 = 0.2;
/// Major faults in a window that mean nothing: being looked at costs some.
const FEW: u64 = 8;

/// How much a program works.
#[derive(Debug, Default)]
pub(super) struct Activity {
    /// The moment at which the running window began.
    since: Option<Mark>,
    /// Parts of a processor, of the last three windows; a short rest is none.
    parts: [Option<f64>; 3],
    /// Bytes allocated per second of processor time.
    per_processor: f64,
    /// The processor time when what was allocated was counted last.
    counted_at: u64,
}

#[derive(Clone, Copy, Debug)]
struct Mark {
    /// The time without that of what was asked for: a program that is stopped for a collection does not rest.
    own_ns: u64,
    processor_ns: u64,
    major_faults: u64,
}

impl Activity {
    pub(super) fn look(&mut self, seen: &Seen) {
        let mark = Mark {
            own_ns: seen.now_ns.saturating_sub(seen.asked_ns),
            processor_ns: seen.processor_ns,
            major_faults: seen.major_faults,
        };
        let Some(began) = self.since.filter(|_| seen.processor_ns > 0) else {
            (self.since, self.counted_at) = (Some(mark), seen.processor_ns);
            return;
        };
        let passed = mark.own_ns.saturating_sub(began.own_ns);
        let part = began.part_until(&mark);
        if passed >= WINDOW {
            self.parts.rotate_right(1);
            self.parts[0] = Some(part);
            self.since = Some(mark);
        } else if passed >= WINDOW / 4 && part > AWAKE {
            self.parts[0] = Some(part);
        }
    }

    /// So many bytes were allocated since this was said last.
    pub(super) fn allocated(&mut self, bytes: f64, seen: &Seen) {
        let seconds = seen.processor_ns.saturating_sub(self.counted_at) as f64 / 1e9;
        self.counted_at = seen.processor_ns;
        if seconds > 0.0 {
            let new = bytes / seconds;
            self.per_processor = match self.per_processor {
                0.0 => new,
                old => old * 0.6 + new * 0.4,
            };
        }
    }

    /// Parts of a processor beyond what a resting machine uses; `None` until it was measured for long enough.
    fn part(&self) -> Option<f64> {
        let most = |most: f64, part: &Option<f64>| Some(most.max((*part)?));
        let most = self.parts.iter().try_fold(0.0, most)?;
        Some((most - RESTING).max(0.0))
    }

    /// It has not worked for a second.
    pub(super) fn rests(&self) -> bool {
        self.part() == Some(0.0)
    }

    /// Bytes per second that it allocates, working as much as it does now; `None` until that is
    /// known. Collections tell the same, but of a program that begins or ceases to work only long
    /// after.
    pub(super) fn rate(&self) -> Option<f64> {
        if self.part()? == 0.0 {
            return Some(0.0);
        }
        let [now, before, long_before] = self.parts.map(|part| part.unwrap_or(0.0));
        let lately = now.max(before);
        // A program that works a little works now and then.
        let part = match lately > AWAKE {
            true => lately,
            false => (lately + long_before) / 2.0,
        };
        match part {
            0.0 => Some(0.0),
            part if self.per_processor > 0.0 => Some(part * self.per_processor),
            _ => None,
        }
    }
}

impl Mark {
    /// The part of a processor that it used. One that waits for the disk counts as using a whole
    /// one: who lacks memory does not rest.
    fn part_until(&self, later: &Mark) -> f64 {
        let passed = later.own_ns.saturating_sub(self.own_ns).max(1);
        match later.major_faults.saturating_sub(self.major_faults) {
            0..=FEW => later.processor_ns.saturating_sub(self.processor_ns) as f64 / passed as f64,
            _ => 1.0,
        }
    }
}
