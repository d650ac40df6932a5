//! A simulation that goes on as far as it is told, with a heap that somebody else sizes.

use super::error::SimError;
use super::ground::Ground;
use super::log::Log;
use super::machine::Machine;
use super::outcome::Outcome;
use super::program::Program;
use super::settings::Settings;
use plimsoll_unit::{Bytes, Nanos};

/// A program while it runs. Points of time are since its beginning.
pub struct Running<'a, L, G>(Machine<'a, L, G>);

impl<'a, L: Log, G: Ground> Running<'a, L, G> {
    /// A program that stands at its beginning, on this ground.
    ///
    /// # Errors
    /// It has no threads, or two of one number.
    pub fn new(
        program: &'a mut dyn Program,
        settings: &'a Settings,
        log: &'a mut L,
        ground: G,
    ) -> Result<Running<'a, L, G>, SimError> {
        let mut machine = Machine::new(program, settings, log, ground)?;
        machine.begin()?;
        Ok(Running(machine))
    }

    /// Goes on until nothing more happens before `until`. Returns when something happens next; nothing where
    /// the program has ended. A step that began before `until` is done whole, so a program may be further
    /// than that.
    ///
    /// # Errors
    /// As those of [`super::simulate`].
    pub fn advance(&mut self, until: Nanos) -> Result<Option<Nanos>, SimError> {
        Ok(self.0.advance(Some(until.0))?.map(Nanos))
    }

    /// Collects the whole heap although nothing needs room, at `now` or, if the program is further, as soon
    /// as it can. Returns when that is done.
    pub fn collect(&mut self, now: Nanos) -> Nanos {
        let machine = &mut self.0;
        let running = |which: &usize| machine.processors[*which].running.is_some();
        let first = (0..machine.processors.len())
            .filter(running)
            .min_by_key(|&which| machine.processors[which].clock);
        let which = first.unwrap_or(0);
        if first.is_none() {
            let clock = &mut machine.processors[which].clock;
            *clock = now.0.max(*clock);
        }
        let collection = machine.heap.collect(0, true);
        machine.pause(which, collection);
        Nanos(machine.processors[which].clock)
    }

    /// The heap has this size from now on. Nothing is collected before an object finds no room.
    pub fn resize(&mut self, heap: Bytes) {
        self.0.heap.resize(heap.0);
    }

    /// The size of the heap.
    pub fn heap(&self) -> Bytes {
        Bytes(self.0.heap.size())
    }

    /// The outcome of the program so far, as if it had ended.
    pub fn so_far(&self) -> Outcome {
        self.0.outcome()
    }

    /// The outcome of a program that has ended.
    ///
    /// # Errors
    /// Threads wait for each other for ever, are never started, or objects died that were never allocated.
    pub fn finish(self) -> Result<Outcome, SimError> {
        self.0.finish()
    }
}
