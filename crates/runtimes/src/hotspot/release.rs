//! Restores the flags of a machine that is let go.

use super::attach::Attach;
use super::machine::Flags;
use crate::adapter_lock::AdapterLock;
use crate::process::Process;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The flag with the percentage of free heap below which the machine makes its heap larger.
const MIN: &str = "MinHeapFreeRatio";
/// The flag with the percentage of free heap above which the machine makes its heap smaller.
const MAX: &str = "MaxHeapFreeRatio";

/// How long a command may take when the machine is let go. It is short because the caller waits.
pub(super) const RELEASE: Duration = Duration::from_millis(500);
/// The values of flags before an adapter that was killed set them.
pub(super) type Had = BTreeMap<String, u64>;

/// The values of the flags that a note names: each line is a flag and its value, in the order in which they
/// are set. If several lines name a flag, the last one counts.
pub(super) fn had(note: &str) -> Had {
    let lines = note.lines().filter_map(|line| line.split_once(' '));
    let had = lines.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?)));
    had.collect()
}

/// The text of a note about the `moved` flags of a machine.
pub(super) fn text(flags: &Flags, moved: &BTreeSet<&'static str>, had: &Had) -> String {
    let lines = settings(flags, moved, had).into_iter();
    lines
        .map(|(name, value)| format!("{name} {value}\n"))
        .collect()
}

/// Restores the flags in a note, of a machine whose adapter was killed. False if it cannot be done now.
pub fn put_back(process: Process, note: &str) -> bool {
    let Ok(_hold) = AdapterLock::of(&process) else {
        return false;
    };
    let Ok(attach) = Attach::new(process) else {
        return false;
    };
    let settings = note.lines().filter_map(|line| line.split_once(' '));
    let settings = settings.filter(|(_, value)| value.parse::<u64>().is_ok());
    for (name, value) in settings {
        if attach.command("setflag", &[name, value], RELEASE).is_err() {
            return false;
        }
    }
    true
}

/// The settings that restore the `moved` flags to their values in `flags`, and those that an earlier adapter
/// moved to what they `had`. The order matters, because the machine refuses a minimum above the maximum.
pub(super) fn settings<'a>(
    flags: &Flags,
    moved: &BTreeSet<&'static str>,
    had: &'a Had,
) -> Vec<(&'a str, u64)> {
    let moved: BTreeSet<&'a str> = moved
        .iter()
        .copied()
        .chain(had.keys().map(String::as_str))
        .collect();
    let ratios = moved.contains(MIN) || moved.contains(MAX);
    let opening = ratios.then_some((MIN, 0));
    let last = [MAX, MIN].into_iter().filter(|_| ratios);
    let others = moved
        .iter()
        .copied()
        .filter(|name| ![MIN, MAX].contains(name));
    let before = |name: &str| had.get(name).copied().or_else(|| flags.number(name));
    let restored = last
        .chain(others)
        .filter_map(|name| Some((name, before(name)?)));
    opening.into_iter().chain(restored).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_never_cross_and_what_was_not_moved_stays() {
        let flags = Flags::parse(
            "uintx MinHeapFreeRatio = 40 {manageable} {default}\n\
             uintx MaxHeapFreeRatio = 70 {manageable} {default}\n\
             size_t SoftMaxHeapSize = 512 {manageable} {default}\n",
        );
        let none = Had::new();
        let of = |names: &[&'static str]| settings(&flags, &names.iter().copied().collect(), &none);
        assert_eq!(of(&[]), []);
        assert_eq!(of(&["SoftMaxHeapSize"]), [("SoftMaxHeapSize", 512)]);
        assert_eq!(of(&[MAX]), [(MIN, 0), (MAX, 70), (MIN, 40)]);
        assert_eq!(of(&["Absent"]), []);
        let moved = [MAX].into_iter().collect();
        let text = text(&flags, &moved, &none);
        assert_eq!(
            text,
            "MinHeapFreeRatio 0\nMaxHeapFreeRatio 70\nMinHeapFreeRatio 40\n"
        );
        // An adapter was killed, and what it had set could not be put back before the next one came.
        let had = had(&text.replace("70", "60"));
        assert_eq!(
            settings(&flags, &["SoftMaxHeapSize"].into(), &had),
            [(MIN, 0), (MAX, 60), (MIN, 40), ("SoftMaxHeapSize", 512)]
        );
    }
}
