//! The states of the free ratios, and what outlives them. Sizes in bytes.

use crate::hotspot::control::aim::size;
use crate::hotspot::control::observation::{Seen, tolerance};
use crate::hotspot::control::watch::Watch;
use crate::hotspot::sizing_flags::{Levers, SizedBy};
use plimsoll_unit::{Bytes, Nanos};

/// The present state of the free ratios, with the facts learned on the way to it.
#[derive(Debug, Default)]
pub(super) enum State {
    /// Those of the machine: nothing was asked for yet.
    #[default]
    Own,
    /// 0 and 100, out of action: the machine's own collections do not change its size.
    Held(Held),
    /// In action until the next look.
    Resizing(Resizing),
}

impl State {
    /// Whether the heap, when it was looked at last, was not smaller than its limit allows by enough to be
    /// enlarged.
    pub(super) fn is_close(&self) -> bool {
        match self {
            State::Own => false,
            State::Held(held) => held.close,
            State::Resizing(resizing) => resizing.before.close,
        }
    }
}

/// The ratios are out of action.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Held {
    /// The size that the last resizing produced; 0 before the first.
    pub(super) made: Bytes,
    /// When that ended or the bias was raised, and the number of young collections then.
    pub(super) since: Nanos,
    pub(super) since_young: u64,
    /// The native part was measured since.
    pub(super) measured: bool,
    /// The machine does not become smaller than it is.
    pub(super) refusal: Option<Refusal>,
    /// The last urgent collection was concurrent and left the program over its limit.
    pub(super) in_vain: bool,
    /// The heap is as large as its limit allows, or smaller by too little to be worth a collection.
    pub(super) close: bool,
}

impl Held {
    /// Whether the machine has enlarged its heap by itself by more than an eighth since it was resized last.
    /// G1 makes it three times as large at once, where much time goes into collecting.
    pub(super) fn is_outgrown(&self, seen: &Seen, levers: &Levers) -> bool {
        self.made > Bytes::ZERO && size(seen, levers) > self.made + self.made / 8
    }

    /// Whether G1 has enlarged its heap since it was resized last, beyond what fits if all of it is resident.
    /// The use does not show that where an agent gives regions back at the end of each collection; the
    /// program touches them again before the next.
    pub(super) fn has_crept(&self, seen: &Seen, levers: &Levers, watch: &Watch) -> bool {
        let creeps =
            levers.sized_by == SizedBy::HeapRatios && seen.empties && !watch.activity.rests();
        let size = size(seen, levers);
        let most = seen.limit + tolerance(seen.limit);
        creeps && (Bytes(1)..size).contains(&self.made) && size + seen.native > most
    }
}

/// A collection that stopped the program left the heap at the size that it had, although the ratios
/// asked for less. The next one would do the same, whatever smaller size it aims at. Sizes in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refusal {
    /// The committed heap.
    pub(super) committed: Bytes,
    /// The live bytes.
    pub(super) live: Bytes,
}

/// How a resizing is done.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Way {
    /// Repetitions so far.
    pub(super) tries: u32,
    /// Make the old generation as small as it gets, to return garbage.
    pub(super) tight: bool,
    /// The program is over its limit.
    pub(super) urgent: bool,
    /// Use a collection that stops the program, although the usual one is concurrent.
    pub(super) whole: bool,
}

/// A resizing that is under way, with the numbers of the moment when it was asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Resizing {
    /// How it is done.
    pub(super) way: Way,
    /// The size that is aimed at; 0 for the least.
    pub(super) wanted: Bytes,
    /// The ratio that was set, percent.
    pub(super) percent: u64,
    /// The program's memory before.
    pub(super) uses: Bytes,
    /// The size before.
    pub(super) size: Bytes,
    /// The committed heap before.
    pub(super) committed: Bytes,
    /// Collections of the whole heap before.
    pub(super) whole: u64,
    /// The use of the old generation before.
    pub(super) basis: Bytes,
    /// Pauses before.
    pub(super) pauses: u64,
    /// The state before.
    pub(super) before: Held,
}

