//! Decides how large the `maxmemory` of a server is to be. Pure: numbers in, a step out.
//!
//! The limit is for the whole process, and `maxmemory` only for what the server counts. So the target is what
//! the limit leaves after the rest: free memory of the allocator, tables of pages, buffers. That rest is
//! measured at each look, because it grows with the data.
//!
//! While the server saves, a forked process has the same pages. A key that is dropped then gives nothing
//! back before that process ends, and costs copies of the pages that are written to. So `maxmemory` is not
//! lowered below what is used. It is not raised either, because each page that is written to is there twice.

use super::effort::Effort;
use plimsoll_unit::{Bytes, MIB};

/// `maxmemory` is never set to less: 0 stands for no maximum, and every server needs a little for its
/// buffers.
const LEAST: Bytes = Bytes(MIB);
/// A change by less than one part in this many is not worth a command, while the limit is kept.
const GRAIN: u64 = 64;
/// A step evicts one part in this many of the data, or [`LARGE`] if that is more.
const STEP: u64 = 8;
/// Such a step takes a server tens of milliseconds, which it divides among its clients.
const LARGE: Bytes = Bytes(16 * MIB);
/// Servers that divide nothing drop this many keys in one step, which takes them some milliseconds.
const FEW_KEYS: u64 = 4096;
/// Free memory of the allocator that is worth a command.
const WORTH: Bytes = Bytes(2 * MIB);
/// After this many looks at an eviction that does not go on, the server cannot evict more.
const PATIENT: u32 = 30;
/// A limit that differs from another by less than one part in this many is the same.
const SAME: u64 = 16;

/// One look at a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Look {
    /// Memory of the process.
    pub(super) uses: Bytes,
    /// Memory that `maxmemory` counts.
    pub(super) used: Bytes,
    /// Memory that the allocator could give back at once.
    pub(super) idle: Bytes,
    /// The `maxmemory` in force; 0 for none.
    pub(super) maxmemory: Bytes,
    /// A forked process writes a file.
    pub(super) saves: bool,
    /// Memory that such processes make it copy.
    pub(super) copied: Bytes,
    /// A thread of the server is freeing what was dropped.
    pub(super) frees: bool,
    /// Its keys.
    pub(super) keys: u64,
    /// It lets its clients have their turn while it evicts.
    pub(super) has_slices: bool,
}

/// Where its memory is to come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Aim {
    /// The limit of the process; 0 for none.
    pub(super) limit: Bytes,
    /// The user's own `maxmemory`; 0 for none.
    pub(super) given: Bytes,
}

/// The next command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// None.
    Stay,
    /// None yet: the server still does what the last one asked for.
    Wait,
    /// Give free memory back.
    Purge,
    /// Set `maxmemory`.
    Set(Bytes),
}

/// Facts from earlier looks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Control {
    /// Free memory of the allocator that a purge leaves; `None` before the first.
    kept: Option<Bytes>,
    /// Looks at an eviction that did not go on, and the memory used then.
    waits: (u32, Bytes),
    /// The last step made the server evict.
    evicts: bool,
    effort: Effort,
    /// The limit that the server cannot come to.
    vain: Option<Bytes>,
}

impl Control {
    /// Whether it was found that the server cannot come to its limit.
    pub(super) fn is_vain(&self) -> bool {
        self.vain.is_some()
    }

    /// The next step.
    pub(super) fn next(&mut self, look: &Look, aim: &Aim) -> Step {
        if aim.limit == Bytes::ZERO {
            *self = Control::default();
            return step_to(look, aim.given);
        }
        if self.vain.is_some_and(|vain| differs(vain, aim.limit)) || look.uses <= aim.limit {
            self.vain = None;
            self.effort.forget();
        }
        self.kept = self.kept.map(|kept| kept.min(look.idle));
        let target = target(look, aim);
        if look.saves {
            let to = within(target.max(look.used), aim.given);
            return step_down(look, to);
        }
        if let Some(step) = self.ends_last(look, aim) {
            return step;
        }
        let is_over = look.uses > aim.limit;
        // The server counts free memory only now and then, so after an eviction its number is not asked.
        let has_evicted = std::mem::take(&mut self.evicts);
        if is_over && (has_evicted || look.idle > self.kept.unwrap_or_default() + WORTH) {
            self.kept = Some(look.idle);
            return Step::Purge;
        }
        if look.used <= target {
            return if is_over {
                step_to(look, target)
            } else {
                step_if_worth(look, target)
            };
        }
        if self.effort.is_vain(look.used, look.uses) {
            self.vain = Some(aim.limit);
        }
        if self.is_vain() {
            return Step::Stay;
        }
        self.evicts = true;
        let to = target.max(look.used - step(look));
        step_down(look, within(to, aim.given))
    }

    /// The step to take while the server still does the last one; `None` once it is done.
    fn ends_last(&mut self, look: &Look, aim: &Aim) -> Option<Step> {
        let evicts = look.maxmemory > Bytes::ZERO && look.used > look.maxmemory + LEAST / 4;
        if !evicts && !look.frees {
            self.waits = (0, look.used);
            return None;
        }
        let (waits, used) = self.waits;
        self.waits = if look.used < used || waits == 0 {
            (1, look.used)
        } else {
            (waits + 1, used)
        };
        if self.waits.0 <= PATIENT {
            return Some(Step::Wait);
        }
        // Without this the server would refuse the writes of its clients.
        self.vain = Some(aim.limit);
        let enough = within(look.used + look.used / STEP, aim.given);
        evicts.then(|| step_to(look, enough)).or(Some(Step::Stay))
    }
}

/// The largest `maxmemory` that keeps the process within its limit.
fn target(look: &Look, aim: &Aim) -> Bytes {
    let copied = if look.saves { look.copied } else { Bytes::ZERO };
    let beside = (look.uses - look.used) + copied;
    within((aim.limit - beside).max(LEAST), aim.given)
}

/// An amount, but no more than the user gave.
fn within(bytes: Bytes, given: Bytes) -> Bytes {
    if given > Bytes::ZERO {
        bytes.min(given)
    } else {
        bytes
    }
}

fn step(look: &Look) -> Bytes {
    if look.has_slices {
        return (look.used / STEP).max(LARGE);
    }
    let key = look.used.0 / look.keys.max(1);
    Bytes(key.saturating_mul(FEW_KEYS))
        .max(LEAST)
        .min((look.used / STEP).max(LEAST))
}

fn step_to(look: &Look, to: Bytes) -> Step {
    if look.maxmemory == to {
        Step::Stay
    } else {
        Step::Set(to)
    }
}

/// Sets it if that is less than now.
fn step_down(look: &Look, to: Bytes) -> Step {
    if look.maxmemory == Bytes::ZERO || to < look.maxmemory {
        Step::Set(to)
    } else {
        Step::Stay
    }
}

/// Sets it if it differs by more than a grain.
fn step_if_worth(look: &Look, to: Bytes) -> Step {
    let grain = (look.maxmemory / GRAIN).max(LEAST);
    let is_near = to <= look.maxmemory + grain && look.maxmemory <= to + grain;
    if look.maxmemory > Bytes::ZERO && is_near {
        Step::Stay
    } else {
        step_to(look, to)
    }
}

fn differs(one: Bytes, other: Bytes) -> bool {
    one.max(other) - one.min(other) > one / SAME
}

#[cfg(test)]
mod tests;
