//! Java programs under `plimsoll run` when memory is really short. With swap they must stay out of it;
//! without swap the kernel kills a program that exceeds the limit.

mod common;

use common::ground::{alone, classes, enter, group, jdk, run_in, swap, without_swap};
use common::{Place, Started, alive, stderr, wait_for};
use plimsoll_kernel::process::Process;
use plimsoll_testbed::{TestCgroup, cases};
use plimsoll_unit::MIB;
use std::process::Stdio;
use std::time::Duration;

const PROGRAMS: [&str; 2] = [
    "bench/programs/Service.java",
    "bench/programs/Container.java",
];

/// Single programs without swap: each version, the two that were killed most with both collectors.
/// `make test` runs every second one of these and of the crowds, `make test-machines` all.
const SINGLE: [(&str, u32); 6] = [
    ("Serial", 11),
    ("G1", 17),
    ("Serial", 17),
    ("G1", 21),
    ("G1", 25),
    ("Serial", 25),
];

/// The last value that a program printed for this name.
fn said(place: &Place, log: &str, key: &str) -> u64 {
    let text = std::fs::read_to_string(place.path(log)).unwrap_or_default();
    let after = text.rsplit(&format!("\"{key}\":")).next().unwrap_or("");
    let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(0)
}

/// Three services. Each fills half of its share with live records and replaces some with each
/// request. The garbage is in the old generation, so only collections of that generation free it.
/// Before the heaps were held at their limits they had 60,000 to 300,000 major faults each in 45 seconds.
#[test]
fn services_that_fill_their_shares_stay_out_of_swap() {
    let _alone = alone();
    for (collector, version) in [("G1", 25), ("Serial", 21)] {
        let place = Place::new();
        let (Some(classes), Some(group)) = (classes(&place, &PROGRAMS), group("want", 800 * MIB))
        else {
            return;
        };
        let Some(_swap) = swap(&place) else { return };
        let java = jdk(version);
        let use_collector = format!("-XX:+Use{collector}GC");
        let mut services = Vec::new();
        for index in 0..3 {
            let name = format!("s{index}");
            let own = index.to_string();
            let args = [
                "run",
                "-n",
                &name,
                "--",
                &java,
                &use_collector,
                "-cp",
                &classes,
                "Service",
                "112",
                "3000",
                "60000",
                "4",
                &own,
                "3",
                "5",
            ];
            let mut command = place.command(&args);
            enter(&mut command, &group);
            let output = std::fs::File::create(place.path(&name)).unwrap();
            command.stdout(output).stderr(Stdio::null());
            services.push(Started(command.spawn().unwrap()));
        }
        std::thread::sleep(Duration::from_secs(16));
        let mut faults = 0;
        for index in 0..3 {
            let name = format!("s{index}");
            wait_for(&format!("{collector}: {name} works"), || {
                (said(&place, &name, "work") > 1000).then_some(())
            });
            let pid = place.attached(&name).pid.expect("is attached");
            let process = Process::open(pid as i32).expect("runs");
            faults += process.faults().expect("can be read").major;
        }
        let hits = group.cgroup().events().map_or(0, |events| events.max);
        // Faults from swap or disk at the start: a thousandth of the former number.
        assert!(
            faults < 2000,
            "{collector}: {faults} major faults, {hits} hits"
        );
        drop(services);
    }
}

/// In a group without swap, a program fills 150 MB of direct buffers within a second. It survives, although
/// its user set the maximum heap to four fifths of the group.
#[test]
fn native_memory_that_grows_at_once_ends_no_program() {
    let _alone = alone();
    let place = Place::new();
    let Some(classes) = classes(&place, &PROGRAMS) else {
        return;
    };
    for (collector, version) in cases::of_column(SINGLE, 0, 2) {
        let Some(group) = cliff(500 * MIB) else {
            return;
        };
        let java = jdk(version);
        let use_collector = format!("-XX:+Use{collector}GC");
        let start = ["run", "-n", "c", "--", &java, &use_collector];
        let size = ["-XX:MaxRAMPercentage=80", "-cp", &classes];
        let program = ["Container", "40", "300", "6", "native", "150"];
        let mut command = place.command(&[&start[..], &size, &program].concat());
        enter(&mut command, &group);
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && text.contains("done"),
            "{java} {collector}: {}: {}",
            output.status,
            stderr(&output)
        );
    }
}

/// Programs of one kind that fill direct buffers at the same time in one group without swap.
struct Crowd {
    programs: usize,
    /// Bytes.
    limit: u64,
    /// Megabytes that live in each, and megabytes of buffers that each fills within a second.
    live: &'static str,
    buffers: &'static str,
}

