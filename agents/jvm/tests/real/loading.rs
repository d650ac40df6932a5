//! Every collector of every JDK, loaded at the start or later: the page counts what the machine counts.

use crate::machine::{Sums, Way, collectors, library, totals};
use crate::support::{LONG, counters, eventually, jdks};
use plimsoll_runtimes::hotspot::agent::{self, AgentError, PageError};
use plimsoll_runtimes::hotspot::attach::{Attach, AttachError};
use plimsoll_runtimes::hotspot::machine::Machine;
use plimsoll_runtimes::hotspot::snapshot::Snapshot;
use plimsoll_runtimes::process::Process;
use plimsoll_testbed::cases;
use plimsoll_wire::collections::{self, Collector, Kind, Signal};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

fn counted(process: &Process) -> Snapshot {
    Snapshot::of(counters(process).read().unwrap())
}

/// Each JDK and each collector sees both ways, also where every second case is run.
fn way(jdk: usize, collector: usize) -> Way {
    match (jdk + collector) / 2 % 2 {
        0 => Way::Start,
        _ => Way::Attach,
    }
}

/// How many descriptors of a process are pages.
fn pages(process: &Process) -> usize {
    let links = std::fs::read_dir(process.path("fd")).unwrap().flatten();
    let targets = links.filter_map(|link| std::fs::read_link(link.path()).ok());
    targets
        .filter(|target| target.to_string_lossy().contains(collections::NAME))
        .count()
}

fn agrees(home: &Path, collector: &str, way: Way) {
    let (mut sums, page) = Sums::of(home, collector, way, &[]);
    let what = format!("{collector} of {}, {way:?}", home.display());
    // The counts from before the agent, unless the machine collected right then.
    let before = match way {
        Way::Start => Snapshot::default(),
        Way::Attach => counted(&sums.process),
    };
    let unseen = totals(&page).pauses;
    sums.collects(&page, 5);
    sums.tell("gc");
    sums.goes_on();
    let told = sums.rest(&page);
    let now = counted(&sums.process);
    let work = |kind: usize| now.work[kind].invocations - before.work[kind].invocations;
    let about = page.view().unwrap().about();
    let named = collector.split(' ').next().unwrap_or_default();
    assert_eq!(format!("{:?}", about.collector), named, "{what}");
    assert_ne!(about.signal, Signal::None);
    assert_eq!(told.missed, 0, "{what}");
    if about.collector.is_concurrent() {
        let kinds = page.view().unwrap().pauses_after(0);
        assert!(
            kinds
                .into_iter()
                .all(|pause| pause.kind == Kind::Concurrent)
        );
        let first = page.view().unwrap().process().unwrap();
        eventually("the process is read again", || {
            page.view().unwrap().process().unwrap().at_ns > first.at_ns
        });
    } else {
        // Those between the two first looks are counted by one of them only, and so is one that was under
        // way then: the machine counts it when it begins, the agent when it ends.
        let (more, less) = match way {
            Way::Start => (0, 0),
            Way::Attach => (unseen + 1, 1),
        };
        let near = |told: u64, counted: u64| counted <= told + less && told <= counted + more;
        let seen = format!(
            "{what}: {told:?}, {unseen} unseen, {:?} {:?}",
            before.work, now.work
        );
        assert!(near(told.full, work(1)), "{seen}");
        assert!(told.full >= 1, "{what}: System.gc");
        // A whole collection may have tried a young one first, in the same pause.
        let young = told.young..=told.young + told.full;
        assert!(
            young.contains(&work(0)) || near(told.young, work(0)),
            "{seen}"
        );
        assert!(told.pauses >= told.young + told.full);
    }
    let last = page.view().unwrap().pause(told.pauses).unwrap();
    assert!(last.end_ns >= last.start_ns && last.start_ns >= about.loaded_ns);
    assert_eq!(told.given_back, 0, "nobody wished it");
    sums.quit();
}

#[test]
fn the_page_counts_what_the_machine_counts() {
    for (jdk, (version, home)) in jdks().iter().enumerate() {
        let each = collectors(*version).enumerate();
        for (index, collector) in cases::of_column(each, jdk, 2) {
            agrees(home, collector, way(jdk, index));
        }
    }
}

