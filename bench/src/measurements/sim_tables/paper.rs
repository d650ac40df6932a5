//! The numbers of "Allocation-Phase Aware Thread Scheduling Policies to Improve Garbage Collection
//! Performance" (Xian, Srisa-an and Jiang, ISMM 2007), and where each of ours is found.

/// The paper's numbers of a program. The three are always RR, LARF and MQRR.
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
    /// Table 4: collection, execution and turnaround time under LARF, seconds.
    times: [f64; 3],
    /// Table 4: reductions of these, percent, under LARF and MQRR.
    reductions: [[f64; 2]; 3],
    /// Figure 3(a): the change of mark/cons under LARF and MQRR, percent, where the text of section 5.2 tells
    /// it.
    mark_cons: Option<f64>,
}

/// The text's numbers from Figures 6 and 7 (section 5.5): the change of this time with this collector under
/// LARF and MQRR, percent.
pub(super) fn told(program: &str, collector: &str, time: &str) -> [Option<f64>; 2] {
    match (program, collector, time) {
        ("ecperf", "MarkCompact", "collection") => [Some(15.0), None],
        _ => [None; 2],
    }
}

/// An entry of the paper's tables.
pub(super) struct Entry {
    pub(super) table: &'static str,
    pub(super) name: &'static str,
    /// Where it is in an outcome.
    pub(super) field: &'static str,
    /// Heap, in largest live sizes.
    pub(super) heap: f64,
    /// The paper's numbers, if it has some.
    pub(super) of: fn(&Paper) -> Option<[f64; 3]>,
    /// Whether its number is right under RR, too, and not only the changes.
    pub(super) has_base: bool,
}

/// The entries of Tables 2, 3 and 4 and of Figures 3, 4 and 5, all with GenMC.
pub(super) const ENTRIES: [Entry; 17] = [
    entry("2", "minor collections", "outcome/minor", |it| {
        Some(it.minor)
    }),
    entry("2", "full collections", "outcome/full", |it| Some(it.full)),
    entry("3", "contentions", "outcome/contentions", |it| {
        Some(it.contentions)
    }),
    entry("3", "switches", "outcome/switches", |it| Some(it.switches)),
    tight("collection time, s", "outcome/paused", |it| it.time(0)),
    tight("execution time, s", "outcome/execution", |it| it.time(1)),
    tight("turnaround, s", "outcome/turnaround", |it| it.time(2)),
    figure("Figure 3", "mark/cons", "mark_cons", |it| {
        it.mark_cons
            .map(|change| [100.0, 100.0 + change, 100.0 + change])
    }),
    figure(
        "Figure 3",
        "average pause, heaps",
        "average_pause",
        unaffected,
    ),
    figure(
        "Figure 3",
        "greatest pause, heaps",
        "greatest_pause",
        unaffected,
    ),
    figure(
        "Figure 4",
        "pause of a thread, least, ns/B",
        "outcome/thread_pauses/least",
        unaffected,
    ),
    figure(
        "Figure 4",
        "a quarter",
        "outcome/thread_pauses/lower",
        unaffected,
    ),
    figure(
        "Figure 4",
        "median",
        "outcome/thread_pauses/median",
        unaffected,
    ),
    figure(
        "Figure 4",
        "three quarters",
        "outcome/thread_pauses/upper",
        unaffected,
    ),
    figure(
        "Figure 4",
        "greatest",
        "outcome/thread_pauses/greatest",
        unaffected,
    ),
    figure("Figure 5", "execution time, s", "outcome/execution", |_| {
        None
    }),
    figure("Figure 5", "turnaround, s", "outcome/turnaround", |_| None),
];

const fn entry(
    table: &'static str,
    name: &'static str,
    field: &'static str,
    of: fn(&Paper) -> Option<[f64; 3]>,
) -> Entry {
    Entry {
        table,
        name,
        field,
        heap: 3.0,
        of,
        has_base: true,
    }
}

/// An entry of Table 4.
const fn tight(
    name: &'static str,
    field: &'static str,
    of: fn(&Paper) -> Option<[f64; 3]>,
) -> Entry {
    Entry {
        heap: 1.5,
        ..entry("4", name, field, of)
    }
}

/// An entry of a figure: the text tells changes at most.
const fn figure(
    table: &'static str,
    name: &'static str,
    field: &'static str,
    of: fn(&Paper) -> Option<[f64; 3]>,
) -> Entry {
    Entry {
        has_base: false,
        ..entry(table, name, field, of)
    }
}

