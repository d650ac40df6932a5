//! The rules that are checked at every tick.
//!
//! | rule | says |
//! |---|---|
//! | budget | the limits of a domain's principals never exceed its budget, nor their own `max` |
//! | held | no limit lets a principal grow into memory that others still use |
//! | priority | no lower class has memory that a higher one wants |
//! | entitled | once things are calm, no principal at its limit stays below its entitlement less its loans |
//! | called | nobody owes unless somebody is near its limit and lacks memory, or more is used than there is |
//! | users | a user who wants anything is entitled to an equal part of the budget, whatever others ask for |
//! | waste | once things are calm, memory that a principal wants does not stay unused |
//! | victims | rungs hit only a principal that owes, past its deadline, and for no more than it owes |
//! | grace | an adapter that reports has time to collect after its deadline before anything is taken |
//! | pages | numbers are consistent, are announced when they must be, and have a heartbeat each second |
//! | steady | limits stand still where nothing changes |
//! | trust | the limit of a principal that stalls within it does not rise |
//! | quiet | a tick allocates nothing |
//! | paging | where all programs behave, the kernel never has to page |

mod rules;

use crate::program::{Nature, Program};
use plimsoll_broker::decide::{Action, Core, Figures};
use plimsoll_unit::{MIB, MILLISECOND, SECOND};
use plimsoll_wire::messages::{Id, Kind, Max};
use plimsoll_wire::page::{Level, Numbers};
use std::collections::BTreeMap;

/// Longest time that a principal may wait once things are calm: the slowest reaction, and the
/// ladder.
const PATIENCE: u64 = 20 * SECOND;
/// Time before the end in which limits must not change.
const STEADY: u64 = 15 * SECOND;
/// In a list of ids to watch: all of them.
pub(crate) const EVERYBODY: Id = 0;
const LINES: usize = 16;

/// A broken rule.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) at: u64,
    pub(crate) rule: &'static str,
    pub(crate) what: String,
    /// The involved principals.
    pub(crate) ids: Vec<Id>,
}

/// The observations of a tick.
pub(crate) struct Seen<'a> {
    pub(crate) time: u64,
    pub(crate) clock: u64,
    pub(crate) calm: bool,
    pub(crate) allocated: u64,
    pub(crate) actions: &'a [Action],
    pub(crate) core: &'a Core,
    pub(crate) programs: &'a [Program],
}

/// The history of one principal.
#[derive(Clone, Copy, Debug, Default)]
struct Past {
    page: Option<Numbers>,
    woken: Numbers,
    written: u64,
    waits: Option<u64>,
    bound: Option<u64>,
    moves: u32,
    steady_from: u64,
    /// Limit after the last tick.
    limit: Option<u64>,
}

#[derive(Debug, Default)]
pub(crate) struct Checker {
    past: BTreeMap<Id, Past>,
    disturbed: u64,
    wasting: Option<u64>,
    watch: Vec<Id>,
    lines: Vec<String>,
    steady_uses: u64,
}

type Checked = Result<(), Failure>;

fn hold(
    truth: bool,
    seen: &Seen,
    rule: &'static str,
    ids: &[Id],
    what: impl FnOnce() -> String,
) -> Checked {
    if truth {
        Ok(())
    } else {
        Err(Failure {
            at: seen.time,
            rule,
            what: what(),
            ids: ids.to_vec(),
        })
    }
}

/// Lack for which no debtor is pressed (`revocation.md`): 1/32. All of it may hit one principal,
/// the last in the lowest class.
fn slight_lack(limit: u64) -> u64 {
    (limit / 32).clamp(MIB, 32 * MIB)
}

impl Checker {
    pub(crate) fn new(watch: &[Id]) -> Checker {
        Checker {
            watch: watch.to_vec(),
            ..Checker::default()
        }
    }

    pub(crate) fn trace(&self) -> &[String] {
        &self.lines
    }

    /// Something changed from outside.
    pub(crate) fn disturbed(&mut self, time: u64) {
        self.disturbed = time;
    }

    pub(crate) fn joined(&mut self, id: Id, time: u64) {
        self.past.insert(
            id,
            Past {
                written: time,
                ..Past::default()
            },
        );
        self.disturbed = time;
    }

    pub(crate) fn left(&mut self, id: Id) {
        self.past.remove(&id);
    }

    /// The broker crashed.
    pub(crate) fn forget(&mut self) {
        self.past.clear();
    }

    pub(crate) fn after_tick(&mut self, seen: &Seen) -> Checked {
        self.note(seen);
        hold(seen.allocated == 0, seen, "quiet", &[], || {
            format!("{} allocations in a tick", seen.allocated)
        })?;
        let all: Vec<Figures> = seen.core.iter().collect();
        let figures: BTreeMap<Id, usize> = all
            .iter()
            .enumerate()
            .map(|(at, one)| (one.id, at))
            .collect();
        self.publications(seen, &all, &figures)?;
        self.trust(seen, &all)?;
        rules::rungs(seen, &mut self.past)?;
        rules::budgets(seen, &all, &figures)?;
        rules::priorities(seen, &all, &figures)?;
        rules::users(seen, &all)?;
        rules::called(seen, &all, &figures)?;
        self.entitled(seen, &all)?;
        self.waste(seen, &all)?;
        self.steady(seen, &all)?;
        Ok(())
    }

