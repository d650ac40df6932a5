//! A line for each of several processes.

use crate::map::number::Number;
use crate::rows::shown;
use plimsoll_map::{Kind, Look};
use std::fmt::Write as _;

/// Columns of a name; fewer on a narrow terminal.
const NAME: usize = 15;
/// All other columns.
const REST: usize = 7 + 1 + 1 + 9 + 9 + 8 + 7 + 7;

/// The numbers in the line of a process, bytes.
struct Sums {
    swapped: u64,
    heap: u64,
    free: u64,
}

/// A column: its head, its width, and its number.
type Column = (&'static str, usize, fn(&Sums) -> u64);

impl Sums {
    fn of(look: &Look) -> Sums {
        let resident = |is: fn(Kind) -> bool| {
            let areas = look.areas.iter().filter(|area| is(area.kind));
            areas.map(|area| area.states.resident).sum()
        };
        Sums {
            swapped: look.total.swapped,
            heap: resident(|kind| kind <= Kind::Heap),
            free: resident(|kind| kind == Kind::FreeHeap),
        }
    }
}

/// Adds a line for each process, the largest first. Columns that say nothing are left out.
pub(super) fn add(text: &mut String, looks: &[Look], width: usize) {
    let mut rows: Vec<(&Look, Sums)> = looks.iter().map(|look| (look, Sums::of(look))).collect();
    rows.sort_by_key(|(look, sums)| {
        std::cmp::Reverse(look.total.resident.saturating_add(sums.swapped))
    });
    let name = NAME.min(width.saturating_sub(REST)).max(8);
    let columns: [Column; 3] = [
        ("SWAPPED", 8, |sums| sums.swapped),
        ("HEAP", 7, |sums| sums.heap),
        ("FREE", 7, |sums| sums.free),
    ];
    let says = |of: &fn(&Sums) -> u64| rows.iter().any(|(_, sums)| of(sums) > 0);
    let columns = columns.iter().filter(|(_, _, of)| says(of));
    let _ = write!(
        text,
        "{:>7} {:<name$} {:<9}{:>9}",
        "PID", "NAME", "RUNTIME", "RESIDENT"
    );
    for (head, width, _) in columns.clone() {
        let _ = write!(text, "{head:>width$}");
    }
    text.push('\n');
    for (look, sums) in &rows {
        let runtime = look.runtime.as_deref().unwrap_or("-");
        let resident = Number::Exact(look.total.resident).human();
        let called = shown(&look.name, name);
        let _ = write!(
            text,
            "{:>7} {called:<name$} {runtime:<9}{resident:>9}",
            look.pid
        );
        for (_, width, of) in columns.clone() {
            let number = match of(sums) {
                0 => Number::Unknown,
                bytes => Number::Exact(bytes),
            };
            let _ = write!(text, "{:>width$}", number.human());
        }
        text.push('\n');
    }
}
