//! The command line of the broker, and its configuration.

use crate::config::Config;
use crate::decide;
use crate::options::{Options, Paths};
use plimsoll_kernel::identity::unmapped_user;
use plimsoll_kernel::mounts::hides_processes;
use plimsoll_unit::Bytes;
use plimsoll_wire::messages::Id;

/// Read by all of the daemon, changed by [`Settings::set_config`] only.
pub(super) struct Settings {
    /// The command line.
    pub(super) options: Options,
    /// Paths of the socket, the pages, the state and the configuration.
    pub(super) paths: Paths,
    /// The configuration; read again on SIGHUP.
    pub(super) config: Config,
    /// Whether users are told the names of others' principals; found out when the configuration is read.
    /// Where `/proc` hides others' processes, they are not, unless the configuration says so.
    pub(super) shows_others: bool,
    /// The broker's own uid.
    pub(super) uid: u32,
    /// The uid that stands for several users, if there is one.
    pub(super) unmapped: Option<u32>,
}

impl Settings {
    pub(super) fn new(options: Options, paths: Paths, config: Config) -> Settings {
        Settings {
            options,
            paths,
            shows_others: shows_others(&config),
            config,
            uid: rustix::process::geteuid().as_raw(),
            unmapped: unmapped_user(),
        }
    }

    /// Whether a user may do everything here.
    pub(super) fn is_ruler(&self, uid: u32) -> bool {
        rules(self.uid, uid)
    }

    /// Takes a configuration that was read again.
    pub(super) fn set_config(&mut self, config: Config) {
        self.shows_others = shows_others(&config);
        self.config = config;
    }

    /// The configuration of the core for that capacity; a budget in percent depends on it.
    pub(super) fn of_core(&self, capacity: Bytes, first_id: Id) -> decide::Config {
        let config = &self.config;
        let budget = config
            .budget
            .map_or(Bytes::MAX, |size| size.bytes(capacity));
        decide::Config {
            max_principals: config.max_principals,
            first_id,
            max_budget: budget.min(self.options.budget.unwrap_or(Bytes::MAX)),
            min_reserve: config
                .reserve
                .map_or(Bytes::ZERO, |size| size.bytes(capacity)),
            lending: config.lending,
        }
    }
}

/// Whether a user may do everything in a broker of user `ours`: only that user and root may.
pub(super) fn rules(ours: u32, uid: u32) -> bool {
    uid == 0 || uid == ours
}

fn shows_others(config: &Config) -> bool {
    config.show_others.unwrap_or_else(|| !hides_processes())
}
