//! Java programs under `plimsoll run` when memory is really short. With swap they must stay out of it;
//! without swap the kernel kills a program that exceeds the limit.

mod common;

use common::ground::{MIB, alone, classes, enter, group, javas, swap, without_swap};
use common::{Place, Started, stderr};
use plimsoll_kernel::process::Process;
use plimsoll_testbed::TestCgroup;
use std::process::Stdio;
use std::time::Duration;

const PROGRAMS: [&str; 2] = [
    "bench/programs/Service.java",
    "bench/programs/Container.java",
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
    for collector in ["G1", "Serial"] {
        let place = Place::new();
        let (Some(classes), Some(group)) = (classes(&place, &PROGRAMS), group("want", 800 * MIB))
        else {
            return;
        };
        let Some(_swap) = swap(&place) else { return };
        let java = javas()
            .pop()
            .expect("one at the least")
            .display()
            .to_string();
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
            assert!(
                said(&place, &name, "work") > 1000,
                "{collector}: {name} works"
            );
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
    for java in javas() {
        for collector in ["G1", "Serial"] {
            let Some(group) = cliff(500 * MIB) else {
                return;
            };
            let java = java.display().to_string();
            let use_collector = format!("-XX:+Use{collector}GC");
            let args = [
                "run",
                "-n",
                "c",
                "--",
                &java,
                &use_collector,
                "-XX:MaxRAMPercentage=80",
                "-cp",
                &classes,
                "Container",
                "40",
                "300",
                "6",
                "native",
                "150",
            ];
            let mut command = place.command(&args);
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
    let java = javas().pop().expect("one at the least");
    let java = java.display().to_string();
    for collector in ["G1", "Serial"] {
        let Some(group) = cliff(1024 * MIB) else {
            return;
        };
        let use_collector = format!("-XX:+Use{collector}GC");
        let start = |index: usize| {
            let name = format!("c{index}");
            let start = ["run", "-n", &name, "--", &java, &use_collector];
            let program = ["-cp", &classes, "Container", "40", "150", "6"];
            let mut command = place.command(&[&start[..], &program, &["native", "110"]].concat());
            enter(&mut command, &group);
            let output = std::fs::File::create(place.path(&name)).unwrap();
            command.stdout(output).stderr(Stdio::null());
            Started(command.spawn().unwrap())
        };
        let mut programs: Vec<_> = (0..3).map(start).collect();
        for (index, program) in programs.iter_mut().enumerate() {
            let status = program.wait();
            let buffers = said(&place, &format!("c{index}"), "buffers");
            assert!(status.success(), "{collector}: {index}: {status}");
            assert_eq!(buffers, 110, "{collector}: {index}");
        }
        assert_eq!(group.killed(), 0, "{collector}");
    }
}

/// A group of which nothing can be paged out, even if the machine has swap.
fn cliff(limit: u64) -> Option<TestCgroup> {
    group("cliff", limit).filter(|group| without_swap(group, limit))
}
