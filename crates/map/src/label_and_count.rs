//! Labels a process and counts its pages, while the kernel still sums up what each mapping has.

use crate::cached_files::{self, Untold};
use crate::caveats::{CACHE, not_told, note_unseen, note_untold};
use crate::count::{count_exclusive, count_places};
use crate::history::{History, Sources, Unseen};
use crate::labels::{Labels, MAX_LABELS};
use crate::memory::ProcessMemory;
use crate::native;
use crate::parts::{Part, cut};
use crate::runtimes::ALL;
use crate::snapshot::{Reads, Snapshot, are_same_places};
use crate::tally::Counted;
use plimsoll_kernel::Error as KernelError;
use plimsoll_kernel::pages::{PageMap, Tier};
use plimsoll_kernel::process::Process;
use plimsoll_kernel::timeout::Missed;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The findings about a process, for attribution.
pub(crate) struct Found {
    pub(crate) runtime: Option<&'static str>,
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) parts: Arc<Vec<Part>>,
    pub(crate) counted: Counted,
    pub(crate) caches: Vec<Option<cached_files::Cache>>,
    /// Sentences about facts that could not be told.
    pub(crate) notes: Vec<String>,
}

/// Labels and counts. How much memory each mapping has takes the kernel longest to tell, so everything
/// else is done meanwhile, by what `maps` says; if the mappings changed in between, they are cut and
/// counted once more. `reads`: those of this process that are not over.
///
/// # Errors
/// As [`Snapshot::of`].
pub(crate) fn found(
    process: &Arc<Process>,
    limit: Duration,
    mut history: Option<&mut History>,
    reads: &mut Reads,
) -> Result<Found, KernelError> {
    let (snapshot, sizes) = Snapshot::begin(process, limit, &mut reads.process)?;
    let mut snapshot = Arc::new(snapshot);
    let words = is_by_words(process, limit, reads);
    let (runtime, mut labels) = labelled(process, &snapshot, limit, reads);
    let mut of_labels = std::mem::take(&mut labels.notes);
    let all = labels.labels.len();
    let mut parts = Arc::new(cut(&snapshot.mappings, &labels.labels));
    // The first look has nothing to compare with.
    let compared = history.as_deref().is_some_and(History::has_looked);
    let (mut early, mut unseen) = (None, Unseen::default());
    if !words {
        if let Some(history) = history.as_deref_mut() {
            unseen = follow(process, &snapshot, limit, false, history, reads);
        }
        early = Some(beside_sizes(
            process, &snapshot, &parts, limit, false, reads,
        ));
    }
    let mappings = sizes.wait(limit, &mut reads.process)?;
    if !are_same_places(&snapshot.mappings, &mappings) {
        parts = Arc::new(cut(&mappings, &labels.labels));
        early = None;
    }
    drop(labels);
    Arc::make_mut(&mut snapshot).mappings = mappings;
    if words && let Some(history) = history.as_deref_mut() {
        unseen = follow(process, &snapshot, limit, true, history, reads);
    }
    let late = || beside_sizes(process, &snapshot, &parts, limit, true, reads);
    let (outcome, (caches, untold)) = early.unwrap_or_else(late);
    let mut notes = snapshot.notes.clone();
    notes.append(&mut of_labels);
    if all > MAX_LABELS {
        notes.push(format!(
            "it has more than {MAX_LABELS} areas: the last ones are shown as other"
        ));
    }
    let mut counted = counted(
        process, &snapshot, &parts, limit, outcome, reads, &mut notes,
    );
    if let Some(history) = history
        && compared
    {
        let refaulted =
            |part: &Part| history.refaulted(&snapshot.mappings[part.mapping], &part.addresses);
        counted.refaulted = parts.iter().map(refaulted).collect();
        note_unseen(unseen, &mut notes);
    }
    match untold {
        Ok(untold) => note_untold(&untold, &mut notes),
        Err(why) => notes.push(not_told(CACHE, why)),
    }
    Ok(Found {
        runtime,
        snapshot,
        parts,
        counted,
        caches,
        notes,
    })
}

/// Whether pages are told by the words of the page map. Then even what is empty takes long to look
/// through.
fn is_by_words(process: &Arc<Process>, limit: Duration, reads: &mut Reads) -> bool {
    let reader = Arc::clone(process);
    let tier = reads.process.within(limit, move || {
        PageMap::open(&reader).map(|pages| pages.tier())
    });
    matches!(tier, Ok(Ok(Tier::Words)))
}

/// The labels of the runtime that recognises the process, and after them those of every program.
fn labelled(
    process: &Arc<Process>,
    snapshot: &Arc<Snapshot>,
    limit: Duration,
    reads: &mut Reads,
) -> (Option<&'static str>, Labels) {
    let mut labels = Labels::default();
    let reader = Arc::clone(process);
    let memory = match reads
        .process
        .within(limit, move || ProcessMemory::open(&reader))
    {
        Ok(Ok(memory)) => Arc::new(memory),
        Ok(Err(error)) => {
            labels.note(format!("what its memory is for could not be read: {error}"));
            return (None, labels);
        }
        Err(why) => {
            labels.note(not_told("what its memory is for", why));
            return (None, labels);
        }
    };
    let (seen, words) = (Arc::clone(snapshot), Arc::clone(&memory));
    // Each ends by itself, well before it is given up.
    let patience = limit.saturating_mul(2);
    memory.limit(limit);
    let of_runtime = reads.files.within(patience, move || {
        let mut labels = Labels::default();
        let candidate = seen.candidate();
        let runtime = ALL.iter().find(|runtime| runtime.runs(&candidate))?;
        runtime.label(&seen, &*words, &mut labels);
        Some((runtime.title(), labels))
    });
    let runtime = match of_runtime {
        Ok(Some((name, found))) => {
            labels = found;
            Some(name)
        }
        Ok(None) => None,
        Err(why) => {
            labels.note(not_told("what its runtime's areas are", why));
            None
        }
    };
    if memory.has_refused() {
        labels.note(
            "not all of what its memory is for was read: that would be more than one look may, or take \
             longer than --timeout",
        );
    }
    let seen = Arc::clone(snapshot);
    memory.limit(limit);
    let of_program = reads.process.within(patience, move || {
        let mut labels = Labels::default();
        native::label(&seen, &*memory, &mut labels);
        labels
    });
    match of_program {
        Ok(mut found) => {
            labels.labels.append(&mut found.labels);
            labels.notes.append(&mut found.notes);
        }
        Err(why) => labels.note(not_told("what its other memory is for", why)),
    }
    (runtime, labels)
}

