//! Commands of clients. Each command makes all of its changes or none.

use super::allocation_rhythm::Rhythm;
use super::node::{self, Node};
use super::tree::Tree;
use super::{Core, MAX_DEPTH, NewPrincipal, Refusal, smoothed_level};
use plimsoll_policy::shares::Shares;
use plimsoll_unit::Nanos;
use plimsoll_wire::messages::{Id, Kind, Report, Set, Statistics};

/// Upper bound for reported bytes and bytes per second; no supported machine exceeds it.
const MOST_BYTES: u64 = 1 << 50;
/// The most that a MiB can be worth, nanoseconds per second: thousands of processors would wait for it.
const MOST_WORTH: u64 = 1 << 42;
/// Most actions per principal and tick: one publication and one rung.
const ACTIONS_EACH: usize = 2;

impl Core {
    /// Registers a principal. Its numbers are zero until the next tick, which should come soon. Ids
    /// are never reused. `now` is the time on the clock of the pages.
    ///
    /// # Errors
    /// Unknown parent, too many principals, too deep a tree.
    pub fn register(&mut self, new: &NewPrincipal, now: Nanos) -> Result<Id, Refusal> {
        if !new.automatic && self.counted() >= self.config.max_principals {
            return Err(Refusal::TooMany(self.config.max_principals));
        }
        let parent = new.parent.map(|id| self.tree.find(id)).transpose()?;
        let parent = parent.filter(|_| !new.tenant);
        let level = match parent {
            Some(slot) => self.tree.at(slot).position.level as usize + 1,
            None => usize::from(!new.tenant),
        };
        if level > MAX_DEPTH {
            return Err(Refusal::TooDeep(level));
        }
        let id = self.next_id;
        self.next_id += 1;
        let mut node = Node::new(id, new, parent, level as u8);
        node.origin.joined = now;
        node.origin.begun = self.clock.now;
        node.adapter.rhythm = Rhythm::from(self.clock.now);
        self.tree.insert(node);
        self.reserve();
        self.pacer.prompt();
        Ok(id)
    }

    /// Makes room for a tick over all principals, so that no tick allocates.
    fn reserve(&mut self) {
        let count = self.tree.len();
        self.inputs.reserve(count.saturating_sub(self.inputs.len()));
        self.actions
            .reserve((count * ACTIONS_EACH).saturating_sub(self.actions.len()));
        if count > self.room {
            self.room = count.next_power_of_two();
            self.shares = Shares::with_capacity(self.room);
        }
    }

    /// Removes a principal. Its children move to its parent and keep their weights, because their
    /// processes live on. (In paper 4.1 destroying an activity destroys its children, because their
    /// allocations end with it.) Memory that the principal still uses counts as the outsiders' from
    /// now on.
    ///
    /// # Errors
    /// No such principal.
    pub fn remove(&mut self, id: Id) -> Result<(), Refusal> {
        let slot = self.tree.find(id)?;
        let bytes = own(
            self.tree.at(slot).sensed.uses,
            self.tree.at(slot).sensed.files,
        );
        shift_domains(&mut self.tree, &mut self.root, slot, bytes);
        self.gone = self.gone.plus(self.tree.at(slot).ladder.tally.counts);
        self.tree.remove(slot);
        self.pacer.prompt();
        Ok(())
    }

    /// Changes a principal's settings: all of them or none.
    ///
    /// # Errors
    /// No such principal or parent, a cycle, too deep a tree.
    pub fn set(&mut self, set: &Set) -> Result<(), Refusal> {
        let slot = self.tree.find(set.id)?;
        let parent = set.parent.map(|id| self.tree.find(id)).transpose()?;
        if let Some(parent) = parent {
            self.tree.check_move(slot, parent)?;
            self.reparent(slot, Some(parent));
        }
        let node = self.tree.at_mut(slot);
        node.settings.weight = set.weight.unwrap_or(node.settings.weight);
        node.settings.priority = set.priority.unwrap_or(node.settings.priority);
        node.settings.own_weight = set.own_weight.unwrap_or(node.settings.own_weight);
        node.settings.own_priority = set.own_priority.unwrap_or(node.settings.own_priority);
        node.settings.max = set.max.unwrap_or(node.settings.max);
        self.pacer.prompt();
        Ok(())
    }

    /// Moves a principal and its descendants to the top of the tree.
    ///
    /// # Errors
    /// No such principal.
    pub fn set_top(&mut self, id: Id) -> Result<(), Refusal> {
        let slot = self.tree.find(id)?;
        self.reparent(slot, None);
        self.pacer.prompt();
        Ok(())
    }

