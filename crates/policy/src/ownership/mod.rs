//! Shared memory is charged to one principal at a time, and the owner rotates by measured access
//! frequency (Walfield 3.3, 4.3 and 5.4). The charge exists only in the broker's accounts: the
//! kernel charges a shared page to the process that touched it first and cannot move the charge.
//!
//! # Glossary
//! - *segment*: memory that several principals map, identified by the caller's number.
//! - *mapper*: a principal that maps a segment.
//! - *epoch*: the reference bits are cleared, the *wait* passes, and the bits are read; a *pause*
//!   follows. Both lengths are random, so that no program can time its accesses around them.
//! - *touched part* (p): the part of a segment whose reference bits a mapper set in an epoch.
//! - *rate*: a mapper's accesses to a page per second: `-ln(1 - p) / wait`.
//! - *portion*: a mapper's rate over the sum of all mappers' rates, smoothed over epochs.
//! - *owner*: the principal charged for the segment in this epoch, drawn with the portions as
//!   probabilities. One principal pays in each epoch; over many epochs each pays its portion.
//!
//! # How it is used, and its bounds
//! In each epoch the caller clears the reference bits of the mappers and sleeps [`Epoch::wait`].
//! Then it reads how much of each segment each mapper referenced, and passes that to
//! [`Ownership::measured`] with a random number that the programs cannot know. Then it sleeps
//! [`Epoch::pause`]. With independent accesses a page stays untouched for time d with probability
//! exp(-rate x d), so the rate is -ln(1 - p) / d. One access to a page in an epoch looks the same
//! as many in a burst; keep p below 0.8, which the nominal wait does by itself. Both lengths vary
//! by 25 % each way, so epochs drift against any fixed beat: accesses at chosen times are seen as
//! often as accesses at random times.

pub mod files;

use plimsoll_unit::{Bytes, Nanos};

/// Measurement of one mapper of a segment in one epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The mapper.
    pub principal: u64,
    /// Memory whose reference bit was set at the end of the epoch.
    pub referenced: Bytes,
    /// Time between clearing and reading the bits.
    pub waited: Nanos,
}

/// Charge of one mapper for a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Portion {
    /// The mapper.
    pub principal: u64,
    /// Accesses to a page per second, smoothed.
    pub rate: f64,
    /// Part of the segment that it pays in the long run, 0 to 1.
    pub fraction: f64,
    /// Number of epochs behind the rate, at most 32.
    pub epochs: u32,
}

/// When to measure next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Epoch {
    /// Between clearing the reference bits and reading them.
    pub wait: Nanos,
    /// Between reading them and clearing them again.
    pub pause: Nanos,
}

/// Capacity of a table and times of its measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Most segments.
    pub segments: usize,
    /// Most mappers of one segment; further ones are not charged for it.
    pub mappers: usize,
    /// Shortest nominal wait.
    pub shortest: Nanos,
    /// Longest nominal wait.
    pub longest: Nanos,
    /// Ratio of the length of pauses to that of waits.
    pub rest: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            segments: 256,
            mappers: 32,
            shortest: Nanos::millis(50),
            longest: Nanos::seconds(2),
            rest: 9,
        }
    }
}

/// Number of epochs over which a rate is a plain mean; afterwards it is smoothed over as many.
/// Fewer would favour a mapper with rare bursts: its portion falls further between bursts than it
/// rises in them.
const MEMORY: u32 = 32;
/// A segment with a larger touched part in an epoch is saturated: its nominal wait is halved.
const SATURATED: f64 = 0.8;
/// A segment with a smaller touched part shows little: its nominal wait grows by a quarter.
const SPARSE: f64 = 0.2;

/// One segment. Its portions stand in the table, `mappers` places per segment.
#[derive(Clone, Copy, Debug)]
struct Segment {
    id: u64,
    size: Bytes,
    owner: Option<u64>,
    mappers: usize,
    /// Nominal wait.
    wait: Nanos,
}

