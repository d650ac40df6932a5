//! The link to a broker.

use crate::adapter::Link;
use plimsoll_client::Principal;
use plimsoll_wire::messages::Report;
use plimsoll_wire::page::Numbers;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A principal of a broker as an adapter's link.
#[derive(Clone, Debug)]
pub struct ClientLink {
    principal: Arc<Principal>,
    stop: Arc<AtomicBool>,
}

impl ClientLink {
    /// The adapter ends when `stop` is set.
    pub fn new(principal: Arc<Principal>, stop: Arc<AtomicBool>) -> ClientLink {
        ClientLink { principal, stop }
    }
}

impl Link for ClientLink {
    fn numbers(&mut self) -> Option<Numbers> {
        let numbers = self.principal.read().numbers;
        (numbers.limit > 0).then_some(numbers)
    }

    fn wait(&mut self, timeout: Duration) {
        self.principal.wait(timeout);
    }

    fn report(&mut self, report: &Report) {
        self.principal.report(report);
    }

    fn released(&mut self, bytes: u64) {
        self.principal.released(bytes);
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }
}
