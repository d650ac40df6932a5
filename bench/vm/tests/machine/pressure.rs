//! Too little memory, with swap: the kernel's stalls shrink the heap, and free memory is given back.

use super::{machine, number, output, told};
use plimsoll_testbed::{SwapFile, TestCgroup, children, skip};
use plimsoll_unit::{Bytes, MIB};
use serde_json::Value;
use std::path::Path;

/// Memory of the group, bytes; the heap may be more.
const ROOM: u64 = 96 * MIB;

/// How often a program is started at most. The kernel kills a third to a half of the programs under Immix,
/// although swap is free: all of the group's pages were in use lately, and it looks through them a few
/// times within milliseconds and does not wait until those that it has begun to write are out.
pub(super) const TRIES: u32 = 12;

#[test]
fn stalls_shrink_the_heap_until_it_fits() {
    let Ok(_swap) = SwapFile::new(Path::new(env!("CARGO_TARGET_TMPDIR")), Bytes::mib(384)) else {
        return skip("no swap of our own here");
    };
    for plan in ["SemiSpace", "Immix", "GenImmix"] {
        let arguments =
            format!("--plan {plan} --heap isla-vista:144m --threads 1 --workers 1 live 12m 400000");
        let Some(told) = short_of_memory(&arguments) else {
            return;
        };
        assert_eq!(number(&told, "/said/checked"), 400_000 * 4 * 30, "{plan}");
        assert!(number(&told, "/figures/stalls") > 0, "{plan}: {told}");
        let limit = number(&told, "/figures/limit");
        assert!(limit < 144 * MIB, "{plan}: the limit is {limit}");
        assert!(number(&told, "/figures/given_back") > 0, "{plan}: {told}");
    }
}

/// Runs the machine in too little memory, until the kernel lets it live, and returns what it told. `None`
/// where that cannot be done here.
fn short_of_memory(arguments: &str) -> Option<Value> {
    for _ in 0..TRIES {
        let Ok(group) = TestCgroup::new("mmtk-pressure", Some(Bytes(ROOM))) else {
            skip("no memory cgroup of our own here");
            return None;
        };
        let mut command = machine(arguments);
        if children::enter(&mut command, group.cgroup()).is_err() {
            skip("a group of our own takes no processes");
            return None;
        }
        let output = output(command);
        if group.killed() == 0 {
            return Some(told(&output, arguments));
        }
    }
    skip("the kernel found no memory in the group and killed the program, each time");
    None
}
