//! The programs of Table 1.

use plimsoll_unit::float::MIB;

/// Bytes of a working set: "most phases have a working set of about 10 KB" (section 5).
pub const WORKING_SET: u64 = 10_000;

/// A program of Table 1.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// Its name in the table, in small letters.
    pub name: &'static str,
    /// Its activity.
    pub does: &'static str,
    /// Objects that it allocates.
    pub objects: u64,
    /// Bytes that it allocates.
    pub bytes: u64,
    /// The most bytes of objects that live at one time.
    pub largest_live: u64,
    /// Its threads, the main one among them.
    pub threads: u32,
    /// Processor time of all threads, ns: the execution time of Table 4 under LARF without its time of
    /// collections.
    pub time: u64,
    /// Which part of the largest live size the main thread loads first. The paper gives it for hsqldb only,
    /// which "first loads a large database (about 80MB)".
    pub base: f64,
    /// Monitors that the threads share. Assumed.
    pub monitors: u64,
    /// Cycles in a thousand in which a thread enters a monitor. Assumed.
    pub entering: u64,
}

/// A row, as the table gives it: millions of objects, MB, MB, threads; and seconds.
const fn row(
    name: &'static str,
    does: &'static str,
    (objects, bytes, live, threads): (f64, f64, f64, u32),
    seconds: f64,
) -> Program {
    Program {
        name,
        does,
        objects: (objects * 1e6) as u64,
        bytes: (bytes * MIB) as u64,
        largest_live: (live * MIB) as u64,
        threads,
        time: (seconds * 1e9) as u64,
        base: 0.6,
        monitors: 16,
        entering: 100,
    }
}

/// All programs, in the table's order.
pub const PROGRAMS: [Program; 5] = [
    Program {
        base: 0.985,
        monitors: 8,
        entering: 500,
        ..row(
            "hsqldb",
            "transactions against a model of a bank; loads its database first",
            (4.43, 134.36, 80.11, 81),
            9.09 - 3.83,
        )
    },
    row(
        "lusearch",
        "searches for words in a corpus",
        (16.4, 2101.92, 3.95, 32),
        18.5 - 4.06,
    ),
    row(
        "specjbb2000",
        "the middle tier of an order system, 8 warehouses",
        (1113.86, 128_161.5, 145.52, 36),
        1170.0 - 159.0,
    ),
    Program {
        monitors: 64,
        entering: 900,
        ..row(
            "specjappserver2004",
            "a car manufacturer on an application server",
            (48.761, 1501.42, 116.01, 407),
            2914.0 - 504.0,
        )
    },
    Program {
        monitors: 64,
        entering: 900,
        ..row(
            "ecperf",
            "the same without its web tier",
            (34.112, 1128.01, 101.12, 405),
            1914.0 - 322.0,
        )
    },
];

/// The program with a name.
pub fn find(name: &str) -> Option<&'static Program> {
    PROGRAMS.iter().find(|program| program.name == name)
}
