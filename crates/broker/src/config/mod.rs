//! `plimsoll.toml`: what the broker shares out, its bounds, and rules for programs.
//!
//! ```toml
//! budget = "75%"            # of the machine or container; or "1500M"; everything by default
//! reserve = "64M"           # held back for warnings; measured by default
//! max_principals = 4096
//!
//! [balance]
//! measure = true            # what pages cost that are read again after they were reclaimed
//! shift = false             # make the kernel reclaim the cheaper kind first
//!
//! [pin]
//! enabled = false           # keep file pages in memory that are read again and again
//! budget = "5%"             # at most
//! window = 30               # seconds over which that is counted
//!
//! [[rule]]                  # comes before what a program asks for; the first that matches wins
//! executable = "*/java"     # also: cgroup, unit, user; all that are given must match
//! weight = 200
//!
//! [[rule]]                  # of the group that a user has in the system's broker
//! user = "alice"
//! user_weight = 300
//! ```
//!
//! Files in `plimsoll.toml.d/*.toml` are read after `plimsoll.toml`, in the order of their names. A
//! value in them replaces an earlier one, and their rules come before earlier rules.

mod load;
mod names;
mod rule;

pub use load::{ConfigError, load, parse};
pub use names::name_of;
pub use rule::{Facts, Given, Rule, adapters, matches_glob};

use plimsoll_unit::Nanos;
use plimsoll_wire::size::Size;
use serde::Deserialize;

/// Principals that a broker holds at most, by default.
pub const MAX_PRINCIPALS: usize = 4096;
/// Principals and connections of one user at most, by default.
pub const MAX_PER_USER: usize = 1024;

/// `[balance]`, as written.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct BalanceFile {
    measure: Option<bool>,
    shift: Option<bool>,
}

/// Settings for the balance between reclaim of file pages and reclaim of anonymous pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Balance {
    /// Whether refaults and their costs are measured.
    pub measure: bool,
    /// Whether reclaim is shifted to the kind of pages that costs less.
    pub shift: bool,
}

/// `[pin]`, as written.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct PinFile {
    enabled: Option<bool>,
    budget: Option<Size>,
    /// Seconds.
    window: Option<u64>,
}

/// Shortest and longest window of `[pin]`, seconds.
const WINDOWS: std::ops::RangeInclusive<u64> = 1..=3600;

/// Keeping file pages of principals in memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pin {
    /// Whether that is done.
    pub enabled: bool,
    /// The most that is held. `None`: 5 % of the domain, at most 256 MiB.
    pub budget: Option<Size>,
    /// Time over which refaults are counted.
    pub window: Nanos,
}

/// One file, as written. Absent values keep their default. [`Config`] says what each value means.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct File {
    budget: Option<Size>,
    reserve: Option<Size>,
    max_principals: Option<u64>,
    max_per_user: Option<u64>,
    cgroups: Option<bool>,
    working_sets: Option<bool>,
    sharing: Option<bool>,
    revoke: Option<bool>,
    lending: Option<bool>,
    show_others: Option<bool>,
    balance: BalanceFile,
    pin: PinFile,
    #[serde(rename = "rule")]
    rules: Vec<Rule>,
}

/// The configuration in force.
#[derive(Clone, Debug)]
pub struct Config {
    /// Most memory to share out; everything the domain has when `None`.
    pub budget: Option<Size>,
    /// Memory held back so that warnings come early enough; measured when `None`.
    pub reserve: Option<Size>,
    /// Most principals at a time.
    pub max_principals: usize,
    /// Most principals of one user, and also most connections of one user.
    pub max_per_user: usize,
    /// Whether each principal gets its own cgroup, where permissions allow that.
    pub cgroups: bool,
    /// Whether working sets are sampled.
    pub working_sets: bool,
    /// Whether memory that several principals map is measured and divided between them.
    pub sharing: bool,
    /// Whether memory may be taken from a principal that owes (the ladder's later rungs).
    pub revoke: bool,
    /// Whether programs lend memory that they would hardly miss.
    pub lending: bool,
    /// Whether a listing tells a user what the principals of other users are called. `None`: where `/proc`
    /// shows their processes too.
    pub show_others: Option<bool>,
    /// The balance of reclaim.
    pub balance: Balance,
    /// Keeping file pages in memory.
    pub pin: Pin,
    /// Rules in the order in which they are tried.
    pub rules: Vec<Rule>,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            budget: None,
            reserve: None,
            max_principals: MAX_PRINCIPALS,
            max_per_user: MAX_PER_USER,
            cgroups: true,
            working_sets: true,
            sharing: true,
            revoke: true,
            lending: true,
            show_others: None,
            balance: Balance {
                measure: true,
                shift: false,
            },
            pin: Pin {
                enabled: false,
                budget: None,
                window: plimsoll_pin::options::DEFAULT_WINDOW,
            },
            rules: Vec::new(),
        }
    }
}

impl Config {
    /// Values that the rules give to a program. Each value comes from the first matching rule that
    /// sets it.
    #[must_use]
    pub fn given(&self, facts: &Facts) -> Given {
        let mut given = Given::default();
        for rule in self.rules.iter().filter(|rule| rule.matches(facts)) {
            given.fill(rule);
        }
        given
    }

    /// Whether any rule sets the weight or priority of users' groups.
    #[must_use]
    pub fn rules_users(&self) -> bool {
        self.rules.iter().any(Rule::is_for_users)
    }

    /// Values that the rules give to a user's group. `units` are the units of the system's manager
    /// in which the user's programs run. Each value comes from the first matching rule that sets
    /// it; the adapter is never set.
    #[must_use]
    pub fn given_to_user(&self, uid: u32, units: &[&str]) -> Given {
        let mut given = Given::default();
        let matching = |rule: &&Rule| rule.matches_user(uid, units.iter().copied());
        for rule in self.rules.iter().filter(matching) {
            given.fill_for_user(rule);
        }
        given
    }

    /// Applies `file` on top of this configuration; its rules come first.
    fn apply(&mut self, file: File) {
        self.budget = file.budget.or(self.budget);
        self.reserve = file.reserve.or(self.reserve);
        self.max_principals = file.max_principals.map_or(self.max_principals, to_usize);
        self.max_per_user = file.max_per_user.map_or(self.max_per_user, to_usize);
        self.cgroups = file.cgroups.unwrap_or(self.cgroups);
        self.working_sets = file.working_sets.unwrap_or(self.working_sets);
        self.sharing = file.sharing.unwrap_or(self.sharing);
        self.revoke = file.revoke.unwrap_or(self.revoke);
        self.lending = file.lending.unwrap_or(self.lending);
        self.show_others = file.show_others.or(self.show_others);
        self.balance = Balance {
            measure: file.balance.measure.unwrap_or(self.balance.measure),
            shift: file.balance.shift.unwrap_or(self.balance.shift),
        };
        self.pin = Pin {
            enabled: file.pin.enabled.unwrap_or(self.pin.enabled),
            budget: file.pin.budget.or(self.pin.budget),
            window: file.pin.window.map_or(self.pin.window, Nanos::seconds),
        };
        self.rules.splice(0..0, file.rules);
    }
}

fn to_usize(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}
