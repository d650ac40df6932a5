//! The common primitive: water-filling with weights, floors and caps.
//!
//! `fill` finds the level at which the sum of `clamp(level x weight, floor, cap)` equals the
//! amount, in exact integer arithmetic. It tries the level without floors and caps. Members
//! certainly held back there by their floor or cap are finished, and the others try again with the
//! rest. A few such passes are mostly enough. Otherwise it sorts the levels at which floors and
//! caps are reached, so the cost is never worse than O(k log k). Each member gets the whole bytes
//! of its part. The remainder, less than one byte each, is given to nobody, so that equal members
//! get the same at any position.

use std::cmp::Ordering;

/// Number of passes before the levels are sorted.
const PASSES: usize = 16;

/// A competitor. Floors, caps and results are bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    /// Index of its node.
    pub(super) node: u32,
    weight: u64,
    floor: u64,
    cap: u64,
    /// Bytes that it got.
    pub(super) got: u64,
}

impl Item {
    /// Whether its floor is above its part at the level `left / weight`.
    fn is_lifted(&self, left: u64, weight: u64) -> bool {
        product(self.floor, weight) > product(left, self.weight)
    }
    /// Whether its cap is below its part at the level `left / weight`.
    fn is_capped(&self, left: u64, weight: u64) -> bool {
        product(self.cap, weight) < product(left, self.weight)
    }
}

fn product(a: u64, b: u64) -> u128 {
    u128::from(a) * u128::from(b)
}

/// `amount x weight / weights`, rounded down, for a `weight` of at most `weights`.
pub(super) fn part(amount: u64, weight: u64, weights: u64) -> u64 {
    match amount.checked_mul(weight) {
        Some(small) => small / weights,
        None => (product(amount, weight) / u128::from(weights)) as u64,
    }
}

/// Members held back at a level: sums of (bytes, weights) of those raised to their floors, and of
/// those stopped at their caps. The sums of bytes are below the amount to fill.
#[derive(Default)]
struct Held {
    floors: (u64, u64),
    caps: (u64, u64),
}

impl Held {
    fn count(items: &[Item], left: u64, weight: u64) -> Held {
        let mut held = Held::default();
        for item in items {
            if item.is_lifted(left, weight) {
                held.floors.0 += item.floor;
                held.floors.1 += item.weight;
            } else if item.is_capped(left, weight) {
                held.caps.0 += item.cap;
                held.caps.1 += item.weight;
            }
        }
        held
    }

    /// Compares what floors add to the parts at the level `left / weight` with what caps cut off.
    /// When more is added, the true level is lower, and members raised here stay raised. When more
    /// is cut off, it is higher, and members stopped here stay stopped.
    fn order(&self, left: u64, weight: u64) -> Ordering {
        let added = product(self.floors.0, weight) - product(left, self.floors.1);
        let cut = product(left, self.caps.1) - product(self.caps.0, weight);
        added.cmp(&cut)
    }
}

/// A level at which a member starts to rise above its floor or stops at its cap: `value / weight`,
/// kept as quotient and remainder so that comparing is cheap and exact.
#[derive(Clone, Copy, Debug)]
struct Event {
    quotient: u64,
    remainder: u64,
    weight: u64,
    value: u64,
    starts: bool,
}

impl Event {
    fn new(value: u64, weight: u64, starts: bool) -> Event {
        Event {
            quotient: value / weight,
            remainder: value % weight,
            weight,
            value,
            starts,
        }
    }
    fn order(&self, other: &Event) -> Ordering {
        self.quotient.cmp(&other.quotient).then_with(|| {
            let mine = u128::from(self.remainder) * u128::from(other.weight);
            let others = u128::from(other.remainder) * u128::from(self.weight);
            mine.cmp(&others)
        })
    }
}

/// Scratch memory for one filling at a time.
#[derive(Debug, Default)]
pub(super) struct Filler {
    pub(super) items: Vec<Item>,
    events: Vec<Event>,
}

impl Filler {
    pub(super) fn reserve(&mut self, items: usize) {
        self.items.clear();
        self.events.clear();
        self.items.reserve(items);
        self.events.reserve(2 * items);
    }

    pub(super) fn clear(&mut self) {
        self.items.clear();
    }

    /// Adds a competitor. A floor above the cap is lowered to it; a weight of 0 counts as 1.
    pub(super) fn push(&mut self, node: u32, weight: u64, floor: u64, cap: u64) {
        self.items.push(Item {
            node,
            weight: weight.max(1),
            floor: floor.min(cap),
            cap,
            got: 0,
        });
    }

