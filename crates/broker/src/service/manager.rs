//! Messages to the service manager (`sd_notify(3)`); no effect where there is none.

use plimsoll_unit::Nanos;
use sd_notify::NotifyState;
use std::time::Duration;

/// Sends the broker's status to the service manager.
#[derive(Debug)]
pub struct Manager {
    /// Half of the manager's watchdog time; `None` without a watchdog.
    watchdog: Option<Nanos>,
    /// Time of the next sign of life for the watchdog.
    next: Nanos,
}

impl Manager {
    /// Reads the manager's wishes (`WATCHDOG_USEC`).
    #[must_use]
    pub fn new() -> Manager {
        let half = |timeout: Duration| Nanos::from(timeout / 2).max(Nanos(1));
        Manager {
            watchdog: sd_notify::watchdog_enabled().map(half),
            next: Nanos::ZERO,
        }
    }

    /// Reports that the broker serves.
    pub fn ready(&self, status: &str) {
        tell(&[NotifyState::Ready, NotifyState::Status(status)]);
    }

    /// Sets the line for `systemctl status`.
    pub fn status(&self, status: &str) {
        tell(&[NotifyState::Status(status)]);
    }

    /// Reports that the configuration is read again; [`Manager::ready`] ends this state.
    pub fn reloading(&self) {
        match NotifyState::monotonic_usec_now() {
            Ok(now) => tell(&[NotifyState::Reloading, now]),
            Err(_) => tell(&[NotifyState::Reloading]),
        }
    }

    /// Reports that the broker ends.
    pub fn stopping(&self) {
        tell(&[NotifyState::Stopping]);
    }

    /// Sends a sign of life when one is due.
    pub fn alive(&mut self, now: Nanos) {
        if let Some(interval) = self.watchdog.filter(|_| now >= self.next) {
            tell(&[NotifyState::Watchdog]);
            self.next = now + interval;
        }
    }

    /// When the next sign of life is due.
    #[must_use]
    pub fn due(&self) -> Option<Nanos> {
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
