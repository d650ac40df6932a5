//! Where `/proc` shows a process. Once its first thread has ended and others go on (`pthread_exit` in
//! `main`), the kernel shows `/proc/PID` as that of a zombie: without memory, program, open files and root,
//! and in the top cgroup of version 1. A living thread shows all of it. Source: kernel document `proc.rst`
//! 1.1, `fs/proc/base.c`.
//!
//! Threads are looked for only once the first one says nothing, so that other processes cost nothing more.

use super::{Stat, exists, parse_stat, proc_path};
use crate::reader::read_text;
use crate::{Error, Result};
use std::fmt::Display;
use std::path::{Path, PathBuf};

/// How many threads are tried, because each may end while it is read.
const MAX_TURNS: usize = 8;
/// The most threads that are looked at for a living one. Those that have ended are listed only while a
/// debugger holds them.
const MAX_LOOKED_AT: usize = 1024;
/// Longest `stat` that is read, bytes.
const MAX_STAT: usize = 4 << 10;
/// Files that a thread has only in the directory `/proc/TID`, which the kernel does not list.
const NOT_BELOW_TASK: [&str; 2] = ["map_files", "timens_offsets"];

/// `/proc/PID/NAME`; that of a living thread if the first one has ended. The path is meant to be used at
/// once, because that thread may end too.
pub fn place(pid: impl Display, name: &str) -> PathBuf {
    match living_thread(&pid) {
        Some(tid) => of_thread(&pid, tid, name),
        None => proc_path(pid, name),
    }
}

/// A living thread of a process whose first thread has ended. `None` if that one lives, or if none does.
pub(crate) fn living_thread(pid: impl Display) -> Option<i32> {
    let mut text = Vec::new();
    let mut stat = |path: &Path| -> Option<Stat> {
        text.clear();
        read_text(path, MAX_STAT, &mut text).ok()?;
        parse_stat(&text)
    };
    let first = stat(&proc_path(&pid, "stat"))?;
    if !first.is_exiting || first.threads < 2 {
        return None;
    }
    let threads = std::fs::read_dir(proc_path(&pid, "task")).ok()?.flatten();
    let mut threads = threads.take(MAX_LOOKED_AT).map(|thread| thread.path());
    let living =
        threads.find(|thread| stat(&thread.join("stat")).is_some_and(|it| !it.is_exiting))?;
    living.file_name()?.to_str()?.parse().ok()
}

/// Reads a file of a process, or that of a living thread where the first says nothing.
///
/// # Errors
/// Those of `read`.
pub(crate) fn through<T>(
    pid: impl Display,
    name: &str,
    says_nothing: impl Fn(&T) -> bool,
    mut read: impl FnMut(&Path) -> Result<T>,
) -> Result<T> {
    let found = read(&proc_path(&pid, name));
    through_living(pid, name, found, says_nothing, read)
}

/// Reads up to `max` bytes of the text of such a file.
///
/// # Errors
/// As [`read_text`].
pub(crate) fn text_through(
    pid: impl Display,
    name: &str,
    max: usize,
    says_nothing: impl Fn(&Vec<u8>) -> bool,
) -> Result<Vec<u8>> {
    through(pid, name, says_nothing, |path| {
        let mut text = Vec::new();
        read_text(path, max, &mut text)?;
        Ok(text)
    })
}

/// As [`through`], when `found` was read of the first thread.
pub(crate) fn through_living<T>(
    pid: impl Display,
    name: &str,
    mut found: Result<T>,
    says_nothing: impl Fn(&T) -> bool,
    mut read: impl FnMut(&Path) -> Result<T>,
) -> Result<T> {
    for _ in 0..MAX_TURNS {
        let is_told = found
            .as_ref()
            .map_or_else(Error::is_denied, |found| !says_nothing(found));
        if is_told {
            break;
        }
        let Some(tid) = living_thread(&pid) else {
            break;
        };
        found = read(&of_thread(&pid, tid, name));
        if !is_thread(&pid, tid) {
            // Another process may have got the number since, and the reading may be of that one.
            found = Err(Error::Gone { pid: tid });
        }
    }
    found
}

/// Does a call that takes the number of any thread of a process: with that of the first one, and where it
/// finds none, with that of a living one.
///
/// # Errors
/// Those of `call`; `ESRCH` if no thread lives.
pub(crate) fn by_thread<T>(
    pid: i32,
    mut call: impl FnMut(i32) -> std::io::Result<T>,
) -> std::io::Result<T> {
    let is_none = |error: &std::io::Error| error.raw_os_error() == Some(libc::ESRCH);
    let mut done = call(pid);
    for _ in 0..MAX_TURNS {
        let Err(error) = &done else { break };
        let Some(tid) = is_none(error).then(|| living_thread(pid)).flatten() else {
            break;
        };
        done = call(tid);
        if !is_thread(pid, tid) {
            done = Err(std::io::Error::from_raw_os_error(libc::ESRCH));
        }
    }
    done
}

fn of_thread(pid: impl Display, tid: i32, name: &str) -> PathBuf {
    if NOT_BELOW_TASK.iter().any(|own| name.starts_with(own)) {
        proc_path(tid, name)
    } else {
        proc_path(pid, &format!("task/{tid}/{name}"))
    }
}

fn is_thread(pid: impl Display, tid: i32) -> bool {
    exists(format_args!("{pid}/task/{tid}"))
}