/// The text says of hsqldb that the schedulers do not differ.
fn unaffected(paper: &Paper) -> Option<[f64; 3]> {
    (paper.mark_cons == Some(0.0)).then_some([100.0; 3])
}

impl Paper {
    /// A time of Table 4 under RR, LARF and MQRR. That under RR follows from that under LARF and its
    /// reduction.
    fn time(&self, which: usize) -> Option<[f64; 3]> {
        let [larf, mqrr] = self.reductions[which].map(|percent| 1.0 - percent / 100.0);
        let base = self.times[which] / larf;
        Some([base, base * larf, base * mqrr])
    }
}

pub(super) const HSQLDB: Paper = Paper {
    name: "hsqldb",
    size: [4.43, 134.36, 80.11, 81.0],
    minor: [6.0, 6.0, 6.0],
    full: [5.0, 5.0, 5.0],
    contentions: [3051.0, 3266.0, 2991.0],
    switches: [5907.0, 6895.0, 3911.0],
    times: [3.83, 9.09, 2.0],
    reductions: [[2.54, 5.09], [1.09, 2.18], [0.0, 0.0]],
    mark_cons: Some(0.0),
};

pub(super) const LUSEARCH: Paper = Paper {
    name: "lusearch",
    size: [16.4, 2101.92, 3.95, 32.0],
    minor: [2673.0, 2578.0, 2301.0],
    full: [2.0, 2.0, 2.0],
    contentions: [216.0, 208.0, 250.0],
    switches: [1.35e6, 1.29e6, 1.12e6],
    times: [4.06, 18.5, 10.0],
    reductions: [[14.71, 18.91], [3.65, 4.69], [9.09, 15.45]],
    mark_cons: Some(-10.0),
};

pub(super) const SPECJBB: Paper = Paper {
    name: "SPECjbb2000",
    size: [1113.86, 128_161.5, 145.52, 36.0],
    minor: [1521.0, 1301.0, 1290.0],
    full: [35.0, 25.0, 25.0],
    contentions: [85.0, 82.0, 79.0],
    switches: [23.10e6, 23.10e6, 20.34e6],
    times: [159.0, 1170.0, 102.0],
    reductions: [[13.11, 22.95], [2.01, 3.52], [13.56, 17.80]],
    mark_cons: Some(-15.0),
};

pub(super) const APPSERVER: Paper = Paper {
    name: "SPECjAppServer2004",
    size: [48.761, 1501.42, 116.01, 407.0],
    minor: [191.0, 180.0, 162.0],
    full: [94.0, 78.0, 65.0],
    contentions: [81_004.0, 80_234.0, 85_246.0],
    switches: [5.41e9, 5.41e9, 4.30e9],
    times: [504.0, 2914.0, 183.0],
    reductions: [[16.14, 16.64], [3.22, 3.32], [17.19, 21.27]],
    mark_cons: Some(-25.0),
};

pub(super) const ECPERF: Paper = Paper {
    name: "ECPerf",
    size: [34.112, 1128.01, 101.12, 405.0],
    minor: [123.0, 93.0, 102.0],
    full: [84.0, 76.0, 60.0],
    contentions: [67_213.0, 68_498.0, 64_539.0],
    switches: [3.21e9, 3.32e9, 3.07e9],
    times: [322.0, 1914.0, 181.0],
    reductions: [[21.46, 28.78], [4.40, 5.89], [11.27, 15.20]],
    mark_cons: None,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_under_mqrr_follow_from_those_under_larf() {
        let under_mqrr = [
            (HSQLDB, [3.73, 8.99, 2.0]),
            (LUSEARCH, [3.86, 18.3, 9.3]),
            (SPECJBB, [141.0, 1152.0, 97.0]),
            (APPSERVER, [501.0, 2911.0, 174.0]),
            (ECPERF, [292.0, 1884.0, 173.0]),
        ];
        for (paper, printed) in under_mqrr {
            for (which, printed) in printed.into_iter().enumerate() {
                let [_, _, mqrr] = paper.time(which).unwrap();
                assert!(
                    (mqrr / printed - 1.0).abs() < 0.005,
                    "{}: {mqrr}",
                    paper.name
                );
            }
        }
    }
}