/// The accounts of all shared segments.
#[derive(Debug)]
pub struct Ownership {
    settings: Settings,
    slots: Vec<Option<Segment>>,
    portions: Vec<Portion>,
}

impl Ownership {
    /// Empty accounts; allocates all memory here.
    pub fn new(settings: Settings) -> Ownership {
        let places = settings.segments.saturating_mul(settings.mappers);
        Ownership {
            settings,
            slots: vec![None; settings.segments],
            portions: vec![Portion::default(); places],
        }
    }

    /// Adds the measurements of an epoch for a segment of this `size`: one sample per mapper; a
    /// mapper without a sample has left. Draws the owner with the random number `draw`. Returns
    /// `None` when nobody maps the segment, its size is 0, or the table is full.
    pub fn measured(
        &mut self,
        segment: u64,
        size: Bytes,
        samples: &[Sample],
        draw: u64,
    ) -> Option<u64> {
        if samples.is_empty() || size == Bytes::ZERO {
            self.remove_segment(segment);
            return None;
        }
        let slot = self.claim(segment)?;
        let mut known = self.slots[slot]?;
        let places = self.places(slot);
        let portions = &mut self.portions[places];
        known.size = size;
        known.mappers = take_in(portions, known.mappers, size, samples);
        let portions = &mut portions[..known.mappers];
        divide(portions);
        known.owner = drawn(portions, draw);
        known.wait = self.paced(known.wait, size, samples);
        self.slots[slot] = Some(known);
        known.owner
    }

    /// Long-term portions of the mappers of a segment; empty when the segment is unknown.
    pub fn portions(&self, segment: u64) -> &[Portion] {
        match self.find(segment) {
            Some((slot, known)) => &self.portions[self.places(slot)][..known.mappers],
            None => &[],
        }
    }

    /// Current owner of a segment.
    pub fn owner(&self, segment: u64) -> Option<u64> {
        self.find(segment).and_then(|(_, known)| known.owner)
    }

    /// Memory charged to a principal now, over all segments.
    pub fn charged(&self, principal: u64) -> Bytes {
        let owned = self
            .slots
            .iter()
            .flatten()
            .filter(|s| s.owner == Some(principal));
        owned.map(|s| s.size).sum()
    }

    /// Removes a segment.
    pub fn remove_segment(&mut self, segment: u64) {
        if let Some((slot, _)) = self.find(segment) {
            self.slots[slot] = None;
        }
    }

    /// Lengths of the next epoch, drawn with a random number: 0.75 to 1.25 of the nominal lengths.
    /// The nominal wait is that of the segment that saturates first. It shrinks when a segment
    /// saturates and grows when hardly anything is touched.
    pub fn next_epoch(&self, draw: u64) -> Epoch {
        let shortest = self.slots.iter().flatten().map(|s| s.wait).min();
        let wait = shortest
            .unwrap_or(self.settings.longest)
            .min(self.settings.longest);
        let pause = wait * u64::from(self.settings.rest);
        Epoch {
            wait: spread(wait, (draw >> 32) as u32),
            pause: spread(pause, draw as u32),
        }
    }

    fn places(&self, slot: usize) -> std::ops::Range<usize> {
        slot * self.settings.mappers..(slot + 1) * self.settings.mappers
    }

    fn find(&self, segment: u64) -> Option<(usize, Segment)> {
        let named =
            |(i, s): (usize, &Option<Segment>)| s.filter(|s| s.id == segment).map(|s| (i, s));
        self.slots.iter().enumerate().find_map(named)
    }

    /// The slot of a segment; takes a free one for a new segment.
    fn claim(&mut self, segment: u64) -> Option<usize> {
        if let Some((slot, _)) = self.find(segment) {
            return Some(slot);
        }
        let slot = self.slots.iter().position(Option::is_none)?;
        let wait = self.settings.longest;
        self.slots[slot] = Some(Segment {
            id: segment,
            size: Bytes::ZERO,
            owner: None,
            mappers: 0,
            wait,
        });
        Some(slot)
    }