#[test]
fn an_agent_that_is_loaded_twice_does_nothing_the_second_time() {
    let each = [
        (Way::Start, "Serial"),
        (Way::Attach, "Serial"),
        (Way::Attach, "G1"),
    ];
    // Each with a JDK of its own.
    for ((way, collector), (_, home)) in each.into_iter().zip(jdks().into_iter().rev()) {
        let (sums, page) = Sums::of(&home, collector, way, &[]);
        let other = tempfile::tempdir().unwrap();
        let copy = other.path().join("libplimsoll_jvm.so");
        std::fs::copy(library(), &copy).unwrap();
        // Past our own check: the machine is told to load it, the same and another copy.
        let attach = Attach::new(sums.process).unwrap();
        for library in [library(), copy] {
            let path = library.to_string_lossy();
            let reply = attach.command("load", &[&path, "true", ""], Duration::from_secs(60));
            let text = reply.unwrap().text;
            assert!(text.contains("return code: 0"), "{text}");
            assert_eq!(pages(&sums.process), 1);
        }
        assert_eq!(
            sums.load().unwrap().view().unwrap().about(),
            page.view().unwrap().about()
        );
        let told = sums.collects(&page, 2);
        let numbers = page
            .view()
            .unwrap()
            .pauses_after(0)
            .map(|pause| pause.number);
        let numbers: Vec<u64> = numbers.collect();
        assert!(
            numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]),
            "each once: {numbers:?}"
        );
        assert!(told.pauses >= 2);
        sums.quit();
    }
}

/// How many mappings of a process are of the agent's library.
fn mapped(process: &Process) -> usize {
    let maps = std::fs::read_to_string(process.path("maps")).unwrap();
    maps.lines()
        .filter(|line| line.contains(agent::LIBRARY))
        .count()
}

/// Also where explicit collections are forbidden. Many requests leave nothing behind.
#[test]
fn the_agent_collects_when_it_is_asked_to_and_loads_nothing() {
    let collectors = ["Serial", "Parallel", "G1"];
    for (jdk, (_, home)) in jdks().iter().enumerate() {
        for (index, collector) in cases::of_column(collectors, jdk, 2).enumerate() {
            let flags = ["-XX:+DisableExplicitGC"];
            let (mut sums, page) = Sums::of(home, collector, way(jdk, index), &flags);
            let before = (mapped(&sums.process), pages(&sums.process));
            let full = sums.rest(&page).full;
            let attach = Attach::new(sums.process).unwrap();
            let library = library().canonicalize().unwrap();
            let arguments = [&library.to_string_lossy(), "true", "collect"];
            for _ in 0..3 {
                let reply = attach.command("load", &arguments, LONG).unwrap();
                assert_eq!(reply.text.trim(), "return code: 4", "{collector} {reply:?}");
            }
            assert_eq!(totals(&page).full, full + 3, "{collector}");
            assert_eq!((mapped(&sums.process), pages(&sums.process)), before);
            sums.tell("go on");
            sums.goes_on();
            sums.quit();
        }
    }
}

#[test]
fn a_program_that_closes_the_descriptor_goes_on_and_so_does_the_agent() {
    let Some((_, home)) = jdks().pop() else {
        return;
    };
    let load = format!("-agentpath:{}", library().display());
    let flags = [
        "-XX:+UseSerialGC",
        "-Xmx160m",
        "--add-opens=java.base/java.io=ALL-UNNAMED",
        &load,
    ];
    let mut sums = Sums::start(&home, &[], &flags, ["20", "2"]);
    let page = sums.page();
    let descriptor = sums.page_descriptor();
    let number = descriptor.file_name().unwrap().to_str().unwrap();
    sums.tell(&format!("close {number}"));
    eventually("it is closed", || pages(&sums.process) == 0);
    // A reader that had it open still sees it; one that comes later is told that there is none.
    sums.collects(&page, 3);
    assert!(matches!(
        plimsoll_runtimes::hotspot::agent::Page::of(&sums.process),
        Err(PageError::Absent { .. })
    ));
    let again = sums.load();
    assert!(
        matches!(again, Err(AgentError::Refused { .. })),
        "{again:?}"
    );
    drop(page);
    sums.goes_on();
    sums.quit();
}

/// Open files of a process, by their number.
fn open_files(process: &Process) -> BTreeMap<u32, PathBuf> {
    let links = std::fs::read_dir(process.path("fd")).unwrap().flatten();
    let named = links.filter_map(|link| {
        let number = link.file_name().to_str()?.parse().ok()?;
        Some((number, std::fs::read_link(link.path()).ok()?))
    });
    named.collect()
}

