//! Tiers 2 and 3: the tracepoints that the kernel passes when a thread has to reclaim, at the limit
//! of its group or for the machine. They need no switch, and count from the moment of opening.
//!
//! | module | is |
//! |---|---|
//! | `bpf_timed` | tier 2: two small BPF programs that count and time what one process does |
//! | `program` | their instructions |
//! | `bpf` | the system call `bpf` |
//! | `perf_event` | tier 3: perf events that count the beginnings, for each thread |
//! | `tracefs` | the numbers of tracepoints, which perf needs and BPF does not |

mod bpf;
mod bpf_timed;
mod perf_event;
mod program;
mod tracefs;

pub(super) use bpf_timed::Timed;
pub(super) use perf_event::Counted;

/// A thread begins to reclaim: at the limit of a group, and when the machine has none left.
const BEGINS: [&str; 2] = [
    "mm_vmscan_memcg_reclaim_begin",
    "mm_vmscan_direct_reclaim_begin",
];
/// It has done so.
const ENDS: [&str; 2] = [
    "mm_vmscan_memcg_reclaim_end",
    "mm_vmscan_direct_reclaim_end",
];