    /// Divides `amount` bytes; returns how many were given, never more than `amount`. Floors are
    /// ignored when together they exceed the amount.
    pub(super) fn fill(&mut self, amount: u64) -> u64 {
        if let [only] = self.items.as_mut_slice() {
            only.got = amount.min(only.cap);
            return only.got;
        }
        self.fill_within(amount, PASSES)
    }

    /// The same with a bound on the passes before sorting.
    pub(super) fn fill_within(&mut self, amount: u64, passes: usize) -> u64 {
        let (mut caps, mut floors, mut weight) = (0u128, 0u128, 0u128);
        for item in &self.items {
            caps += u128::from(item.cap);
            floors += u128::from(item.floor);
            weight += u128::from(item.weight);
        }
        if caps <= u128::from(amount) {
            self.items.iter_mut().for_each(|i| i.got = i.cap);
            return caps as u64;
        }
        if floors == u128::from(amount) {
            self.items.iter_mut().for_each(|i| i.got = i.floor);
            return amount;
        }
        if floors > u128::from(amount) {
            self.items.iter_mut().for_each(|i| i.floor = 0);
        }
        let (mut open, mut left) = (self.items.len(), amount);
        // Sums of weights that need more than 64 bits are left to the sorting.
        if let Ok(mut weight) = u64::try_from(weight) {
            for _ in 0..passes {
                let held = Held::count(&self.items[..open], left, weight);
                let order = held.order(left, weight);
                if order == Ordering::Equal {
                    return amount - left + self.settle(open, left.into(), weight.into());
                }
                open = self.close(open, left, weight, order == Ordering::Greater);
                let (bytes, its) = if order == Ordering::Greater {
                    held.floors
                } else {
                    held.caps
                };
                left -= bytes;
                weight -= its;
            }
        }
        let (rising, weight) = self.level(open, left);
        amount - left + self.settle(open, rising, weight)
    }

    /// Gives those of the first `open` members that are held back at the level `left / weight`
    /// their floors (or their caps, unless `floors`), and moves them behind the others. Returns how
    /// many stay open.
    fn close(&mut self, mut open: usize, left: u64, weight: u64, floors: bool) -> usize {
        let mut at = 0;
        while at < open {
            let item = &mut self.items[at];
            let (stays, bound) = if floors {
                (!item.is_lifted(left, weight), item.floor)
            } else {
                (!item.is_capped(left, weight), item.cap)
            };
            if stays {
                at += 1;
            } else {
                item.got = bound;
                open -= 1;
                self.items.swap(at, open);
            }
        }
        open
    }

    /// The level of the first `open` members, as the bytes shared by all that rise at it and the
    /// sum of their weights.
    fn level(&mut self, open: usize, amount: u64) -> (u128, u128) {
        self.events.clear();
        let mut weight: u128 = 0;
        let mut fixed: u128 = 0;
        for item in &self.items[..open] {
            fixed += u128::from(item.floor);
            if item.floor == item.cap {
                continue;
            }
            if item.floor == 0 {
                weight += u128::from(item.weight);
            } else {
                self.events.push(Event::new(item.floor, item.weight, true));
            }
            // A member that could take everything alone stops at no cap.
            if item.cap < amount {
                self.events.push(Event::new(item.cap, item.weight, false));
            }
        }
        self.events.sort_unstable_by(Event::order);
        let amount = u128::from(amount);
        for event in &self.events {
            let left = amount - fixed;
            let (value, its) = (u128::from(event.value), u128::from(event.weight));
            if weight > 0 && weight.saturating_mul(value) >= left.saturating_mul(its) {
                break;
            }
            if event.starts {
                fixed -= value;
                weight += its;
            } else {
                fixed += value;
                weight -= its;
            }
        }
        (amount - fixed, weight)
    }

    /// Gives the first `open` their parts at the level `rising / weight`; returns their sum.
    fn settle(&mut self, open: usize, rising: u128, weight: u128) -> u64 {
        let mut given: u64 = 0;
        let small = u64::try_from(rising).ok().zip(u64::try_from(weight).ok());
        for item in &mut self.items[..open] {
            let part = match small {
                // The weight is never 0 when floors sum to less than the amount and caps to more.
                // Even then floor and cap still clamp the result.
                _ if weight == 0 => 0,
                Some((rising, weight)) if rising.checked_mul(item.weight).is_some() => {
                    rising * item.weight / weight
                }
                _ => u64::try_from(rising.saturating_mul(u128::from(item.weight)) / weight)
                    .unwrap_or(u64::MAX),
            };
            item.got = part.clamp(item.floor, item.cap);
            given = given.saturating_add(item.got);
        }
        given
    }
}
