//! Simulated programs: their demand, reactions and faults.

use crate::kernel::Memory;
use crate::random::Random;
use plimsoll_unit::{MIB, MILLISECOND, SECOND};
use plimsoll_wire::messages::{Id, Report, Statistics};
use plimsoll_wire::page::Numbers;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nature {
    /// Reports, stays within its limit, gives back in time.
    Adaptive,
    /// Like `Adaptive`, with demand that comes and goes.
    Bursty,
    /// Adaptive, but slower than it reports.
    Slow,
    /// Passive: takes what it wants and keeps it.
    Static,
    /// Passive: grows for ever.
    Greedy,
    /// Claims to adapt, reports nonsense, gives nothing back.
    Lying,
    /// Adaptive until it exits; the broker notices late.
    Dying,
    /// Leaves and joins repeatedly.
    Flapping,
    /// Has no process, and asks for everything.
    Hollow,
}

/// The place that a program asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// Index of its group in the world.
    pub(crate) group: Option<usize>,
    /// Index of its user, where there are several users.
    pub(crate) user: usize,
    pub(crate) weight: u32,
    pub(crate) priority: i32,
    pub(crate) max: Option<u64>,
}

/// The numbers that a program was told, and how it answers them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answering {
    /// Its page.
    pub(crate) page: Numbers,
    /// Time from a wake-up to giving memory back, nanoseconds.
    pub(crate) reaction: u64,
    /// Time when it will answer a known debt.
    at: Option<u64>,
}

#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) nature: Nature,
    pub(crate) id: Option<Id>,
    pub(crate) place: Place,
    pub(crate) memory: Memory,
    /// Live bytes; it cannot shrink below this.
    pub(crate) live: u64,
    /// Bytes up to which it grows.
    pub(crate) want: u64,
    /// Its fastest growth, bytes per second.
    pub(crate) rate: u64,
    pub(crate) answering: Answering,
    /// Reaction time that it reports, nanoseconds.
    pub(crate) told_reaction: u64,
    /// Time when it next joins, exits, or changes its demand.
    pub(crate) turn_at: u64,
    pub(crate) alive: bool,
    /// When it reported last; `None` if it has not since the clock jumped.
    pub(crate) reported_at: Option<u64>,
    /// Allocation stalls within its limit that it tells of; `None` where it counts none.
    pub(crate) stalls: Option<u64>,
}

impl Program {
    pub(crate) fn new(nature: Nature, scale: u64, random: &mut Random) -> Program {
        let live = random.between(scale / 16, scale / 2).max(MIB);
        let reaction = match nature {
            Nature::Slow => random.between(1_000, 8_000) * MILLISECOND,
            _ => random.between(5, 300) * MILLISECOND,
        };
        Program {
            nature,
            id: None,
            place: Place {
                group: None,
                user: 0,
                weight: random.pick(&[1, 10, 20, 40, 100, 100, 100, 500, 10_000]),
                priority: random.pick(&[0, 0, 0, 0, 0, 0, -10, 5]),
                max: random
                    .one_in_thousand(80)
                    .then(|| random.between(scale / 2, scale * 2)),
            },
            memory: Memory::new(),
            live,
            want: live + random.between(0, scale * 2),
            rate: random.between(1, 400) * MIB,
            answering: Answering {
                page: Numbers::default(),
                reaction,
                at: None,
            },
            told_reaction: if nature == Nature::Slow {
                300 * MILLISECOND
            } else {
                reaction * 3 / 2
            },
            turn_at: 0,
            alive: false,
            reported_at: None,
            stalls: random.one_in_thousand(300).then_some(0),
        }
    }

    pub(crate) fn is_adaptive(&self) -> bool {
        !matches!(self.nature, Nature::Static | Nature::Greedy)
    }

    /// Whether it keeps to its limit and gives back in time.
    pub(crate) fn behaves(&self) -> bool {
        matches!(self.nature, Nature::Adaptive | Nature::Bursty)
    }

    /// Its current report.
    pub(crate) fn report(&self, id: Id, random: &mut Random) -> Report {
        let reaction_ms = Some(self.told_reaction / MILLISECOND);
        match self.nature {
            Nature::Lying | Nature::Hollow => Report {
                id,
                live: Some(random.next() >> random.between(0, 63)),
                allocation_rate: Some(random.next() >> random.between(0, 63)),
                collection_speed: Some(random.next() >> random.between(0, 63)),
                demand: Some(random.next() >> random.between(0, 40)),
                floor: Some(random.next() >> random.between(0, 63)),
                reaction_ms: Some(random.next() >> random.between(0, 63)),
                collections: Some(random.next()),
                collection_ms: Some(random.next()),
                stalls: Some(random.next()),
                worth: Some(random.next() >> random.between(0, 63)),
                collector: Some(Statistics {
                    heap: Some(random.next()),
                    longest_pause_us: Some(random.next()),
                    retained: Some(random.next()),
                    ..Statistics::default()
                }),
            },
            Nature::Bursty => Report {
                id,
                demand: Some(self.want),
                floor: Some(self.live),
                reaction_ms,
                stalls: self.stalls,
                ..Report::default()
            },
            _ if self.place.weight.is_multiple_of(20) => Report {
                id,
                live: Some(self.live),
                allocation_rate: Some(self.rate),
                collection_speed: Some(1 << 30),
                demand: Some(self.want),
                floor: Some(self.live),
                reaction_ms,
                stalls: self.stalls,
                ..Report::default()
            },
            _ => Report {
                id,
                demand: Some(self.want),
                floor: Some(self.live),
                reaction_ms,
                stalls: self.stalls,
                ..Report::default()
            },
        }
    }

    /// Bytes that it allocates (positive) or frees in the `passed` nanoseconds up to `now`.
    pub(crate) fn step(&mut self, now: u64, passed: u64, broker_gone: bool) -> i64 {
        let most = (u128::from(self.rate) * u128::from(passed) / u128::from(SECOND)) as u64;
        let total = self.memory.total();
        match self.nature {
            Nature::Hollow => 0,
            Nature::Static | Nature::Greedy | Nature::Lying => {
                self.want.saturating_sub(total).min(most) as i64
            }
            _ => {
                let limit = if self.id.is_some() {
                    self.answering.page.limit
                } else {
                    self.live
                };
                if total > self.want.max(self.live) {
                    return -((total - self.want.max(self.live)) as i64);
                }
                if self.answering.is_due(now) {
                    return -(total.saturating_sub(limit.max(self.live)) as i64);
                }
                let up_to = if broker_gone {
                    total
                } else {
                    self.want.min(limit).max(self.live.min(total))
                };
                up_to.saturating_sub(total).min(most) as i64
            }
        }
    }
}

impl Answering {
    /// Whether the time has come to give back what is owed.
    fn is_due(&mut self, now: u64) -> bool {
        if self.page.owed == 0 {
            self.at = None;
            return false;
        }
        // A program that missed the wake-up sees the page at its next look.
        let at = *self
            .at
            .get_or_insert(now + 100 * MILLISECOND + self.reaction);
        if now >= at {
            self.at = None;
        }
        now >= at
    }

    /// A wake-up arrived.
    pub(crate) fn hear(&mut self, now: u64) {
        if self.page.owed > 0 && self.at.is_none() {
            self.at = Some(now + self.reaction);
        }
    }
}
