//! With whom memory is shared: which other processes map the same files.

use crate::area::Kind;
use crate::caveats::not_told;
use plimsoll_kernel::mapped::{lists_alike, told_apart};
use plimsoll_kernel::mounts::Mounts;
use plimsoll_kernel::process::{Process, numbers};
use plimsoll_kernel::smaps::{Area, FileKey, each_mapping};
use plimsoll_kernel::timeout::{Missed, within};
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Most files of a process whose sharers are told, those with the most shared memory.
const MAX_FILES: usize = 64;
/// Most processes that are named for one file.
const MAX_NAMED: usize = 64;
/// Most processes that are looked at.
const MAX_PROCESSES: usize = 32_768;
/// The longest that the mappings of one process are waited for.
const PATIENCE: Duration = Duration::from_secs(1);

/// A process that maps a file too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sharer {
    /// Its number.
    pub pid: i32,
    /// Its short name.
    pub name: String,
}

/// A file and the other processes that map it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sharers {
    /// The file.
    pub name: String,
    /// The area that it belongs to.
    pub kind: Kind,
    /// The process's resident memory of this file that is mapped more than once, bytes.
    pub shared: u64,
    /// Other processes that map it; the first ones of them, if there are very many.
    pub processes: Vec<Sharer>,
    /// How many more there are.
    pub more: usize,
}

/// A file with shared memory, before it is known who shares it.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    /// One of its mappings.
    pub(crate) mapping: Area,
    pub(crate) kind: Kind,
    pub(crate) shared: u64,
}

/// Which of several files is meant.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    index: usize,
    /// Where the kernel lists several files alike: what tells this one from the others.
    apart: Option<FileKey>,
}

/// Finds who maps the files, the most shared ones first. Adds notes about what is missing.
pub(crate) fn sharers(
    own: i32,
    mut files: Vec<Candidate>,
    limit: Duration,
    notes: &mut Vec<String>,
) -> Vec<Sharers> {
    files.sort_by_key(|file| std::cmp::Reverse(file.shared));
    if files.len() > MAX_FILES {
        notes.push(format!(
            "of {} files with shared memory only the {MAX_FILES} with the most are told",
            files.len()
        ));
        files.truncate(MAX_FILES);
    }
    let end = Instant::now() + limit;
    let asked = files.clone();
    let index = within(limit.min(PATIENCE), move || wanted(own, &asked));
    let mut found: Vec<Sharers> = files
        .into_iter()
        .map(|file| Sharers {
            name: file.mapping.name,
            kind: file.kind,
            shared: file.shared,
            processes: Vec::new(),
            more: 0,
        })
        .collect();
    let index = match index {
        Ok(index) => Arc::new(index),
        Err(why) => {
            notes.push(not_told("which processes share files", why));
            return found;
        }
    };
    let (mut hidden, mut late, mut unasked) = (0, 0, None);
    for pid in processes().into_iter().filter(|&pid| pid != own) {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            late += 1;
            continue;
        }
        let keys = Arc::clone(&index);
        match within(left.min(PATIENCE), move || maps_of(pid, &keys)) {
            Ok(Ok((name, files))) => {
                for file in files {
                    add(&mut found[file], pid, &name);
                }
            }
            Ok(Err(error)) if error.is_denied() => hidden += 1,
            Ok(Err(_)) => {}
            Err(Missed::Late) => late += 1,
            Err(why) => unasked = Some((unasked.map_or(1, |(count, _)| count + 1), why)),
        }
    }
    if hidden > 0 {
        notes.push(format!(
            "processes that do not show us what they map: {hidden}; root sees those of other users"
        ));
    }
    if late > 0 {
        notes.push(not_told(
            &format!("what {late} processes share"),
            Missed::Late,
        ));
    }
    if let Some((count, why)) = unasked {
        notes.push(not_told(&format!("what {count} processes share"), why));
    }
    found
}

/// The files that are looked for, by what the kernel lists them as.
fn wanted(own: i32, files: &[Candidate]) -> HashMap<FileKey, Wanted> {
    let mounts = Process::open(own).and_then(|own| Mounts::of(&own));
    let mounts = mounts.unwrap_or_default();
    let apart = |area: &Area| {
        let kind = mounts.kind((area.file.major, area.file.minor))?;
        lists_alike(kind).then(|| told_apart(own, area, &mounts))?
    };
    let wanted = files.iter().enumerate().map(|(index, file)| {
        let apart = apart(&file.mapping);
        (file.mapping.file, Wanted { index, apart })
    });
    wanted.collect()
}

fn add(sharers: &mut Sharers, pid: i32, name: &str) {
    if sharers.processes.len() < MAX_NAMED {
        sharers.processes.push(Sharer {
            pid,
            name: name.to_owned(),
        });
    } else {
        sharers.more += 1;
    }
}

/// The numbers of all processes, sorted.
fn processes() -> Vec<i32> {
    let numbers = numbers().into_iter().flatten();
    let mut all: Vec<i32> = numbers.take(MAX_PROCESSES).collect();
    all.sort_unstable();
    all
}

/// The name of a process, and which of the files it maps.
fn maps_of(
    pid: i32,
    files: &HashMap<FileKey, Wanted>,
) -> plimsoll_kernel::Result<(String, HashSet<usize>)> {
    let process = Process::open(pid)?;
    let mut found = HashSet::new();
    let mut mounts = None;
    each_mapping(&process, &mut |area| {
        if let Some(Wanted { index, apart }) = files.get(&area.file)
            && !found.contains(index)
        {
            let is_it = apart.is_none_or(|apart| {
                let mounts = mounts.get_or_insert_with(|| Mounts::of(&process).unwrap_or_default());
                told_apart(pid, area, mounts).is_none_or(|here| here == apart)
            });
            found.extend(is_it.then_some(*index));
        }
        found.len() < files.len()
    })?;
    let name = if found.is_empty() {
        String::new()
    } else {
        process.comm()?
    };
    Ok((name, found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_the_time_is_up_nobody_is_asked_and_all_are_told_of() {
        let mut notes = Vec::new();
        let own = std::process::id() as i32;
        let file = Candidate {
            mapping: Area::default(),
            kind: Kind::Files,
            shared: 1,
        };
        let found = sharers(own, vec![file], Duration::ZERO, &mut notes);
        assert!(found[0].processes.is_empty());
        let others = processes().iter().filter(|&&pid| pid != own).count();
        let late = notes
            .iter()
            .any(|note| note.ends_with("was not told in time"));
        assert_eq!(late, others > 0, "{notes:?}");
    }
}