/// Facts learned about how the machine follows the ratios. They hold in all states.
#[derive(Debug, Default)]
pub(super) struct Learned {
    /// By how much the aim exceeds the room, because not all that is committed is resident; negative because
    /// of memory that was not measured.
    pub(super) bias: i64,
    /// By how much the machine itself enlarges the heap between two resizings.
    creep: Bytes,
    /// How much more than the old generation's use is in use when a concurrent cycle applies the
    /// ratios, because the program allocates while the cycle marks.
    pub(super) drift: Bytes,
}

impl Learned {
    /// The size to aim at for a resident heap of this size. If the machine enlarges its heap by itself, aim
    /// that much lower, or the program would soon be over its limit again. Where an excess ends the program
    /// (`cliff`), committed memory counts as resident: the program may touch it just when memory is short.
    pub(super) fn room(&self, resident: Bytes, cliff: bool) -> Bytes {
        let bias = if cliff { self.bias.min(0) } else { self.bias };
        let room = Bytes(resident.0.saturating_add_signed(bias));
        room - self.creep.min(room / 8)
    }

    /// The bytes in use when a concurrent cycle applies the ratios. The program cannot allocate
    /// more than is committed meanwhile.
    pub(super) fn basis(&self, seen: &Seen) -> Bytes {
        let used = seen.heap.old.used;
        let rest = seen.heap.committed() - used;
        (used + self.drift.min(rest)).max(Bytes(1))
    }

    /// Called when a resizing begins. Learns by how much the machine enlarged its heap since the
    /// last one.
    pub(super) fn learn_creep(&mut self, before: &Held, now: Bytes) {
        if before.made > Bytes::ZERO {
            let crept = now - before.made;
            self.creep = (self.creep / 2).max(crept / 2);
        }
    }

    /// Learns the drift: the size that the ratios produced tells the basis that they were applied
    /// to. At the maximum size it tells only a lower bound.
    pub(super) fn learn_drift(&mut self, done: &Resizing, now: Bytes, max: Bytes) {
        let basis = now.0 as f64 * (100 - done.percent.min(99)) as f64 / 100.0;
        let drift = Bytes(basis as u64) - done.basis;
        self.drift = match self.drift {
            known if now >= max => known.max(drift),
            Bytes::ZERO => drift,
            known => Bytes(known.0.midpoint(drift.0)),
        };
    }
}

/// Resizings in a row that changed nothing at this limit.
#[derive(Debug, Default)]
pub(super) struct Futile {
    /// How many.
    times: u32,
    /// The ratio of the last of them, percent. It is not tried again.
    percent: Option<u64>,
    /// No resizing that is not urgent before this time.
    quiet_until: Nanos,
}

impl Futile {
    /// Takes in a resizing; `size`: the one that it left.
    pub(super) fn judge(&mut self, done: &Resizing, size: Bytes, now: Nanos) {
        if size.abs_diff(done.size) > done.size / 100 {
            (self.times, self.percent) = (0, None);
            return;
        }
        self.times = (self.times + 1).min(6);
        self.percent = Some(done.percent);
        self.quiet_until = now + Nanos::seconds(1 << self.times);
    }

    /// Whether this ratio has changed nothing, percent.
    pub(super) fn was_tried(&self, percent: u64) -> bool {
        self.percent == Some(percent)
    }

    /// Whether nothing is resized now that is not urgent.
    pub(super) fn is_quiet(&self, now: Nanos) -> bool {
        now < self.quiet_until
    }
}

/// When a program was over its limit, and what was done about it beside resizings; 0: never.
#[derive(Debug, Default)]
pub(super) struct Excess {
    /// When it was last over its limit.
    pub(super) pressed_at: Nanos,
    /// When the machine was last asked to return native memory.
    pub(super) trimmed_at: Nanos,
    /// When the bias was last lowered.
    pub(super) lowered_at: Nanos,
}