    /// The nominal wait after an epoch: the busiest mapper decides.
    fn paced(&self, wait: Nanos, size: Bytes, samples: &[Sample]) -> Nanos {
        let busiest = samples
            .iter()
            .map(|s| s.referenced.min(size))
            .max()
            .unwrap_or_default();
        let touched = busiest.0 as f64 / size.0 as f64;
        let next = match touched {
            t if t > SATURATED => wait / 2,
            t if t < SPARSE => wait + wait / 4,
            _ => wait,
        };
        next.max(self.settings.shortest)
            .min(self.settings.longest.max(self.settings.shortest))
    }
}

/// Accesses to a page per second, from one epoch. A fully touched segment could have any rate; it
/// counts as if half a page were untouched.
fn rate(sample: &Sample, size: Bytes) -> f64 {
    let pages = size.pages().0 as f64;
    let touched = (sample.referenced.min(size).0 as f64 / size.0 as f64).min(1.0 - 0.5 / pages);
    -(-touched).ln_1p() / (sample.waited.0 as f64 / 1e9)
}

/// Smooths the samples into the portions. Mappers that left are removed, new ones added while there
/// is room. Returns the number of mappers.
fn take_in(portions: &mut [Portion], mut mappers: usize, size: Bytes, samples: &[Sample]) -> usize {
    let mut at = 0;
    while at < mappers {
        if samples
            .iter()
            .any(|s| s.principal == portions[at].principal)
        {
            at += 1;
        } else {
            mappers -= 1;
            portions.swap(at, mappers);
        }
    }
    for sample in samples {
        let known = portions[..mappers]
            .iter()
            .position(|p| p.principal == sample.principal);
        match known {
            // A wait of zero measures nothing.
            Some(_) if sample.waited == Nanos::ZERO => {}
            Some(at) => {
                let portion = &mut portions[at];
                portion.epochs = (portion.epochs + 1).min(MEMORY);
                portion.rate += (rate(sample, size) - portion.rate) / f64::from(portion.epochs);
            }
            None if mappers < portions.len() => {
                let (rate, epochs) = if sample.waited == Nanos::ZERO {
                    (0.0, 0)
                } else {
                    (rate(sample, size), 1)
                };
                portions[mappers] = Portion {
                    principal: sample.principal,
                    rate,
                    fraction: 0.0,
                    epochs,
                };
                mappers += 1;
            }
            None => {}
        }
    }
    mappers
}

/// Turns rates into fractions; equal ones when nobody touches the segment, because somebody must
/// pay.
fn divide(portions: &mut [Portion]) {
    let sum: f64 = portions.iter().map(|p| p.rate).sum();
    let equal = 1.0 / portions.len() as f64;
    for portion in portions {
        portion.fraction = if sum > f64::MIN_POSITIVE {
            portion.rate / sum
        } else {
            equal
        };
    }
}

/// Draws a mapper with the fractions as probabilities.
fn drawn(portions: &[Portion], draw: u64) -> Option<u64> {
    let mut place = (draw >> 11) as f64 / (1u64 << 53) as f64;
    for portion in portions {
        if place < portion.fraction {
            return Some(portion.principal);
        }
        place -= portion.fraction;
    }
    // Because of rounding the fractions may sum to slightly less than 1; then the last one is
    // drawn.
    portions
        .iter()
        .rev()
        .find(|p| p.fraction > 0.0)
        .map(|p| p.principal)
}

/// 0.75 to 1.25 of a nominal length.
fn spread(nominal: Nanos, draw: u32) -> Nanos {
    let drawn = (u128::from(nominal.0) * (3 * (1u128 << 31) + u128::from(draw))) >> 33;
    Nanos(u64::try_from(drawn).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
