//! The agent in the machine, from the adapter's side.

use crate::hotspot::agent::{Page, Told, Tries, in_machine};
use crate::hotspot::attach::Attach;
use crate::hotspot::control::AtBound;
use crate::hotspot::machine::Machine;
use crate::hotspot::options::gives_touched;
use crate::hotspot::resident_target::Wishes;
use crate::lever::Target;
use plimsoll_kernel::clock;
use plimsoll_unit::{Bytes, Nanos};
use plimsoll_wire::collections::{Bound, View, WISH_LASTS, Wish};
use std::time::Instant;

/// Why the agent is to give nothing back of a heap that was touched in advance.
const TOUCHED: &str =
    "the heap was touched in advance (-XX:+AlwaysPreTouch); --give-back always allows it";

/// The agent of one machine, whether or not it is there.
#[derive(Debug, Default)]
pub(super) struct Agent {
    /// Its page; `None` if it is not in the machine.
    page: Option<Page>,
    /// The user was told this of it.
    told: Told,
    /// When the machine is asked again to load it.
    tries: Tries,
    /// The bytes that it is asked to keep.
    wishes: Wishes,
    /// When it was wished something last (monotonic); `None` if nothing is wished of it now.
    wished: Option<Nanos>,
    /// Why it gives nothing back, if the user's settings forbid it.
    kept: Option<&'static str>,
}

impl Agent {
    /// The agent for this machine, which is not loaded yet.
    pub(super) fn of(machine: &Machine, target: &Target<'_>) -> Agent {
        let chosen = &target.options.chosen;
        let touched = machine.flags.on("AlwaysPreTouch") && !gives_touched(chosen);
        Agent {
            kept: touched.then_some(TOUCHED),
            ..Agent::default()
        }
    }

    /// Has it loaded into the machine.
    pub(super) fn load(&mut self, target: &Target<'_>, attach: &Attach, machine: &Machine) {
        self.page = in_machine(target, attach, machine, &mut self.tries);
        let Some(page) = &self.page else { return };
        if let Ok(view) = page.view() {
            self.told.look(target.process.pid, &view, self.kept);
        }
    }

    /// Whether the machine is to be asked again now to load it.
    pub(super) fn is_due(&self) -> bool {
        self.tries.is_due(Instant::now())
    }

    /// Whether it is in the machine.
    pub(super) fn is_there(&self) -> bool {
        self.page.is_some()
    }

    /// Its page, if there is one that can be read.
    pub(super) fn view(&self) -> Option<View<'_>> {
        self.page.as_ref().and_then(|page| page.view().ok())
    }

    /// Whether it gives back what is above the limit.
    pub(super) fn empties(&self) -> bool {
        let view = self.view();
        self.kept.is_none() && view.is_some_and(|view| view.refusal().is_none())
    }

    /// The collections that it asked for at its bound; `None` if that cannot be read.
    pub(super) fn at_bound(&self) -> Option<AtBound> {
        let totals = self.view().and_then(|view| view.totals())?;
        Some(AtBound {
            asked: totals.asked,
            left: Bytes(totals.used),
        })
    }

    /// Tells it how much of the heap may stay resident at the end of the next collection, if the process may
    /// keep `leaves`. `native` of it is no heap, and `swapped` is in swap. `times`: how many collections it
    /// may have asked for by itself, when more than `leaves` is used. Returns whether it may have taken its
    /// adapter for gone since the last time, and have stopped to count.
    pub(super) fn wish(
        &mut self,
        pid: u32,
        (leaves, native, swapped): (Bytes, Bytes, Bytes),
        times: Option<u64>,
    ) -> bool {
        let Some(page) = &self.page else { return false };
        // The program may have emptied it. Nothing is wished of an agent that cannot tell anything.
        let Ok(view) = page.view() else { return false };
        self.told.look(pid, &view, self.kept);
        if let Some(mut process) = view.process() {
            process.at_ns = page.our_time(Nanos(process.at_ns)).0;
            self.wishes.look(process, view.about().signal);
        }
        let now = clock::now();
        self.wishes.look_at_swap(swapped, now);
        let resident = self.wishes.resident(now, leaves, native);
        let above = leaves - native;
        let bound = times.map(|times| Bound { above, times });
        let wish = resident.map(|resident| Wish { resident, bound });
        let wish = wish.filter(|_| self.kept.is_none());
        page.wish(wish);
        let lasts = self.wished.is_some_and(|last| now - last < WISH_LASTS);
        self.wished = wish.map(|_| now);
        !lasts
    }

    /// Wishes nothing any more.
    pub(super) fn let_go(&self) {
        if let Some(page) = &self.page {
            page.wish(None);
        }
    }
}