/// Compares with the looks before. If that takes too long, they are forgotten.
fn follow(
    process: &Arc<Process>,
    snapshot: &Arc<Snapshot>,
    limit: Duration,
    sized: bool,
    history: &mut History,
    reads: &mut Reads,
) -> Unseen {
    let (reader, seen) = (Arc::clone(process), Arc::clone(snapshot));
    let (started, room) = (history.started, history.room);
    let mut own = std::mem::replace(history, History::new(started, room));
    let followed = reads.files.within(limit.saturating_mul(2), move || {
        let end = Instant::now() + limit;
        let pages = PageMap::open(&reader).ok()?;
        let mut files = cached_files::Files::default();
        let mut sources = Sources {
            pages: &pages,
            gone: &mut |area, part| files.gone(&seen, area, part),
            late: &|| Instant::now() >= end,
        };
        let unseen = own.look(&seen.mappings, sized, &mut sources);
        Some((own, unseen))
    });
    match followed {
        Ok(Some((own, unseen))) => {
            *history = own;
            unseen
        }
        Ok(None) | Err(_) => Unseen {
            late: true,
            ..Unseen::default()
        },
    }
}

/// The result of counting pages.
type Outcome = Result<Result<Counted, KernelError>, Missed>;

/// All that needs no sizes from the kernel: the places of pages, and the files in the page cache. `sized`:
/// whether the sizes are known.
fn beside_sizes(
    process: &Arc<Process>,
    snapshot: &Arc<Snapshot>,
    parts: &Arc<Vec<Part>>,
    limit: Duration,
    sized: bool,
    reads: &mut Reads,
) -> (Outcome, Caches) {
    (
        places(process, snapshot, parts, limit, sized, reads),
        cached(snapshot, parts, limit, reads),
    )
}

/// Counts where pages are.
fn places(
    process: &Arc<Process>,
    snapshot: &Arc<Snapshot>,
    parts: &Arc<Vec<Part>>,
    limit: Duration,
    sized: bool,
    reads: &mut Reads,
) -> Outcome {
    let (reader, seen, own) = (Arc::clone(process), Arc::clone(snapshot), Arc::clone(parts));
    reads.process.within(limit.saturating_mul(2), move || {
        let end = Instant::now() + limit;
        let pages = PageMap::open(&reader)?;
        Ok(count_places(&seen.mappings, &own, &pages, Some(end), sized))
    })
}

/// Counts what can be counted only now that the mappings say how much memory they have.
fn counted(
    process: &Arc<Process>,
    snapshot: &Arc<Snapshot>,
    parts: &Arc<Vec<Part>>,
    limit: Duration,
    outcome: Outcome,
    reads: &mut Reads,
    notes: &mut Vec<String>,
) -> Counted {
    let (reader, seen, own) = (Arc::clone(process), Arc::clone(snapshot), Arc::clone(parts));
    let done = match outcome {
        Ok(Ok(mut counted)) => reads.process.within(limit.saturating_mul(2), move || {
            let end = Instant::now() + limit;
            let pages = PageMap::open(&reader)?;
            count_exclusive(&seen.mappings, &own, &pages, Some(end), &mut counted);
            Ok::<_, KernelError>(counted)
        }),
        other => other,
    };
    match done {
        Ok(Ok(counted)) if !counted.missed => counted,
        Ok(Ok(counted)) => {
            notes.push(
                "not all pages could be counted in time: areas that lie in one mapping are estimated; \
                 give it longer with --timeout"
                    .into(),
            );
            counted
        }
        other => {
            let why = match other {
                Ok(Err(error)) => error.to_string(),
                Err(why) if why != Missed::Late => why.to_string(),
                _ => "they were not read in time".into(),
            };
            notes.push(format!(
                "its pages could not be counted, areas that lie in one mapping are estimated: {why}"
            ));
            Counted {
                tallies: vec![None; parts.len()],
                repeated: vec![0; parts.len()],
                ..Counted::default()
            }
        }
    }
}

/// The state of the page cache, by part, and the files for which it is not known.
type Caches = (Vec<Option<cached_files::Cache>>, Result<Untold, Missed>);

fn cached(
    snapshot: &Arc<Snapshot>,
    parts: &Arc<Vec<Part>>,
    limit: Duration,
    reads: &mut Reads,
) -> Caches {
    let (seen, own) = (Arc::clone(snapshot), Arc::clone(parts));
    let done = reads.files.within(limit.saturating_mul(2), move || {
        let end = Instant::now() + limit;
        cached_files::look(&seen, &own, Some(end))
    });
    match done {
        Ok((caches, untold)) => (caches, Ok(untold)),
        Err(why) => (Vec::new(), Err(why)),
    }
}