    fn note(&mut self, seen: &Seen) {
        if self.watch.is_empty() {
            return;
        }
        let domain = seen.core.domain(None).unwrap_or_default();
        let mut line = format!(
            "{:>9} ms  capacity {} used {} outsiders {} reserve {} budget {}",
            seen.time / MILLISECOND,
            domain.capacity / MIB,
            domain.used / MIB,
            domain.outsiders / MIB,
            domain.reserve / MIB,
            domain.budget / MIB,
        );
        let all = self
            .watch
            .contains(&EVERYBODY)
            .then(|| seen.core.iter().map(|one| one.id).collect());
        let watch = all.unwrap_or_else(|| self.watch.clone());
        for &id in &watch {
            if let Some(one) = seen.core.figures(id) {
                let name = seen.core.name(id).unwrap_or_default();
                let numbers = &one.numbers;
                line += &format!(
                    "\n      {id} {name} class {} weight {}: uses {} limit {} share {} target {} demand \
                     {} owed {} {:?} {:?}",
                    one.settings.priority,
                    one.settings.weight,
                    numbers.uses,
                    numbers.limit,
                    numbers.share,
                    one.wants.target,
                    one.wants.demand,
                    numbers.owed,
                    numbers.level,
                    one.rung,
                );
            }
        }
        for action in seen
            .actions
            .iter()
            .filter(|action| watch.contains(&id_of(action)))
        {
            match action {
                Action::Publish { wake, .. } => line += if *wake { " WAKE" } else { " write" },
                rung => line += &format!("\n      -> {rung:?}"),
            }
        }
        if self.lines.len() >= LINES {
            self.lines.remove(0);
        }
        self.lines.push(line);
    }

    /// Rule `pages`.
    fn publications(
        &mut self,
        seen: &Seen,
        all: &[Figures],
        figures: &BTreeMap<Id, usize>,
    ) -> Checked {
        for action in seen.actions {
            let Action::Publish { id, numbers, wake } = action else {
                continue;
            };
            hold(figures.contains_key(id), seen, "pages", &[*id], || {
                format!("a page of {id}, who left")
            })?;
            let past = self.past.entry(*id).or_default();
            past.page = Some(*numbers);
            past.written = seen.time;
            if *wake {
                past.woken = *numbers;
            }
        }
        for one in all {
            let past = self.past.entry(one.id).or_default();
            let page = past.page.unwrap_or_default();
            let ids = [one.id];
            hold(past.page.is_some(), seen, "pages", &ids, || {
                "a tick without a first page".into()
            })?;
            let same = page.limit == one.numbers.limit
                && (page.owed == 0) == (one.numbers.owed == 0)
                && page.level == one.numbers.level;
            hold(same, seen, "pages", &ids, || {
                format!("the page says {page:?}, the core {:?}", one.numbers)
            })?;
            let consistent = (page.owed == 0) == (page.deadline == 0)
                && (page.owed == 0 || page.level > Level::Normal)
                && page.owed <= page.uses
                && page.available >= page.limit;
            hold(consistent, seen, "pages", &ids, || {
                format!("numbers disagree: {page:?}")
            })?;
            let heard =
                (past.woken.owed == 0) == (page.owed == 0) && past.woken.level == page.level;
            hold(heard, seen, "pages", &ids, || {
                format!("heard {:?}, page {page:?}", past.woken)
            })?;
            let near = page.deadline == 0 || page.deadline <= seen.clock + 5 * SECOND;
            hold(near, seen, "pages", &ids, || {
                format!("a deadline far away: {page:?} at {}", seen.clock)
            })?;
            let beats = seen.time - past.written <= SECOND + 50 * MILLISECOND;
            hold(beats, seen, "pages", &ids, || {
                format!("no heartbeat since {} ms", past.written / MILLISECOND)
            })?;
        }
        Ok(())
    }

    /// Rule `trust`. The limit may rise to the principal's use: nobody's memory is taken while
    /// there is room for it.
    fn trust(&mut self, seen: &Seen, all: &[Figures]) -> Checked {
        for one in all.iter().filter(|one| one.kind == Kind::Process) {
            let past = self.past.entry(one.id).or_default();
            let before = past.limit.replace(one.numbers.limit);
            let most = before.unwrap_or(u64::MAX).max(one.numbers.uses);
            let held = !one.stalls.doubted || one.numbers.limit <= most;
            hold(held, seen, "trust", &[one.id], || {
                format!(
                    "stalls, and its limit rose from {before:?}: {:?}",
                    one.numbers
                )
            })?;
        }
        Ok(())
    }