impl Crowd {
    /// Runs the programs to their ends. All must live, and have their buffers.
    fn lives(&self, (collector, version): (&str, u32), classes: &str) {
        let place = Place::new();
        let Some(group) = cliff(self.limit) else {
            return;
        };
        let java = jdk(version);
        let use_collector = format!("-XX:+Use{collector}GC");
        let start = |index: usize| {
            let name = format!("c{index}");
            let machine = [java.as_str(), &use_collector, "-cp", classes];
            // Longer than they need for their buffers, also on a busy machine.
            let kind = ["Container", self.live, "150", "10", "native", self.buffers];
            run_in(&place, &group, &name, &[&machine[..], &kind].concat())
        };
        let mut programs: Vec<_> = (0..self.programs).map(start).collect();
        for (index, program) in programs.iter_mut().enumerate() {
            let status = program.wait();
            let buffers = said(&place, &format!("c{index}.out"), "buffers");
            let which = format!("{collector} {version}: {index}");
            assert!(status.success(), "{which}: {status}");
            assert_eq!(buffers.to_string(), self.buffers, "{which}");
        }
        assert_eq!(group.killed(), 0, "{collector} {version}");
    }
}

/// In a group without swap, three programs fill 110 MB of direct buffers each within the same second. The
/// reserves of the programs and of the broker together are enough for that.
#[test]
fn programs_that_grow_at_the_same_time_end_nobody() {
    let _alone = alone();
    let place = Place::new();
    let Some(classes) = classes(&place, &PROGRAMS) else {
        return;
    };
    let crowd = Crowd {
        programs: 3,
        limit: 1024 * MIB,
        live: "40",
        buffers: "110",
    };
    for jvm in cases::of_column([("G1", 25), ("Serial", 25), ("G1", 11)], 0, 2) {
        crowd.lives(jvm, &classes);
    }
}

/// The same with five programs, which need nearly half of their shares for that. The reserves alone are not
/// enough: what each heap holds has to go back while the buffers fill.
#[test]
fn many_programs_that_grow_at_the_same_time_end_nobody() {
    let _alone = alone();
    let place = Place::new();
    let Some(classes) = classes(&place, &PROGRAMS) else {
        return;
    };
    // Other JVMs are larger: five of them are killed in 1 GiB by themselves, too.
    for (jvm, limit) in [(("Serial", 17), 1024), (("G1", 17), 1280)] {
        let crowd = Crowd {
            programs: 5,
            limit: limit * MIB,
            live: "30",
            buffers: "90",
        };
        crowd.lives(jvm, &classes);
    }
}

/// With swap, the heap gives way to native memory that grows at once. It is not paged out for it: fewer pages
/// are read back, those of files among them, than half of what lives has.
#[test]
fn native_memory_that_grows_at_once_pages_no_heap_out() {
    /// Pages of 40 MB.
    const LIVE: u64 = 40_000_000 / 4096;
    let _alone = alone();
    for (collector, version) in [("Serial", 11), ("G1", 21)] {
        let place = Place::new();
        let (Some(classes), Some(group)) = (classes(&place, &PROGRAMS), group("grows", 400 * MIB))
        else {
            return;
        };
        let Some(_swap) = swap(&place) else { return };
        let (java, use_collector) = (jdk(version), format!("-XX:+Use{collector}GC"));
        let machine = [java.as_str(), &use_collector, "-cp", &classes];
        let kind = ["Container", "40", "150", "8", "native", "150"];
        let mut run = run_in(&place, &group, "c", &[&machine[..], &kind].concat());
        let pid = place.attached("c").pid.expect("is attached");
        let process = Process::open(pid as i32).expect("runs");
        let mut faults = 0;
        while alive(pid) {
            faults = process.faults().map_or(faults, |faults| faults.major);
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(run.wait().success(), "{collector} {version}");
        assert_eq!(said(&place, "c.out", "buffers"), 150);
        assert_eq!(group.killed(), 0, "{collector} {version}");
        assert!(
            faults < LIVE / 2,
            "{collector} {version}: {faults} major faults"
        );
    }
}

/// A container has a limit of its own, without swap. The broker serves the whole machine, so its budget says
/// nothing about that limit: the maximum heap and the limits keep to the container.
#[test]
fn a_broker_outside_of_a_container_lets_live_what_lives_alone() {
    let _alone = alone();
    let place = Place::new();
    let Some(classes) = classes(&place, &PROGRAMS) else {
        return;
    };
    // The broker comes with this program.
    let _outside = place.start(&["run", "-n", "outside", "--", "sleep", "600"]);
    place.attached("outside");
    for (collector, version) in [("G1", 21), ("Serial", 11)] {
        let limit = 512 * MIB;
        let Some(group) = cliff(limit) else { return };
        let (java, use_collector) = (jdk(version), format!("-XX:+Use{collector}GC"));
        let machine = [java.as_str(), &use_collector, "-cp", &classes];
        let kind = ["Container", "80", "400", "6", "steady"];
        let mut run = run_in(&place, &group, collector, &[&machine[..], &kind].concat());
        assert!(place.listing().expect("a broker").capacity > limit);
        assert!(run.wait().success(), "{collector} {version}");
        let max = said(&place, &format!("{collector}.out"), "max");
        assert!(
            max > 128 && max < 512,
            "{max} MB, where Java alone takes 128"
        );
        assert_eq!(group.killed(), 0, "{collector} {version}");
    }
}

/// A group whose memory cannot be paged out, even if the machine has swap.
fn cliff(limit: u64) -> Option<TestCgroup> {
    group("cliff", limit).filter(|group| without_swap(group, limit))
}
