//! Environment variables, named as libgc's. A program with more rights than the user who starts it
//! (set-user-ID, file capabilities) ignores them. Otherwise it would write a log with its own
//! rights, or follow a broker of another user.

use crate::abi::variables::{
    EARLY_MOST, GC_all_interior_pointers, GC_dont_gc, GC_find_leak, GC_free_space_divisor,
    GC_full_freq, GC_max_retries, GC_time_limit, GC_use_entire_heap, no_automatic,
    unmap_on_gcollect,
};
use crate::quantum;
use crate::{diagnostics, output};
use libc::c_int;
use plimsoll_collector::Settings;
use plimsoll_heap::{Heap, Means};
use plimsoll_kernel::environment::variable;
use std::ffi::OsStr;

/// Whether the variable is set.
pub(crate) fn is_set(name: &str) -> bool {
    variable(name).is_some()
}

/// A number, perhaps with one of the units k, m and g.
pub(crate) fn number(name: &str) -> Option<usize> {
    parse(&variable(name)?)
}

fn parse(said: &OsStr) -> Option<usize> {
    let text = said.to_str()?.trim();
    let (digits, unit) = match text.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 10),
        None => match text.strip_suffix(['m', 'M']) {
            Some(digits) => (digits, 20),
            None => match text.strip_suffix(['g', 'G']) {
                Some(digits) => (digits, 30),
                None => (text, 0),
            },
        },
    };
    digits.parse::<usize>().ok()?.checked_mul(1 << unit)
}

/// Turns the memory quantum on.
fn begin_quantum(said: &OsStr) {
    match parse(said) {
        Some(bytes) => quantum::begin(bytes),
        None => diagnostics::warn(
            c"PLIMSOLL_GC_QUANTUM is no number of bytes (such as 10k or 1m): no thread gives way\n",
            0,
        ),
    }
}

/// A number as parsed by C's `atoi`, which libgc uses for values without units: text after the
/// digits is ignored.
fn integer(name: &str) -> Option<usize> {
    let text = variable(name)?;
    let text = text.to_str()?.trim_start();
    let text = text.strip_prefix('+').unwrap_or(text);
    let end = text
        .find(|letter: char| !letter.is_ascii_digit())
        .unwrap_or(text.len());
    text[..end].parse().ok()
}

/// Limits the means by which the collector copes with swap.
fn limit_means(heap: &Heap, said: &OsStr) {
    match said.to_str() {
        Some("resizing") => heap.limit_means(Means::Resizing),
        Some("order") => heap.limit_means(Means::Order),
        Some("bookmarks") => heap.limit_means(Means::Bookmarks),
        _ => diagnostics::warn(
            c"PLIMSOLL_GC_MEANS is none of resizing, order and bookmarks: all means are used\n",
            0,
        ),
    }
}

/// Whether incremental mode is on from the beginning.
pub(crate) fn wants_incremental() -> bool {
    is_set("GC_ENABLE_INCREMENTAL")
}

/// Whether collections of young objects are forbidden, even if the program asks for them.
fn forbids_incremental() -> bool {
    is_set("GC_DISABLE_INCREMENTAL")
}

/// The wishes in the environment for a new collector.
pub(crate) struct Asked {
    pub(crate) settings: Settings,
    /// The number of markers.
    pub(crate) markers: Option<usize>,
    /// Collections are logged.
    pub(crate) logs: bool,
}

/// Reads all variables. As in libgc, a value that is not a number counts as not set.
pub(crate) fn read(heap: &Heap) -> Asked {
    if let Some(path) = variable("GC_LOG_FILE") {
        output::log_to(
            &path,
            variable("GC_ONLY_LOG_TO_FILE").is_some_and(|said| said != "0"),
        );
    }
    if is_set("GC_DONT_GC") {
        GC_dont_gc.set(1);
    }
    if is_set("GC_FIND_LEAK") {
        GC_find_leak.set(1);
    }
    if is_set("GC_ALL_INTERIOR_POINTERS") {
        GC_all_interior_pointers.set(1);
    }
    if is_set("GC_DISABLE_AUTOMATIC_COLLECTION") {
        no_automatic.set(1);
    }
    if let Some(said) = variable("GC_FORCE_UNMAP_ON_GCOLLECT") {
        unmap_on_gcollect.set(c_int::from(said != "0"));
    }
    if let Some(said) = variable("GC_USE_ENTIRE_HEAP") {
        GC_use_entire_heap.set(c_int::from(said != "0"));
    }
    if let Some(divisor) = integer("GC_FREE_SPACE_DIVISOR").filter(|&divisor| divisor > 0) {
        GC_free_space_divisor.set(divisor);
    }
    if let Some(often) = integer("GC_FULL_FREQUENCY").filter(|&often| often > 0) {
        GC_full_freq.set(often.min(i32::MAX as usize) as i32);
    }
    if let Some(milliseconds) = integer("GC_PAUSE_TIME_TARGET").filter(|&time| time > 0) {
        GC_time_limit.set(milliseconds as u64);
    }
    if is_set("GC_MAXIMUM_HEAP_SIZE") && GC_max_retries.get() == 0 {
        GC_max_retries.set(2);
    }
    if let Some(said) = variable("PLIMSOLL_GC_MEANS") {
        limit_means(heap, &said);
    }
    if let Some(said) = variable("PLIMSOLL_GC_QUANTUM") {
        begin_quantum(&said);
    }
    Asked {
        settings: Settings {
            initial: number("GC_INITIAL_HEAP_SIZE").unwrap_or(0),
            most: number("GC_MAXIMUM_HEAP_SIZE")
                .or(Some(EARLY_MOST.get()))
                .filter(|&most| most > 0),
            untracked: forbids_incremental(),
        },
        markers: number("GC_MARKERS").or_else(|| number("GC_NPROCS")),
        logs: is_set("GC_PRINT_VERBOSE_STATS") || is_set("GC_PRINT_STATS"),
    }
}
