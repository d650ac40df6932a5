//! One look at a process: reads it, labels it, counts it, and attributes.

use crate::area::States;
use crate::attribute::{AreaOf, PartOf, Picture, attribute};
use crate::caveats::{note_forked, note_kinds};
use crate::change::{Change, Counters};
use crate::history::History;
use crate::label_and_count::{Found, found};
use crate::sharers::{Candidate, Sharers, sharers};
use crate::snapshot::Reads;
use plimsoll_kernel::Error as KernelError;
use plimsoll_kernel::process::Process;
use plimsoll_kernel::referenced;
use plimsoll_kernel::smaps::FileKey;
use plimsoll_kernel::timeout::Missed;
use plimsoll_unit::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The longest that each of the reads may take.
    pub limit: Duration,
    /// Whether to tell the states of each part of the address space too.
    pub addresses: bool,
    /// Whether to tell with whom memory is shared.
    pub who: bool,
    /// Whether to clear the reference bits afterwards, so that the next look tells what was touched
    /// since this one. The kernel then knows less of what the process uses, and may evict worse.
    pub clear_references: bool,
}

impl Default for Options {
    /// 10 seconds, areas only.
    fn default() -> Options {
        Options {
            limit: Duration::from_secs(10),
            addresses: false,
            who: false,
            clear_references: false,
        }
    }
}

/// Why there is no map of a process.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum LookError {
    #[error("no process has the number {pid}, or it has exited")]
    Gone { pid: i32 },
    #[error("process {pid} ({name}) is a thread of the kernel: it has no memory of its own to map")]
    KernelThread { pid: i32, name: String },
    #[error(transparent)]
    Kernel(KernelError),
}

/// The map of one process at one time.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Look {
    /// Its number.
    pub pid: i32,
    /// When it started: clock ticks after boot. Number and start identify a process until the next
    /// boot.
    pub started: u64,
    /// Its short name.
    pub name: String,
    /// The program that it runs; empty where that is hidden.
    pub executable: PathBuf,
    /// The runtime that was recognised.
    pub runtime: Option<String>,
    /// As the kernel counts the process. The areas sum up to it.
    pub total: States,
    /// Resident, each page divided by how many mappings it has anywhere (PSS), bytes; `None` where
    /// it is hidden.
    pub proportional: Option<u64>,
    /// The areas that have memory.
    pub areas: Vec<AreaOf>,
    /// The parts of the address space, by address, when they were asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<PartOf>,
    /// The other processes that map its files, when they were asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sharers: Vec<Sharers>,
    /// Counters that only grow.
    pub counters: Counters,
    /// The events since the look before; `None` in the first one.
    pub change: Option<Change>,
    /// Sentences that say which memory could not be told apart, and why.
    pub notes: Vec<String>,
}

impl Look {
    /// Tells what happened since an earlier look, if that was one at the same process.
    pub fn compare(&mut self, before: &Look) {
        if (self.pid, self.started) == (before.pid, before.started) {
            self.change = Some(self.counters.since(&before.counters));
        }
    }
}

/// Looks at a process. Nothing of it is touched, stopped or changed.
///
/// # Errors
/// [`LookError`]. A process of another user is none: then only the totals are told, and a note says
/// what to do.
pub fn look(pid: i32, options: &Options) -> Result<Look, LookError> {
    look_after(pid, options, None, &mut Reads::default())
}

/// As [`look`]; where earlier looks are known, also tells what came back since. `reads`: those of this
/// process that are not over.
pub(crate) fn look_after(
    pid: i32,
    options: &Options,
    mut history: Option<&mut History>,
    reads: &mut Reads,
) -> Result<Look, LookError> {
    let gone = |error| match error {
        KernelError::Gone { .. } | KernelError::Absent { .. } => LookError::Gone { pid },
        other => LookError::Kernel(other),
    };
    let process = Arc::new(Process::open(pid).map_err(gone)?);
    let name = process.comm().map_err(gone)?;
    if process.stat().map_err(gone)?.of_kernel {
        return Err(LookError::KernelThread { pid, name });
    }
    // A process that is about to exit has no memory any more.
    if process.memory_fast().map_err(gone)?.size == Bytes::ZERO {
        return Err(LookError::Gone { pid });
    }
    let mut look = Look {
        pid,
        started: process.start_time(),
        name,
        counters: Counters::of(&process),
        ..Look::default()
    };
    if let Some(history) = history.as_deref_mut()
        && history.started != look.started
    {
        *history = History::new(look.started, history.room);
    }
    let picture = match inside(&process, options, history, reads, &mut look) {
        Err(error) if error.is_denied() || error.is_busy() || error.is_missed() => {
            look.notes.clear();
            totals(&process, &error).map_err(gone)?
        }
        picture => picture.map_err(gone)?,
    };
    if options.clear_references {
        clear_references(&process, options.limit, reads, &mut look.notes);
    }
    if !process.alive() {
        return Err(LookError::Gone { pid });
    }
    look.total = picture.total;
    look.areas = picture.areas;
    look.notes.extend(picture.notes);
    Ok(look)
}

