//! The link to a broker.

use crate::link::Link;
use plimsoll_client::Principal;
use plimsoll_unit::Bytes;
use plimsoll_wire::messages::Report;
use plimsoll_wire::page::Numbers;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tracing::debug;

/// A principal of a broker as an adapter's link.
#[derive(Clone, Debug)]
pub struct ClientLink {
    principal: Arc<Principal>,
    /// Whether the adapter must end. Any thread may set it.
    stop: Arc<AtomicBool>,
    /// The adapter that the principal was registered with.
    registered: Option<&'static str>,
}

impl ClientLink {
    /// The adapter ends when `stop` is set. `registered` is the adapter that the principal was
    /// registered with.
    pub fn new(
        principal: Arc<Principal>,
        stop: Arc<AtomicBool>,
        registered: Option<&'static str>,
    ) -> ClientLink {
        ClientLink {
            principal,
            stop,
            registered,
        }
    }
}

impl ClientLink {
    /// An older broker does not know this call and goes on as before.
    fn tell(&self, adapter: Option<&str>) {
        if let Err(error) = self.principal.adapt(adapter) {
            debug!("the broker was not told what steers: {error}");
        }
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

    fn released(&mut self, bytes: Bytes) {
        self.principal.released(bytes);
    }

    fn steered_by(&mut self, adapter: Option<&'static str>) {
        self.tell(adapter.or(self.registered));
    }

    fn not_steered(&mut self, _why: &str) {
        self.tell(None);
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }
}
