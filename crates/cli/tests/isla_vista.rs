//! `plimsoll run --policy isla-vista`, alone and beside a broker, on real machines under real pressure.

mod common;

use common::ground::{alone, classes, enter, group, java, ours};
use common::{Place, Started, stderr, wait_for};
use plimsoll_kernel::capacity::Domain;
use plimsoll_testbed::{SwapFile, TestCgroup, skip};
use plimsoll_unit::{Bytes, MIB};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// Bytes of swap behind the groups here.
const SWAP: Bytes = Bytes::mib(512);

/// How often a program is started at most. The kernel kills one now and then although there is swap, with us
/// and without; the next try tells as much.
const TRIES: u32 = 6;

/// A swap file that lives as long as a test.
fn swap(place: &Place) -> Option<SwapFile> {
    let file = SwapFile::new(&place.path(""), SWAP).ok();
    if file.is_none() {
        skip("no swap file of our own here");
    }
    file
}

/// `Graph` in a machine, under Isla Vista and without a broker.
struct Graph<'a> {
    /// Whether the agent is loaded.
    agent: &'a str,
    /// Flags of the machine.
    flags: &'a [&'a str],
    /// Megabytes that live, that are allocated.
    work: [&'a str; 2],
}

impl Graph<'_> {
    /// Runs it in a group with this limit (bytes), until the kernel lets it live. `None` where that cannot be
    /// done here.
    fn run(&self, place: &Place, limit: Option<u64>) -> Option<Output> {
        let ran = self.run_steered(place, limit, true)?;
        Some(ran.output)
    }

    /// The same, under Isla Vista or, not `steered`, by the machine's own rule.
    fn run_steered(&self, place: &Place, limit: Option<u64>, steered: bool) -> Option<Ran> {
        for _ in 0..TRIES {
            let (ran, killed) = self.run_once(place, limit, steered)?;
            if !killed {
                let output = &ran.output;
                assert!(output.status.success(), "{}", stderr(output));
                return Some(ran);
            }
        }
        skip("the kernel found no memory in the group and killed the program, each time");
        None
    }

    /// Runs it once. Also tells whether the kernel killed something in its group.
    fn run_once(&self, place: &Place, limit: Option<u64>, steered: bool) -> Option<(Ran, bool)> {
        let classes = classes(place, &["bench/programs/Graph.java"])?;
        let (own, java) = (ours(place), java());
        let mut words = vec![own.to_str()?, "run", "-v", "--policy", "isla-vista"];
        words.extend(["--agent", self.agent, "--"]);
        if !steered {
            words.clear();
        }
        words.push(&java);
        words.extend(self.flags);
        words.extend(["-cp", &classes, "Graph"]);
        words.extend(self.work);
        words.push("20");
        let mut command = place.program(words[0], &words[1..]);
        let group = match limit {
            Some(limit) => Some(group("isla-vista", limit)?),
            None => None,
        };
        if let Some(group) = &group {
            enter(&mut command, group);
        }
        let output = command.output().unwrap();
        let killed = group.as_ref().is_some_and(|group| group.killed() > 0);
        let stat = group.as_ref().and_then(|group| group.cgroup().stat().ok());
        let faults = stat.map_or(0, |stat| stat.major_faults);
        Some((Ran { output, faults }, killed))
    }
}

/// The outcome of a run.
struct Ran {
    output: Output,
    /// Major faults of its group.
    faults: u64,
}

/// The last size of the heap that a machine logged by `-Xlog:gc`, bytes.
fn last_heap(log: &str) -> Option<u64> {
    // "... Pause Young (Allocation Failure) 180M->145M(443M) 119.175ms"
    let mut sizes = log.lines().filter_map(|line| {
        let (_, after) = line.split_once("->")?;
        let (_, size) = after.split_once('(')?;
        size.split_once("M)")?.0.parse::<u64>().ok()
    });
    sizes.next_back().map(|size| size * MIB)
}

/// The machine's first heap is a 64th of the memory, and Serial never shrinks below its first one.
#[test]
fn a_heap_of_serial_stays_below_its_usual_first_size_where_memory_is_short() {
    let (_alone, place) = (alone(), Place::new());
    let Some(_swap) = swap(&place) else { return };
    let total = Domain::machine().unwrap().read().unwrap().capacity;
    let limit = 176 * MIB;
    if total / 64 < Bytes(2 * limit) {
        return skip("the first heap of a machine fits into a small group here");
    }
    let graph = Graph {
        agent: "auto",
        flags: &[
            "-XX:+UseSerialGC",
            "-Xmx400m",
            "-XX:-UseContainerSupport",
            "-Xlog:gc",
        ],
        work: ["64", "1000"],
    };
    let Some(by_default) = graph.run_steered(&place, Some(limit), false) else {
        return;
    };
    let Some(steered) = graph.run_steered(&place, Some(limit), true) else {
        return;
    };
    let heap = |ran: &Ran| last_heap(&String::from_utf8_lossy(&ran.output.stdout)).unwrap();
    let heaps = [&by_default, &steered].map(heap);
    eprintln!(
        "heaps {heaps:?}, faults {} and {}",
        by_default.faults, steered.faults
    );
    assert!(heaps[1] < (total / 64).0, "{heaps:?} of {total}");
    assert!(
        2 * steered.faults < by_default.faults,
        "{} by the default, {} under Isla Vista",
        by_default.faults,
        steered.faults
    );
}