fn clear_references(
    process: &Arc<Process>,
    limit: Duration,
    reads: &mut Reads,
    notes: &mut Vec<String>,
) {
    let writer = Arc::clone(process);
    match reads
        .process
        .within(limit, move || referenced::clear(&writer))
    {
        Ok(Ok(())) => {}
        Ok(Err(error)) => notes.push(format!(
            "referenced is not since the last look, but ever: {error}"
        )),
        Err(Missed::Late) => notes.push("the reference bits were not cleared in time".into()),
        Err(why) => notes.push(format!("the reference bits were not cleared: {why}")),
    }
}

/// The numbers of a process that every user may read.
fn totals(process: &Process, why: &KernelError) -> Result<Picture, KernelError> {
    let (memory, all) = (process.memory()?, process.memory_fast()?);
    let total = States {
        size: all.size.0,
        resident: memory.resident().0,
        swapped: memory.swap.0,
        anonymous: memory.anon.0,
        ..States::default()
    };
    let pid = process.pid();
    let why = match (why.is_denied(), why.is_missed()) {
        (true, _) => format!(
            "only its user and root may see its areas; ask as one of them: sudo plimsoll map {pid}"
        ),
        (_, true) => {
            format!("its areas are missing: {why}; ask for it alone: plimsoll map {pid}")
        }
        _ => format!("its areas are missing: {why}; give it longer with --timeout"),
    };
    Ok(Picture {
        total,
        areas: Vec::new(),
        notes: vec![why],
    })
}

/// Labels, counts and attributes.
fn inside(
    process: &Arc<Process>,
    options: &Options,
    history: Option<&mut History>,
    reads: &mut Reads,
    look: &mut Look,
) -> Result<Picture, KernelError> {
    let Found {
        runtime,
        snapshot,
        parts,
        counted,
        caches,
        notes,
    } = found(process, options.limit, history, reads)?;
    look.executable.clone_from(&snapshot.executable);
    look.runtime = runtime.map(str::to_owned);
    look.notes = notes;
    let mut all = Vec::new();
    let mut shared: HashMap<FileKey, Candidate> = HashMap::new();
    let mut forked = 0;
    let picture = attribute(
        &snapshot.mappings,
        &parts,
        &counted,
        &caches,
        &mut |part, states| {
            let area = &snapshot.mappings[part.mapping];
            if options.who && area.file.inode != 0 && states.shared > Some(0) {
                let file = shared.entry(area.file).or_insert_with(|| Candidate {
                    mapping: area.clone(),
                    kind: part.kind,
                    shared: 0,
                });
                file.shared = file.shared.saturating_add(states.shared.unwrap_or(0));
            }
            if area.file.inode == 0 && area.anonymous > 0 {
                forked += states.shared.unwrap_or(0);
            }
            if options.addresses {
                all.push(PartOf {
                    start: part.addresses.start,
                    end: part.addresses.end,
                    kind: part.kind,
                    name: area.name.clone(),
                    states: *states,
                });
            }
        },
    );
    look.parts = all;
    if options.who {
        let files = shared.into_values().collect();
        look.sharers = sharers(snapshot.pid, files, options.limit, &mut look.notes);
        note_forked(forked, &mut look.notes);
    }
    note_kinds(&snapshot.mappings, &picture, &mut look.notes);
    look.proportional = Some(snapshot.mappings.iter().map(|area| area.pss).sum());
    Ok(picture)
}
