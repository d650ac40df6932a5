//! Options with which a machine takes its maximum heap at the start, with real machines: what starts alone
//! starts with our flags, and takes no more.

mod support;

use plimsoll_programs::Setting;
use plimsoll_runtimes::launch::{self, Plan};
use plimsoll_testbed::{TestCgroup, Tmpfs, children, skip};
use plimsoll_unit::Bytes;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};
use support::{compiled, jdks};

const COLLECTORS: [&str; 5] = ["Serial", "Parallel", "G1", "Z", "Shenandoah"];
/// The limit of the machine's group, MiB. By itself a machine takes a quarter of it as its maximum.
const GROUP: u64 = 512;
/// The file system has room for that quarter, and not for what we would add, MiB.
const ROOM: u64 = 200;

/// Where a machine starts: its group, and the folder of the program.
struct Ground {
    group: TestCgroup,
    classes: tempfile::TempDir,
}

impl Ground {
    fn new(name: &str) -> Option<Ground> {
        let Ok(group) = TestCgroup::new(name, Some(Bytes::mib(GROUP))) else {
            skip("no cgroup can be made");
            return None;
        };
        let classes = compiled("Upfront.java");
        Some(Ground { group, classes })
    }

    /// The output of a command line, and whether it ends well: alone, and as `plimsoll run` starts it.
    fn both(&self, home: &Path, options: &[String]) -> [(bool, String); 2] {
        let mut argv: Vec<OsString> = vec![home.join("bin/java").into()];
        argv.extend(options.iter().map(OsString::from));
        argv.extend(["-cp", ".", "Upfront"].map(OsString::from));
        let setting = Setting {
            variables: &|_: &str| None,
            folder: self.classes.path(),
        };
        let plan = Plan {
            budget: Some(Bytes::mib(GROUP / 8 * 7)),
            memory: Some(Bytes::mib(GROUP)),
            group: Some(Bytes::mib(GROUP)),
            ..Plan::default()
        };
        let prepared = launch::prepare_in(&argv, &plan, &setting);
        [argv, prepared.argv].map(|argv| {
            let mut command = Command::new(&argv[0]);
            command.args(&argv[1..]).current_dir(self.classes.path());
            for name in ["JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"] {
                command.env_remove(name);
            }
            children::enter(&mut command, self.group.cgroup()).unwrap();
            let done = command.stdin(Stdio::null()).output().unwrap();
            let out = String::from_utf8_lossy(&done.stdout).into_owned();
            (done.status.success(), out)
        })
    }
}

/// Options that choose a collector in each version that has it.
fn chosen(collector: &str) -> Vec<String> {
    let unlock = "-XX:+UnlockExperimentalVMOptions".to_owned();
    vec![unlock, format!("-XX:+Use{collector}GC")]
}

/// The maximum heap and the most that was resident, MiB, as the program's last line tells.
fn told(out: &str) -> (u64, u64) {
    let line = out.lines().last().unwrap_or_default();
    let mut numbers = line.split(' ').map(|number| number.parse().unwrap());
    (numbers.next().unwrap(), numbers.next().unwrap())
}

#[test]
fn a_heap_in_a_file_of_a_small_file_system_starts_as_alone_and_has_the_same_size() {
    let (Some(ground), Some(small)) = (
        Ground::new("in-file"),
        Tmpfs::mount(&format!("size={ROOM}m")),
    ) else {
        return;
    };
    let at = format!("-XX:AllocateHeapAt={}", small.path().display());
    let folder = ground.classes.path();
    std::fs::write(folder.join("words"), &at).unwrap();
    std::fs::write(folder.join("options"), &at).unwrap();
    std::fs::write(folder.join("flags"), at.trim_start_matches("-XX:")).unwrap();
    let places = [
        at.as_str(),
        "@words",
        "-XX:VMOptionsFile=options",
        "-XX:Flags=flags",
    ];
    for (version, home) in jdks() {
        for (row, collector) in COLLECTORS.iter().enumerate() {
            // The code that reads the places does not know the collector, so each collector has one place.
            let place = places[row % places.len()];
            let mut options = chosen(collector);
            options.push(place.to_owned());
            let [alone, with_us] = ground.both(&home, &options);
            let case = format!("{version} {collector} {place}: {alone:?} {with_us:?}");
            assert!(alone.0 && with_us.0, "{case}");
            // A survivor space of Serial, whose size depends on the first heap, does not count as maximum.
            let apart = told(&alone.1).0.abs_diff(told(&with_us.1).0);
            assert!(apart <= 2, "{case}");
            // ZGC warns where the maximum does not fit.
            assert_eq!(with_us.1.lines().count(), 1, "{case}");
        }
    }
}

/// That flag is no reason to leave out the maximum: the heap could not be steered then.
#[test]
fn a_heap_that_is_touched_at_the_start_is_touched_as_far_as_its_first_size() {
    let Some(ground) = Ground::new("touched") else {
        return;
    };
    for (version, home) in jdks() {
        for collector in COLLECTORS {
            let mut options = chosen(collector);
            options.push("-XX:+AlwaysPreTouch".to_owned());
            let [_, (well, out)] = ground.both(&home, &options);
            let case = format!("{version} {collector}: {out}");
            assert!(well, "{case}");
            let (max, resident) = told(&out);
            let is_added = max > GROUP / 2 || collector == "Z" && version == 11;
            assert!(is_added && resident < 200, "{case}");
        }
    }
}
