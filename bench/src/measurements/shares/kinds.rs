//! The kinds of programs. All kinds undergo the same changes.

use super::outcome::Rules;
use crate::harness::programs::JVMS;
use crate::harness::programs::{Jvm, Service, Work, gcbench, gcbench_java, guile, lucene, service};
use crate::harness::scenario::{Change, Conditions, Program, Scenario};
use crate::runner::V2;
use std::path::Path;

/// Bytes that the programs share.
const BUDGET: u64 = 1500 << 20;
/// Seconds that programs may take to reach their shares after a change.
const SOON: f64 = 2.0;
/// Bytes that an iteration of GCBench allocates: seven depths, each as many bytes as a tree of 2^17 nodes.
const ITERATION: u64 = 7 * (32 << 17);
/// Bytes that a request of the service allocates.
const REQUEST: u64 = (RECORDS.replaced + RECORDS.besides) as u64;
/// A service with records; a quarter of its allocation replaces some. The old generation fills with garbage,
/// so each program gains from all memory that it has.
const RECORDS: Service = Service {
    live: 100,
    replaced: 20_000,
    besides: 60_000,
    turn: 0,
    place: (0, 1),
    quiet: 100,
};
/// For collectors that run beside the program: buffers, at a pace at which a fixed heap of the
/// smallest share, 200 MB, keeps up. Three programs that build all the trees they can leave two
/// processors no time for collections.
const LIVE_BESIDE: Work = Work {
    live: 6,
    pace: 400,
    buffer: 4096,
    burst: None,
};
/// Time between two changes, seconds.
const PHASE: f64 = 10.0;
/// The same of the small kinds, which also run in a guest: there a page fault takes a hundred times as long.
const SMALL: u64 = 400 << 20;
const SMALL_PHASE: f64 = 20.0;
/// [`RECORDS`] of a small service.
const FEW_RECORDS: Service = Service {
    live: 25,
    ..RECORDS
};
/// The end of the name of a kind with lending.
const LENDING: &str = " lending";

/// A kind of programs.
#[derive(Clone, Debug)]
pub(super) struct Kind {
    /// Whether the targets apply: the programs can be steered well.
    pub(super) asked: bool,
    /// Kinds of the same number are compared with each other.
    pub(super) group: usize,
    pub(super) rules: Rules,
    pub(super) conditions: Conditions,
    /// Whether it runs in a guest with cgroup version 2.
    pub(super) elsewhere: bool,
    pub(super) scenario: Scenario,
}

/// The name of the kind without lending that one with lending is compared with.
pub(super) fn without_lending(name: &str) -> Option<&str> {
    name.strip_suffix(LENDING)
}

/// The kinds, by name. `classes` is the class path of the programs in Java. Those that also run with
/// lending, or in a guest, are followed by that.
pub(super) fn kinds(classes: &Path) -> Vec<(String, Kind)> {
    let mut kinds = Vec::new();
    for jvm in JVMS {
        kinds.push((
            jvm.name(),
            asked(unit(jvm), soon(jvm), three(|| java(jvm, classes))),
        ));
    }
    for jvm in JVMS.into_iter().filter(|jvm| !runs_beside(*jvm)) {
        let kind = asked(unit(jvm), SOON, three(|| java(jvm, classes)));
        kinds.push((format!("{} agent", jvm.name()), kind.with_agent()));
    }
    for jvm in [JVMS[0], JVMS[2], JVMS[8]] {
        let sizes = [("-Xms", BUDGET), ("-Xmx", BUDGET)];
        let sizes = sizes.map(|(flag, bytes)| format!("{flag}{}m", bytes >> 20));
        let fixed = || service(jvm, &sizes, classes, &RECORDS);
        let kind = shown(Some(REQUEST), three(fixed)).with_agent();
        kinds.push((format!("{} fixed heap agent", jvm.name()), kind));
    }
    // A line of progress for each iteration: the slowest of three takes half a second for one.
    let libgc = || {
        [
            gcbench(u32::MAX),
            ["--every", "1"].map(str::to_owned).to_vec(),
        ]
        .concat()
    };
    kinds.push(("libgc".to_owned(), asked(ITERATION, SOON, three(libgc))));
    kinds.push((
        "thirty libgc".to_owned(),
        asked(ITERATION, SOON, thirty(libgc)),
    ));
    for jvm in [JVMS[0], JVMS[3]] {
        let lucene = || lucene(jvm, None, "bench/programs/lucene/share.alg");
        kinds.push((format!("{} Lucene", jvm.name()), shown(None, three(lucene))));
    }
    kinds.push(("Guile".to_owned(), shown(None, three(|| guile(40)))));
    kinds.push((
        "small libgc".to_owned(),
        shown(Some(ITERATION), small(libgc)),
    ));
    for jvm in [JVMS[0], JVMS[2]] {
        let service = || service(jvm, &[], classes, &FEW_RECORDS);
        let kind = shown(Some(REQUEST), small(service)).with_agent();
        kinds.push((format!("small {} agent", jvm.name()), kind));
    }
    let lend = [JVMS[0], JVMS[2], JVMS[4]].map(Jvm::name);
    let lends = |name: &String| lend.contains(name) || name == "libgc";
    let each = kinds
        .into_iter()
        .enumerate()
        .flat_map(|(group, (name, mut kind))| {
            kind.group = group;
            let beside = if lends(&name) {
                Some((format!("{name}{LENDING}"), kind.clone().with_lending()))
            } else {
                let is_small = name.starts_with("small ");
                is_small.then(|| (format!("{name}{V2}"), kind.clone().elsewhere()))
            };
            [(name, kind)].into_iter().chain(beside)
        });
    each.collect()
}