#[test]
fn a_heap_that_outgrows_memory_follows_its_stalls_and_no_broker_is_started() {
    let (_alone, place) = (alone(), Place::new());
    let Some(_swap) = swap(&place) else { return };
    let graph = Graph {
        agent: "never",
        flags: &["-XX:+UseSerialGC", "-Xmx400m"],
        work: ["60", "500"],
    };
    let Some(output) = graph.run(&place, Some(128 * MIB)) else {
        return;
    };
    let said = stderr(&output);
    assert!(said.contains("no broker runs"), "{said}");
    assert!(said.contains("stalls: "), "{said}");
    assert!(said.contains("its heap follows Isla Vista"), "{said}");
    assert!(!place.socket().exists(), "no broker was started");
}

#[test]
fn without_pressure_no_stall_sizes_the_heap() {
    let (_alone, place) = (alone(), Place::new());
    let graph = Graph {
        agent: "never",
        flags: &["-XX:+UseSerialGC", "-Xmx400m"],
        work: ["30", "1000"],
    };
    let Some(output) = graph.run(&place, None) else {
        return;
    };
    let said = stderr(&output);
    assert!(
        said.contains("added after java: -Xms32m -XX:-ShrinkHeapInSteps\n"),
        "{said}"
    );
    assert!(!said.contains("follows Isla Vista"), "{said}");
}

#[test]
fn a_machine_in_which_nobody_may_ask_for_collections_follows_too() {
    let (_alone, place) = (alone(), Place::new());
    let Some(_swap) = swap(&place) else { return };
    let graph = Graph {
        agent: "auto",
        flags: &["-XX:+UseSerialGC", "-Xmx400m", "-XX:+DisableExplicitGC"],
        work: ["60", "500"],
    };
    let Some(output) = graph.run(&place, Some(128 * MIB)) else {
        return;
    };
    let said = stderr(&output);
    assert!(
        said.contains("-XX:+DisableExplicitGC: the agent collects"),
        "{said}"
    );
    assert!(said.contains("has the agent; stalls by "), "{said}");
    assert!(said.contains("its heap follows Isla Vista"), "{said}");
}

#[test]
fn a_machine_that_lets_nobody_attach_runs_as_without_us_and_it_is_said() {
    let (_alone, place) = (alone(), Place::new());
    let graph = Graph {
        agent: "auto",
        flags: &[
            "-XX:+UseSerialGC",
            "-Xmx400m",
            "-XX:+DisableAttachMechanism",
        ],
        work: ["30", "3000"],
    };
    let Some(output) = graph.run(&place, None) else {
        return;
    };
    let said = stderr(&output);
    assert!(said.contains("lets nobody attach"), "{said}");
    assert!(said.contains("-agentpath:"), "{said}");
    assert!(!said.contains("follows Isla Vista"), "{said}");
}

/// Nothing that the policy says helps, and nothing of it may make the machine end. The kernel may: where it
/// finds nothing that can go to swap at once, it kills this program without us, too.
#[test]
fn where_what_lives_does_not_fit_the_program_still_comes_to_its_end() {
    let (_alone, place) = (alone(), Place::new());
    let Some(_swap) = swap(&place) else { return };
    let graph = Graph {
        agent: "auto",
        flags: &["-XX:+UseSerialGC", "-Xmx300m"],
        work: ["110", "200"],
    };
    let Some(output) = graph.run(&place, Some(136 * MIB)) else {
        return;
    };
    let done = String::from_utf8_lossy(&output.stdout);
    assert!(done.contains("\"event\":\"done\""), "{done}");
}

/// A program to which the broker has promised memory that its group does not have.
struct Promised {
    /// Its group.
    group: TestCgroup,
    /// The program.
    _run: Started,
    /// Its log.
    log: PathBuf,
}

/// Name of the program.
const NAME: &str = "promised";
/// Limit of its group while it is pressed, bytes. The group has no limit at first.
const PRESSED: u64 = 178 << 20;

