//! Restores the flags of a machine that is let go.

use super::machine::Flags;
use std::collections::BTreeSet;

/// The flag with the percentage of free heap below which the machine makes its heap larger.
const MIN: &str = "MinHeapFreeRatio";
/// The flag with the percentage of free heap above which the machine makes its heap smaller.
const MAX: &str = "MaxHeapFreeRatio";

/// The settings that restore the `moved` flags to their values in `flags`. The order matters,
/// because the machine refuses a minimum above the maximum.
pub(super) fn settings(flags: &Flags, moved: &BTreeSet<&'static str>) -> Vec<(&'static str, u64)> {
    let ratios = moved.contains(MIN) || moved.contains(MAX);
    let opening = ratios.then_some((MIN, 0));
    let last = [MAX, MIN].into_iter().filter(|_| ratios);
    let others = moved
        .iter()
        .copied()
        .filter(|name| ![MIN, MAX].contains(name));
    let had = last
        .chain(others)
        .filter_map(|name| Some((name, flags.number(name)?)));
    opening.into_iter().chain(had).collect()
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
        let of = |names: &[&'static str]| settings(&flags, &names.iter().copied().collect());
        assert_eq!(of(&[]), []);
        assert_eq!(of(&["SoftMaxHeapSize"]), [("SoftMaxHeapSize", 512)]);
        assert_eq!(of(&[MAX]), [(MIN, 0), (MAX, 70), (MIN, 40)]);
        assert_eq!(of(&["Absent"]), []);
    }
}