    /// Rule `entitled`.
    fn entitled(&mut self, seen: &Seen, all: &[Figures]) -> Checked {
        // Bytes that others use beyond their limits, too few to count as a debt.
        let slight = all.iter().filter(|one| one.kind == Kind::Process);
        let slightly = |one: &Figures| {
            one.numbers
                .uses
                .saturating_sub(one.numbers.limit)
                .min(2 * MIB)
        };
        let over: u64 = slight.map(slightly).sum();
        for one in all.iter().filter(|one| one.kind == Kind::Process) {
            // It lends what it would hardly miss (`modest`); the tests of `policy` check that it
            // lends no more.
            let wants = one
                .numbers
                .share
                .min(one.wants.demand)
                .min(one.wants.target);
            // Nothing is taken from others for a principal that does not use its limit.
            let near = one.numbers.uses >= one.numbers.limit - one.numbers.limit / 8;
            let lacks = near && one.numbers.limit + slight_lack(one.numbers.limit) + over < wants;
            let past = self.past.entry(one.id).or_default();
            past.waits = if lacks {
                past.waits.or(Some(seen.time))
            } else {
                None
            };
            let since = past.waits.unwrap_or(seen.time).max(self.disturbed);
            let waited = if seen.calm {
                seen.time.saturating_sub(since)
            } else {
                0
            };
            hold(waited <= PATIENCE, seen, "entitled", &[one.id], || {
                format!(
                    "entitled to and wants {wants}, may use {} for {} ms",
                    one.numbers.limit,
                    waited / MILLISECOND
                )
            })?;
        }
        Ok(())
    }

    /// Rule `waste`, unless a group's bound explains the unused memory.
    fn waste(&mut self, seen: &Seen, all: &[Figures]) -> Checked {
        let bounded = all.iter().any(|one| {
            one.kind == Kind::Group
                && (one.settings.max != Max::NONE || seen.core.domain(Some(one.id)).is_some())
        });
        let budget = seen.core.domain(None).unwrap_or_default().budget;
        let leaves = || all.iter().filter(|one| one.kind == Kind::Process);
        let held: u64 = leaves()
            .map(|one| one.numbers.limit.max(one.numbers.uses))
            .sum();
        let wish = leaves()
            .map(|one| one.wants.demand.min(one.settings.max.cap().0))
            .fold(0u64, u64::saturating_add);
        let idle = budget.min(wish).saturating_sub(held);
        // Each limit may be one step below the decided one.
        let wasting = !bounded && idle > budget / 32 + all.len() as u64 * MIB / 4;
        self.wasting = if wasting {
            self.wasting.or(Some(seen.time))
        } else {
            None
        };
        let since = self.wasting.unwrap_or(seen.time).max(self.disturbed);
        let for_long = seen.calm && seen.time.saturating_sub(since) > PATIENCE;
        hold(!for_long, seen, "waste", &[], || {
            format!("{idle} of {budget} bytes lie idle, {wish} are wanted")
        })
    }

    /// Rule `steady`: over the last seconds of the calm, where no program misbehaves.
    fn steady(&mut self, seen: &Seen, all: &[Figures]) -> Checked {
        let restless = |program: &Program| {
            program.alive
                && !matches!(
                    program.nature,
                    Nature::Adaptive | Nature::Bursty | Nature::Static
                )
                && program.id.is_some()
        };
        let quiet = seen.calm && seen.time > self.disturbed + 40 * SECOND;
        if !quiet || seen.programs.iter().any(restless) {
            return Ok(());
        }
        // A misreading moves the last limit in order by the same amount.
        let room = MIB + seen.core.domain(None).unwrap_or_default().budget / 128;
        let uses: u64 = all.iter().map(|one| one.numbers.uses).sum();
        let owing = all.iter().any(|one| one.numbers.owed > 0);
        let moving = owing || self.steady_uses.abs_diff(uses) > uses / 100 + MIB;
        if moving {
            self.steady_uses = uses;
            self.past.values_mut().for_each(|past| past.moves = 0);
        }
        for one in all {
            let past = self.past.entry(one.id).or_default();
            if past.steady_from.abs_diff(one.numbers.limit) > one.numbers.limit / 33 + room {
                past.moves += 1;
                past.steady_from = one.numbers.limit;
            }
            let moves = past.moves;
            hold(moves <= 4, seen, "steady", &[one.id], || {
                format!(
                    "the limit moved {moves} times in {} s of calm",
                    STEADY / SECOND
                )
            })?;
        }
        Ok(())
    }

    /// Rule `paging`.
    pub(crate) fn at_end(&self, gentle: bool, paged: u64, at: u64) -> Checked {
        if gentle && paged > 0 {
            let what = format!("{paged} bytes were paged out though everybody behaved");
            return Err(Failure {
                at,
                rule: "paging",
                what,
                ids: self.past.keys().copied().collect(),
            });
        }
        Ok(())
    }
}

fn id_of(action: &Action) -> Id {
    match *action {
        Action::Publish { id, .. }
        | Action::PageOut { id, .. }
        | Action::Take { id, .. }
        | Action::Bound { id, .. } => id,
    }
}