impl Promised {
    fn start(place: &mut Place) -> Option<Promised> {
        let churn = "crates/runtimes/tests/java/Churn.java";
        let classes = classes(place, &[churn])?;
        let Ok(group) = TestCgroup::new("promised", None) else {
            skip("no cgroup of our own here");
            return None;
        };
        let (own, java, log) = (ours(place), java(), place.path("log"));
        let own = own.to_str()?;
        // The broker comes with the first program, which is not in the group.
        let mut first = place.program(own, &["run", "-n", "first", "--", "sleep", "600"]);
        place.keep(Started(first.stdout(Stdio::null()).spawn().unwrap()));
        place.attached("first");
        let mut words = vec!["run", "-n", NAME, "--policy", "isla-vista"];
        let file = log.display().to_string();
        words.extend(["--agent", "auto", "--log", &file, "--", &java]);
        words.extend(["-XX:+UseSerialGC", "-Xmx500m", "-cp", &classes]);
        words.extend(["Churn", "120", "50", "5"]);
        let mut command: Command = place.program(own, &words);
        enter(&mut command, &group);
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        let run = Started(command.spawn().unwrap());
        Some(Promised {
            group,
            _run: run,
            log,
        })
    }

    /// The kernel refuses while the program reads its pages back faster than they go.
    fn limit(&self, bytes: u64) {
        wait_for("the limit is set", || {
            self.group.cgroup().set_limit(Some(Bytes(bytes))).ok()
        });
    }

    fn said(&self, words: &str) -> bool {
        let log = std::fs::read_to_string(&self.log);
        log.is_ok_and(|log| log.contains(words))
    }
}

impl Drop for Promised {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = std::fs::read_to_string(&self.log).unwrap_or_default();
            eprintln!("killed {}: {log}", self.group.killed());
        }
    }
}

/// The row of the program in `plimsoll ps --json`.
fn row(place: &Place) -> serde_json::Value {
    fn find(rows: &serde_json::Value) -> Option<&serde_json::Value> {
        let rows = rows.as_array()?;
        let here = rows.iter().find(|row| row["name"] == NAME);
        here.or_else(|| rows.iter().find_map(|row| find(&row["children"])))
    }
    let text = place.text(&["ps", "--json"]);
    let listing: serde_json::Value = serde_json::from_str(&text).unwrap();
    find(&listing["principals"]).cloned().unwrap_or_default()
}

#[test]
fn beside_a_broker_the_smaller_limit_holds_and_stalls_within_the_grant_are_shown() {
    let (_alone, mut place) = (alone(), Place::new());
    let Some(_swap) = swap(&place) else { return };
    let Some(promised) = Promised::start(&mut place) else {
        return;
    };
    wait_for("the agent is in it, and ps says so", || {
        (row(&place)["adapter"] == "hotspot-agent").then_some(())
    });
    let line = |place: &Place| {
        let table = place.text(&["ps"]);
        let line = table.lines().find(|line| line.contains(NAME));
        line.unwrap_or_default().to_owned()
    };
    assert!(line(&place).contains(", agent"), "{}", line(&place));
    // Below another principal it is not counted in the group whose limit binds it.
    place.text(&["set", NAME, "--parent", "first"]);
    let number = |row: &serde_json::Value, name: &str| row[name].as_u64().unwrap_or(0);
    let granted = wait_for("the broker grants more than there will be", || {
        let row = row(&place);
        let (granted, uses) = (number(&row, "limit"), number(&row, "uses"));
        (granted > 2 * PRESSED && uses > PRESSED + 8 * MIB).then_some(row)
    });
    assert!(
        number(&granted, "uses") <= number(&granted, "limit"),
        "{granted}"
    );
    promised.limit(PRESSED);
    wait_for("its stalls are shown", || {
        row(&place)["stall_rate"].as_u64().filter(|&rate| rate > 0)
    });
    let held = wait_for("they hold its limit", || {
        let row = row(&place);
        (row["doubted"] == true).then_some(row)
    });
    wait_for("ps shows both", || {
        let line = line(&place);
        (line.contains("stalls/s") && line.contains("limit held")).then_some(())
    });
    let mut before = Some(number(&held, "limit"));
    wait_for("its heap follows them", || {
        let row = row(&place);
        let most = before.map(|limit| limit.max(number(&row, "uses")));
        let limit = (row["doubted"] == true).then(|| number(&row, "limit"));
        assert!(
            limit <= most || most.is_none(),
            "it rose from {most:?}: {row}"
        );
        before = limit;
        promised.said("follows Isla Vista").then_some(())
    });
    wait_for(
        "what it has is far below what was granted, swap included",
        || {
            let row = row(&place);
            let takes = number(&row, "uses") + number(&row, "swapped");
            (takes < number(&row, "limit") / 2).then_some(())
        },
    );
    // From here on there is room, and the broker's limit is the smaller one.
    promised.limit(700 * MIB);
    let most = 190 * MIB;
    place.text(&["set", NAME, "--max", "190M"]);
    wait_for("the broker's limit holds", || {
        let row = row(&place);
        let within = number(&row, "limit") <= most && number(&row, "uses") <= most;
        (within && number(&row, "collections") > 0 && number(&row, "owed") == 0).then_some(())
    });
    assert_eq!(promised.group.killed(), 0);
}
