//! Blocking and waking.

use super::ground::Ground;
use super::log::{Log, What};
use super::machine::Machine;
use super::thread::{On, State};
use plimsoll_trace::MonitorId;

impl<L: Log, G: Ground> Machine<'_, L, G> {
    /// The thread on a processor waits for something, at most for `most` nanoseconds. Another thread gets the
    /// processor.
    pub(super) fn block(&mut self, which: usize, thread: usize, on: On, most: Option<u64>) {
        let now = self.give_up(which);
        let record = &mut self.threads[thread];
        record.state = State::Blocked(on);
        if let Some(most) = most {
            let time = now.saturating_add(most);
            record.timer = Some(time);
            self.timers.insert((time, thread));
        }
        self.log.happened(now, What::Blocked { thread });
        if let On::Notify(monitor) = on {
            self.ready_contenders(monitor, now);
        }
        self.dispatch(now, Some(which));
    }

    /// A monitor was given up: all that contend for it become ready, and compete for it again.
    pub(super) fn wake_contenders(&mut self, monitor: MonitorId, now: u64) {
        self.ready_contenders(monitor, now);
        self.dispatch(now, None);
    }

    fn ready_contenders(&mut self, monitor: MonitorId, now: u64) {
        for contender in self.monitors.take_contenders(monitor) {
            self.make_ready(contender, now);
        }
    }

    /// A thread is given the permit to go on, and goes on if it is parked.
    pub(super) fn unpark(&mut self, thread: usize, now: u64) {
        if self.threads[thread].state == State::Blocked(On::Unpark) {
            self.cancel_timer(thread);
            self.make_ready(thread, now);
            self.dispatch(now, None);
        } else {
            self.threads[thread].permit = true;
        }
    }

    /// A thread no longer waits for a time.
    pub(super) fn cancel_timer(&mut self, thread: usize) {
        if let Some(time) = self.threads[thread].timer.take() {
            self.timers.remove(&(time, thread));
        }
    }

    /// The time of a thread has come.
    pub(super) fn time_out(&mut self, thread: usize, now: u64) {
        self.cancel_timer(thread);
        match self.threads[thread].state {
            State::Blocked(On::Notify(monitor)) => self.monitors.stop_waiting(monitor, thread),
            State::Blocked(On::End(other)) => {
                self.threads[other].joiners.retain(|it| *it != thread);
            }
            _ => {}
        }
        self.make_ready(thread, now);
    }

    /// Nothing can go on. Wakes the first thread that waits to be notified or unparked: in the recorded
    /// program it was woken, but by a thread that came too early under this scheduler, or by one that is not
    /// in the trace. If there is none, wakes the first thread that waits for the end of one that has not
    /// started: in the recorded program the one that starts it had come further, and in Java a thread that
    /// has not started is not waited for. Whether there was such a thread.
    pub(super) fn help(&mut self) -> bool {
        let waits = |on: State| matches!(on, State::Blocked(On::Notify(_) | On::Unpark));
        let is_early = |on: State| match on {
            State::Blocked(On::End(other)) => self.threads[other].state == State::New,
            _ => false,
        };
        let first = |is: &dyn Fn(State) -> bool| self.threads.iter().position(|it| is(it.state));
        let Some(thread) = first(&waits).or_else(|| first(&is_early)) else {
            return false;
        };
        let now = self.processors.iter().map(|p| p.clock).max().unwrap_or(0);
        self.tally.helped += 1;
        self.time_out(thread, now);
        self.dispatch(now, None);
        true
    }
}
