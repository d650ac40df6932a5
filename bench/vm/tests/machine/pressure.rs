//! Too little memory, with swap: the kernel's stalls shrink the heap, and free memory is given back.

use super::{MIB, machine, number, output, told};
use plimsoll_testbed::{SwapFile, TestCgroup, children, skip};
use std::path::Path;

/// Memory of the group, bytes; the heap may be more.
const ROOM: u64 = 96 * MIB;

#[test]
fn stalls_shrink_the_heap_until_it_fits() {
    let Ok(group) = TestCgroup::new("mmtk-pressure", Some(ROOM)) else {
        return skip("no memory cgroup of our own here");
    };
    let Ok(_swap) = SwapFile::new(Path::new(env!("CARGO_TARGET_TMPDIR")), 384 * MIB) else {
        return skip("no swap of our own here");
    };
    for plan in ["SemiSpace", "Immix", "GenImmix"] {
        let arguments =
            format!("--plan {plan} --heap isla-vista:144m --threads 1 --workers 1 live 12m 400000");
        let mut command = machine(&arguments);
        if children::enter(&mut command, group.cgroup()).is_err() {
            return skip("a group of our own takes no processes");
        }
        let told = told(&output(command), &arguments);
        assert_eq!(number(&told, "/said/checked"), 400_000 * 4 * 30, "{plan}");
        assert!(number(&told, "/figures/stalls") > 0, "{plan}: {told}");
        let limit = number(&told, "/figures/limit");
        assert!(limit < 144 * MIB, "{plan}: the limit is {limit}");
        assert!(number(&told, "/figures/given_back") > 0, "{plan}: {told}");
    }
}