    /// Moves a node. Its bytes move from the old domains to the new ones; this does not count as
    /// growth.
    fn reparent(&mut self, slot: u32, parent: Option<u32>) {
        let account = &self.tree.at(slot).account;
        let bytes = own(account.subtree_uses, account.subtree_files);
        shift_domains(&mut self.tree, &mut self.root, slot, bytes);
        self.tree.reparent(slot, parent);
        shift_domains(&mut self.tree, &mut self.root, slot, -bytes);
    }

    /// Stores an adapter's report. Absurd values are clamped, not refused. A report cannot raise a
    /// share above what the weight allows.
    ///
    /// # Errors
    /// No such principal.
    pub fn report(&mut self, report: &Report) -> Result<(), Refusal> {
        let slot = self.tree.find(report.id)?;
        let node = self.tree.at_mut(slot);
        node.adapter.reported_at = Some(self.clock.now);
        let is_cache = report.worth.is_some();
        let tells = is_cache || report.live.is_some() && report.collection_speed.is_some();
        node.adapter.reports = node.adapter.reports.saturating_add(u8::from(tells));
        let known = &mut node.adapter.reported;
        take(&mut known.told.live, report.live);
        take(&mut known.allocation_rate, report.allocation_rate);
        take(&mut known.collection_speed, report.collection_speed);
        take(&mut known.demand, report.demand);
        take(&mut known.floor, report.floor);
        take(&mut known.told.collections, report.collections);
        take(&mut known.told.collection_ms, report.collection_ms);
        known.stalls = report.stalls.or(known.stalls);
        let size = node.sensed.uses;
        let told = report.worth.map(|worth| node::Cache {
            worth: worth.min(MOST_WORTH),
            size,
        });
        known.cache = told.or(known.cache);
        known.told.collector = report
            .collector
            .map(believed_statistics)
            .or(known.told.collector);
        known.reaction = report
            .reaction_ms
            .map(node::believed_reaction)
            .or(known.reaction);
        Ok(())
    }

    /// Sets whether an adapter serves the principal from now on.
    ///
    /// # Errors
    /// No such principal.
    pub fn set_adaptive(&mut self, id: Id, adaptive: bool) -> Result<(), Refusal> {
        let slot = self.tree.find(id)?;
        let node = self.tree.at_mut(slot);
        node.adaptive = adaptive && node.origin.kind == Kind::Process;
        self.pacer.prompt();
        Ok(())
    }

    /// Notes that the daemon finished or gave up a `PageOut`, `Take` or `Bound` of this principal.
    /// The core starts no further one before, or for at most two seconds. `bound` says that the
    /// kernel has the last bound. Unknown ids are ignored.
    pub fn acted(&mut self, id: Id, bound: bool) {
        if let Some(slot) = self.tree.slot(id) {
            self.tree.at_mut(slot).ladder.acted(bound);
        }
    }
}

/// The bytes of a principal that domains must be told of when it comes or goes. They follow the pages of
/// files by themselves.
pub(super) fn own(uses: u64, files: u64) -> i64 {
    smoothed_level::signed(uses.saturating_sub(files))
}

/// Moves `by` bytes to the outsiders of every domain above a principal (from them when negative).
pub(super) fn shift_domains(tree: &mut Tree, root: &mut super::domain::Domain, slot: u32, by: i64) {
    root.shift(by);
    let mut next = tree.at(slot).position.parent;
    for _ in 0..MAX_DEPTH {
        let Some(above) = next else { return };
        let node = tree.at_mut(above);
        if let Some(domain) = &mut node.sensed.domain {
            domain.shift(by);
        }
        next = node.position.parent;
    }
}

fn take(known: &mut Option<u64>, reported: Option<u64>) {
    if let Some(value) = reported {
        *known = Some(value.min(MOST_BYTES));
    }
}

/// Clamps the statistics. They are only shown and decide nothing, but absurd values must not break
/// the display.
fn believed_statistics(told: Statistics) -> Statistics {
    let bound = |value: Option<u64>| value.map(|value| value.min(MOST_BYTES));
    Statistics {
        heap: bound(told.heap),
        last_pause_us: bound(told.last_pause_us),
        longest_pause_us: bound(told.longest_pause_us.max(told.last_pause_us)),
        faults: bound(told.faults),
        absent: bound(told.absent),
        summaries: bound(told.summaries),
        retained: bound(told.retained),
        order: told.order,
    }
}