/// A kind without targets.
fn shown(unit: Option<u64>, scenario: Scenario) -> Kind {
    Kind {
        asked: false,
        group: 0,
        rules: Rules { soon: SOON, unit },
        conditions: Conditions::BrokerWithoutLending,
        elsewhere: false,
        scenario,
    }
}

fn asked(unit: u64, soon: f64, scenario: Scenario) -> Kind {
    Kind {
        asked: true,
        rules: Rules {
            soon,
            unit: Some(unit),
        },
        ..shown(None, scenario)
    }
}

impl Kind {
    /// The same with our agent in each program.
    fn with_agent(mut self) -> Kind {
        for program in &mut self.scenario.programs {
            program.agent = true;
        }
        self
    }

    fn elsewhere(self) -> Kind {
        Kind {
            elsewhere: true,
            ..self
        }
    }

    fn with_lending(self) -> Kind {
        Kind {
            conditions: Conditions::Broker,
            ..self
        }
    }
}

fn java(jvm: Jvm, classes: &Path) -> Vec<String> {
    if runs_beside(jvm) {
        gcbench_java(jvm, None, classes, LIVE_BESIDE)
    } else {
        service(jvm, &[], classes, &RECORDS)
    }
}

/// Bytes that a unit of the work of [`java`] allocates.
fn unit(jvm: Jvm) -> u64 {
    if runs_beside(jvm) { ITERATION } else { REQUEST }
}

/// Seconds that programs on this JVM are given after a change. ZGC gives memory back no sooner than it was
/// measured to (`bench-hotspot`).
fn soon(jvm: Jvm) -> f64 {
    match (jvm.collector, jvm.version) {
        ("Z", 25) => 4.0,
        ("Z", _) => 2.4,
        _ => SOON,
    }
}

/// Whether the collector runs beside the program.
fn runs_beside(jvm: Jvm) -> bool {
    matches!(jvm.collector, "Z" | "Shenandoah")
}

fn three(command: impl Fn() -> Vec<String>) -> Scenario {
    three_in(BUDGET, PHASE, command)
}

fn small(command: impl Fn() -> Vec<String>) -> Scenario {
    three_in(SMALL, SMALL_PHASE, command)
}

/// Three programs in a budget, with a change after each phase.
fn three_in(budget: u64, phase: f64, command: impl Fn() -> Vec<String>) -> Scenario {
    let program = |name: &str, weight, start, stop| Program {
        name: name.to_owned(),
        weight,
        start,
        stop,
        command: command(),
        ..Program::default()
    };
    Scenario {
        budget,
        seconds: 5.0 * phase,
        programs: vec![
            program("ten", 10, 0.0, None),
            program("forty", 40, phase, Some(4.0 * phase)),
            program("twenty", 20, 2.0 * phase, None),
        ],
        changes: vec![Change {
            at: 3.0 * phase,
            name: "ten".to_owned(),
            weight: 40,
        }],
        ..Scenario::default()
    }
}

fn thirty(command: impl Fn() -> Vec<String>) -> Scenario {
    let program = |index: usize| Program {
        name: format!("p{index:02}"),
        weight: [10, 40, 20][index % 3],
        start: if index < 20 { 0.0 } else { PHASE },
        stop: (index % 10 == 9).then_some(2.0 * PHASE),
        command: command(),
        ..Program::default()
    };
    Scenario {
        budget: BUDGET,
        seconds: 3.0 * PHASE,
        programs: (0..30).map(program).collect(),
        ..Scenario::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_kind_has_a_name_that_can_be_given_alone() {
        let kinds = kinds(Path::new("/classes"));
        let names: BTreeSet<&String> = kinds.iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), kinds.len());
        let name = |name: &&String| name.strip_suffix(V2).unwrap_or(name).contains(',');
        assert!(!names.iter().any(name), "{names:?}");
    }

    #[test]
    fn fixed_heaps_have_the_agent() {
        let kinds = kinds(Path::new("/classes"));
        let fixed = kinds.iter().filter(|(name, _)| name.contains("fixed heap"));
        let fixed: Vec<&Kind> = fixed.map(|(_, kind)| kind).collect();
        assert_eq!(fixed.len(), 3);
        for program in fixed.iter().flat_map(|kind| &kind.scenario.programs) {
            assert!(program.agent && program.command.contains(&"-Xms1500m".to_owned()));
        }
    }

    #[test]
    fn who_lends_stands_beside_the_same_without_lending() {
        let kinds = kinds(Path::new("/classes"));
        let mut found = 0;
        for pair in kinds.windows(2) {
            if let Some(plain) = without_lending(&pair[1].0) {
                assert_eq!(plain, pair[0].0);
                assert_eq!(pair[0].1.conditions, Conditions::BrokerWithoutLending);
                assert_eq!(pair[1].1.conditions, Conditions::Broker);
                found += 1;
            }
        }
        assert_eq!(found, 4);
    }
}
