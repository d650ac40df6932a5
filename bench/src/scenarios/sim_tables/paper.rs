//! The figures of "Allocation-Phase Aware Thread Scheduling Policies to Improve Garbage Collection
//! Performance" (Xian, Srisa-an and Jiang, ISMM 2007), and where each of ours is found.

/// What the paper has of a program. The three are always RR, LARF and MQRR.
#[derive(Clone, Copy, Debug)]
pub(super) struct Paper {
    /// Its name there.
    pub(super) name: &'static str,
    /// Table 1: objects (millions), bytes (MB), largest live size (MB), threads.
    pub(super) size: [f64; 4],
    /// Table 2: minor and full collections.
    minor: [f64; 3],
    full: [f64; 3],
    /// Table 3.
    contentions: [f64; 3],
    switches: [f64; 3],
    /// Table 4: reductions of collection, execution and turnaround time, percent, under LARF and MQRR.
    reductions: [[f64; 2]; 3],
}

/// An entry of the paper's tables.
pub(super) struct Entry {
    pub(super) table: &'static str,
    pub(super) name: &'static str,
    /// Where it is in an outcome.
    pub(super) field: &'static str,
    /// Heap, in largest live sizes.
    pub(super) heap: f64,
    /// What the paper has, with changes of its reductions from 100.
    pub(super) of: fn(&Paper) -> [f64; 3],
}

/// The entries of Tables 2, 3 and 4, in their order.
pub(super) const ENTRIES: [Entry; 7] = [
    entry("2", "minor collections", "minor", 3.0, |it| it.minor),
    entry("2", "full collections", "full", 3.0, |it| it.full),
    entry("3", "contentions", "contentions", 3.0, |it| it.contentions),
    entry("3", "switches", "switches", 3.0, |it| it.switches),
    entry("4", "collection time", "paused", 1.5, |it| {
        left(it.reductions[0])
    }),
    entry("4", "execution time", "execution", 1.5, |it| {
        left(it.reductions[1])
    }),
    entry("4", "turnaround", "turnaround", 1.5, |it| {
        left(it.reductions[2])
    }),
];

const fn entry(
    table: &'static str,
    name: &'static str,
    field: &'static str,
    heap: f64,
    of: fn(&Paper) -> [f64; 3],
) -> Entry {
    Entry {
        table,
        name,
        field,
        heap,
        of,
    }
}

/// What reductions leave of a hundred.
fn left([larf, mqrr]: [f64; 2]) -> [f64; 3] {
    [100.0, 100.0 - larf, 100.0 - mqrr]
}

pub(super) const HSQLDB: Paper = Paper {
    name: "hsqldb",
    size: [4.43, 134.36, 80.11, 81.0],
    minor: [6.0, 6.0, 6.0],
    full: [5.0, 5.0, 5.0],
    contentions: [3051.0, 3266.0, 2991.0],
    switches: [5907.0, 6895.0, 3911.0],
    reductions: [[2.54, 5.09], [1.09, 2.18], [0.0, 0.0]],
};

pub(super) const LUSEARCH: Paper = Paper {
    name: "lusearch",
    size: [16.4, 2101.92, 3.95, 32.0],
    minor: [2673.0, 2578.0, 2301.0],
    full: [2.0, 2.0, 2.0],
    contentions: [216.0, 208.0, 250.0],
    switches: [1.35e6, 1.29e6, 1.12e6],
    reductions: [[14.71, 18.91], [3.65, 4.69], [9.09, 15.45]],
};

pub(super) const SPECJBB: Paper = Paper {
    name: "SPECjbb2000",
    size: [1113.86, 128_161.5, 145.52, 36.0],
    minor: [1521.0, 1301.0, 1290.0],
    full: [35.0, 25.0, 25.0],
    contentions: [85.0, 82.0, 79.0],
    switches: [23.10e6, 23.10e6, 20.34e6],
    reductions: [[13.11, 22.95], [2.01, 3.52], [13.56, 17.80]],
};

pub(super) const APPSERVER: Paper = Paper {
    name: "SPECjAppServer2004",
    size: [48.761, 1501.42, 116.01, 407.0],
    minor: [191.0, 180.0, 162.0],
    full: [94.0, 78.0, 65.0],
    contentions: [81_004.0, 80_234.0, 85_246.0],
    switches: [5.41e9, 5.41e9, 4.30e9],
    reductions: [[16.14, 16.64], [3.22, 3.32], [17.19, 21.27]],
};

pub(super) const ECPERF: Paper = Paper {
    name: "ECPerf",
    size: [34.112, 1128.01, 101.12, 405.0],
    minor: [123.0, 93.0, 102.0],
    full: [84.0, 76.0, 60.0],
    contentions: [67_213.0, 68_498.0, 64_539.0],
    switches: [3.21e9, 3.32e9, 3.07e9],
    reductions: [[21.46, 28.78], [4.40, 5.89], [11.27, 15.20]],
};
