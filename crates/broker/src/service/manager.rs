//! What the service manager is told (`sd_notify(3)`); nothing where there is none.

use sd_notify::NotifyState;
use std::time::Duration;

/// Tells the service manager how we do.
#[derive(Debug)]
pub struct Manager {
    /// Half of what the manager waits for a sign of life, ns.
    watchdog: Option<u64>,
    next: u64,
}

impl Manager {
    /// Looks what the manager wants (`WATCHDOG_USEC`).
    #[must_use]
    pub fn new() -> Manager {
        let half = |timeout: Duration| {
            u64::try_from(timeout.as_nanos() / 2)
                .unwrap_or(u64::MAX)
                .max(1)
        };
        Manager {
            watchdog: sd_notify::watchdog_enabled().map(half),
            next: 0,
        }
    }

    /// We serve.
    pub fn ready(&self, status: &str) {
        tell(&[NotifyState::Ready, NotifyState::Status(status)]);
    }

    /// One line for `systemctl status`.
    pub fn status(&self, status: &str) {
        tell(&[NotifyState::Status(status)]);
    }

    /// The configuration is read anew; [`Manager::ready`] ends it.
    pub fn reloading(&self) {
        match NotifyState::monotonic_usec_now() {
            Ok(now) => tell(&[NotifyState::Reloading, now]),
            Err(_) => tell(&[NotifyState::Reloading]),
        }
    }

    /// We leave.
    pub fn stopping(&self) {
        tell(&[NotifyState::Stopping]);
    }

    /// A sign of life when one is due; `now` in ns.
    pub fn alive(&mut self, now: u64) {
        if let Some(interval) = self.watchdog.filter(|_| now >= self.next) {
            tell(&[NotifyState::Watchdog]);
            self.next = now.saturating_add(interval);
        }
    }

    /// When the next sign of life is due, ns.
    #[must_use]
    pub fn due(&self) -> Option<u64> {
        self.watchdog.map(|_| self.next)
    }
}

impl Default for Manager {
    fn default() -> Self {
        Manager::new()
    }
}

fn tell(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!(%error, "the service manager cannot be told; check NOTIFY_SOCKET and NotifyAccess=");
    }
}