#[test]
fn descriptors_of_the_agent_that_become_connections_of_the_program_are_not_used() {
    let Some((_, home)) = jdks().pop() else {
        return;
    };
    let flags = [
        "-XX:+UseSerialGC",
        "-Xmx160m",
        "--add-opens=java.base/java.io=ALL-UNNAMED",
    ];
    let mut sums = Sums::start(&home, &[], &flags, ["20", "2"]);
    // The machine opens files for the first that attaches.
    Machine::ask(&Attach::new(sums.process).unwrap(), LONG).unwrap();
    let before = open_files(&sums.process);
    let page = sums.load().unwrap();
    let signal = page.view().unwrap().about().signal;
    sums.collects(&page, 2);
    let mut ours = open_files(&sums.process);
    ours.retain(|number, is| before.get(number) != Some(is));
    assert!(!ours.is_empty());
    for number in ours.keys() {
        sums.tell(&format!("close {number}"));
    }
    let is_closed =
        |files: &BTreeMap<u32, PathBuf>| ours.iter().all(|(n, is)| files.get(n) != Some(is));
    eventually("all are closed", || is_closed(&open_files(&sums.process)));
    sums.tell(&format!("connect {}", ours.len()));
    eventually("its connections have their numbers", || {
        let files = open_files(&sums.process);
        let is_socket = |is: &PathBuf| is.to_string_lossy().starts_with("socket:");
        ours.keys()
            .all(|number| files.get(number).is_some_and(is_socket))
    });
    // It says that anything came over a connection, or that one is gone, by ending.
    sums.collects(&page, 20);
    sums.goes_on();
    let about = page.view().unwrap().about();
    match signal {
        Signal::MajorFaults => assert_eq!(about.signal, signal),
        _ => {
            assert_eq!(about.signal, Signal::MajorFaults, "was {signal:?}");
            assert!(about.signal_text.contains("closed"), "{about:?}");
        }
    }
    sums.quit();
}

#[test]
fn what_the_user_forbids_is_not_done_and_is_said() {
    let collectors = ["-XX:+UseSerialGC", "-XX:+UseG1GC"];
    for (collector, (_, home)) in collectors.into_iter().zip(jdks().into_iter().rev()) {
        forbidden(&home, collector);
    }
}

fn forbidden(home: &Path, collector: &str) {
    let flags = [collector, "-Xmx64m", "-XX:-EnableDynamicAgentLoading"];
    let sums = Sums::start(home, &[], &flags, ["5", "1"]);
    let refused = sums.load();
    let Err(AgentError::Forbidden { why, .. }) = refused else {
        panic!("{refused:?}")
    };
    assert!(why.contains("EnableDynamicAgentLoading"), "{why}");
    sums.quit();
    let flags = [collector, "-Xmx64m", "-XX:+DisableAttachMechanism"];
    let sums = Sums::start(home, &[], &flags, ["5", "1"]);
    let attach = Attach::new(sums.process).unwrap();
    let asked = attach.command("load", &["/none", "true", ""], Duration::from_secs(2));
    assert!(
        matches!(asked, Err(AttachError::Refused { .. })),
        "{asked:?}"
    );
    sums.quit();
}

#[test]
fn a_machine_of_a_version_never_seen_gets_nothing() {
    let Some((_, home)) = jdks().pop() else {
        return;
    };
    let flags = ["-XX:+UseSerialGC", "-Xmx64m"];
    let sums = Sums::start(&home, &[], &flags, ["5", "1"]);
    let attach = Attach::new(sums.process).unwrap();
    let mut machine = Machine::ask(&attach, LONG).unwrap();
    for version in [0, 8, 26] {
        machine.version = version;
        let refused = agent::load(&sums.process, &attach, &machine, &library());
        let Err(AgentError::Forbidden { why, .. }) = refused else {
            panic!("{version}: {refused:?}")
        };
        assert!(why.contains("11 to 25"), "{why}");
    }
    let maps = std::fs::read_to_string(sums.process.path("maps")).unwrap();
    let ours = [agent::LIBRARY, collections::NAME];
    assert!(!ours.iter().any(|ours| maps.contains(ours)), "{maps}");
    sums.goes_on();
    sums.quit();
}

#[test]
fn a_collector_of_its_own_kind_is_told_as_such() {
    let Some((_, home)) = jdks().into_iter().next_back() else {
        return;
    };
    let load = format!("-agentpath:{}", library().display());
    let flags = [
        "-XX:+UnlockExperimentalVMOptions",
        "-XX:+UseEpsilonGC",
        "-Xmx1g",
        // Nothing is ever collected: slow enough for minutes.
        "-Dpause=1",
        &load,
    ];
    let sums = Sums::start(&home, &[], &flags, ["1", "1"]);
    let view = sums.page();
    let view = view.view().unwrap();
    assert_eq!(view.about().collector, Collector::Epsilon);
    assert!(view.refusal().unwrap().contains("Epsilon"));
    assert_eq!(view.totals().unwrap_or_default().pauses, 0);
    sums.quit();
}
