//! Marking by several threads. One marker leads: it has the roots. The others help from when
//! marking begins until no marker has work.

use super::marker::Marker;
use super::sharing::{Sharing, Worker};
use super::space::Space;
use super::spans::{PORTION, Spans, Team};
use crate::central::Central;
use crate::heap::Heap;
use std::io;
use std::time::Instant;

/// The state that the markers of one heap share.
pub struct MarkWorkers {
    team: Team,
    /// The address of the heap.
    heap: usize,
}

impl MarkWorkers {
    /// No workers yet.
    ///
    /// # Errors
    /// There is no address space for the shared stack.
    pub fn new(heap: &Heap) -> io::Result<MarkWorkers> {
        let team = Sharing::new(Spans::new(heap)?);
        let heap = heap.side.heap();
        Ok(MarkWorkers { team, heap })
    }

    fn check<S: Space>(&self, marker: &Marker<'_, S>) {
        let heap = marker.heap.side.heap();
        assert_eq!(heap, self.heap, "mark workers share the work of one heap");
    }

    /// The state and the work that they share.
    pub(crate) fn team(&self) -> &Team {
        &self.team
    }

    /// Marks from `roots` together with all that [help](MarkWorkers::help), and returns when everything is
    /// marked.
    pub(crate) fn lead<S: Space>(
        &self,
        marker: &mut Marker<'_, S>,
        central: &Central,
        roots: impl FnOnce(&mut Marker<'_, S>),
    ) {
        self.mark(marker, None, roots);
        marker.drain_pending(central, None);
        marker.shrink();
    }

    /// Marks from `roots`, and from what an earlier step left, until the time `until`. False if
    /// there is work left for another step.
    pub(crate) fn step<S: Space>(
        &self,
        marker: &mut Marker<'_, S>,
        central: &Central,
        until: Instant,
        roots: impl FnOnce(&mut Marker<'_, S>),
    ) -> bool {
        let done = self.mark(marker, Some(until), |marker| {
            roots(marker);
            marker.go_on_with_written(central, Some(&self.team));
        });
        done && marker.left.written_from.is_none() && marker.drain_pending(central, Some(until))
    }

    /// Forgets the work that steps left.
    pub(crate) fn forget<S: Space>(&self, marker: &mut Marker<'_, S>) {
        self.team.forget(Spans::clear);
        marker.forget();
    }

    fn mark<S: Space>(
        &self,
        marker: &mut Marker<'_, S>,
        until: Option<Instant>,
        roots: impl FnOnce(&mut Marker<'_, S>),
    ) -> bool {
        self.check(marker);
        marker.begin(true);
        marker.deadline.set(until);
        self.team.begin(|spans| spans.until = until);
        roots(marker);
        let done = self.team.lead(marker, |marker| marker.left.spans);
        marker.shared = false;
        marker.deadline.set(None);
        marker.marking += std::mem::take(&mut self.team.state().given.done);
        done
    }

    /// Helps once: waits until marking begins, and returns when it is done. False if helpers must return.
    ///
    /// # Panics
    /// The marker is that of another heap.
    pub fn help<S: Space>(&self, marker: &mut Marker<'_, S>) -> bool {
        self.check(marker);
        let helped = self.team.help(marker, |marker, state| {
            if marker.left.enter(state.round) {
                marker.forget();
            }
            marker.begin(true);
            marker.deadline.set(state.given.until);
            // A marker with work left is counted already.
            marker.left.spans
        });
        if helped && !marker.left.spans {
            marker.shrink();
        }
        helped
    }

    /// Has helpers return.
    pub fn end(&self) {
        self.team.end();
    }
}

impl<S: Space> Worker for Marker<'_, S> {
    type Given = Spans;

    fn drain(&mut self, team: &Team) -> bool {
        Marker::drain(self, Some(team))
    }

    fn take(&mut self, spans: &mut Spans) {
        let before = self.stack.len();
        spans.given.move_top(PORTION, &mut self.stack);
        self.marking.shared += (self.stack.len() - before) as u64;
    }

    fn settle(&mut self, spans: &mut Spans) {
        spans.done += self.take_marking();
    }
}
