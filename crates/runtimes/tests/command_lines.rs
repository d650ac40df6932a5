//! Command lines as people write them, with real machines. Our additions must not change what the
//! user gave: a given heap has the same size, a command that starts or is refused alone does so
//! with us, and a command that only prints prints the same.

mod support;

use plimsoll_programs::Setting;
use plimsoll_runtimes::launch::{self, Plan};
use plimsoll_testbed::cases;
use plimsoll_unit::{Bytes, MIB};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use support::{compiled, jdks};

/// The output that has to be the same with and without our additions, besides the exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Same {
    /// All output.
    All,
    /// The program's output: its heap and its arguments.
    Heap,
    /// Only the status, because no heap was given.
    Start,
}
use Same::{All, Heap, Start};

/// A command line: what has to be the same, the variables, and the words after `java`. `Heap` is the program.
type Line = (Same, &'static [(&'static str, &'static str)], &'static str);

const TOOL: &str = "JAVA_TOOL_OPTIONS";
const LAUNCHER: &str = "JDK_JAVA_OPTIONS";
const LAST: &str = "_JAVA_OPTIONS";
const VARIABLES: [&str; 3] = [TOOL, LAUNCHER, LAST];

/// Files beside the program.
const FILES: [(&str, &str); 7] = [
    ("sizes", "-Xmx200m # a comment\n-cp \".\"\n"),
    ("quoted", "\"-Dx=a\\\n   b\" -Xmx300m\r\n-cp .\n"),
    ("class", "-cp . -Xmx9m Heap one -Xmx8m"),
    ("within", "@sizes"),
    ("options", "-Xmx220m -Dq=\"a b\""),
    ("flags", "+UseSerialGC\nMaxHeapSize=241172480 # 230m\n"),
    ("unlock", "+UnlockExperimentalVMOptions\n"),
];

const LINES: [Line; 68] = [
    // Commands that only print.
    (All, &[], "-version"),
    (All, &[], "-XX:+UseSerialGC -version"),
    (All, &[], "-XX:+UseParallelGC -version"),
    (All, &[], "-XX:+UseShenandoahGC -version"),
    (
        All,
        &[],
        "-XX:+UnlockExperimentalVMOptions -XX:+UseZGC --version",
    ),
    (All, &[], "--list-modules"),
    (All, &[], ""),
    (All, &[], "-cp . NoSuchClass"),
    // The user gives the heap, in each of the possible places.
    (Heap, &[], "-Xmx100m -cp . Heap a -Xmx5m"),
    (Heap, &[], "-Xmx16m -cp . Heap"),
    (Heap, &[], "-XX:MaxHeapSize=0x1800000 -cp . Heap"),
    (Heap, &[], "-mx64m -cp . Heap"),
    (Heap, &[], "-Xmx100m -Xmx150m -cp . Heap"),
    (Heap, &[], "-Xms2g -Xmx3g -cp . Heap"),
    (Heap, &[], "-XX:+UseSerialGC -Xmn10m -Xmx40m -cp . Heap"),
    (Heap, &[], "-XX:MaxRAM=1g -cp . Heap"),
    (Heap, &[], "-XX:MaxRAMPercentage=33.3 -cp . Heap"),
    (Heap, &[], "-XX:MaxRAMFraction=8 -cp . Heap"),
    (
        Heap,
        &[],
        "-XX:MinRAMPercentage=70 -XX:MaxRAM=200m -cp . Heap",
    ),
    (Heap, &[], "-XX:ErgoHeapSizeLimit=200m -cp . Heap"),
    (Heap, &[(TOOL, "-Xmx111m")], "-cp . Heap"),
    (Heap, &[(LAST, "-Xmx112m")], "-cp . Heap"),
    (Heap, &[(LAUNCHER, "-Xmx113m -Da='b c'")], "-cp . Heap"),
    (Heap, &[(LAUNCHER, "@quoted")], "Heap"),
    (
        Heap,
        &[(
            LAUNCHER,
            "--add-opens java.base/java.lang=ALL-UNNAMED -Xmx114m",
        )],
        "-cp . Heap",
    ),
    (Heap, &[(TOOL, "-XX:Flags=flags")], "-cp . Heap"),
    (Heap, &[(TOOL, "-XX:VMOptionsFile=options")], "-cp . Heap"),
    (Heap, &[(TOOL, "-XX:MaxRAMPercentage=12")], "-cp . Heap"),
    (Heap, &[], "@sizes Heap @sizes"),
    (Heap, &[], "@class -Xmx7m"),
    (Heap, &[], "-XX:VMOptionsFile=options -cp . Heap"),
    (Heap, &[], "--class-path . -Xmx118m Heap"),
    // The user gives no heap, but flags on which sizes depend.
    (Start, &[], "-Xms9g -cp . Heap"),
    (Start, &[], "-Xmn8g -cp . Heap"),
    (Start, &[], "-XX:MaxNewSize=16m -cp . Heap"),
    (
        Start,
        &[],
        "-XX:+UseZGC -XX:SoftMaxHeapSize=100m -cp . Heap",
    ),
    (Start, &[], "-XX:+UseZGC -XX:SoftMaxHeapSize=7g -cp . Heap"),
    (Start, &[], "-XX:+AggressiveHeap -cp . Heap"),
    (
        Start,
        &[],
        "-XX:MinHeapFreeRatio=90 -XX:MaxHeapFreeRatio=80 -cp . Heap",
    ),
    (Start, &[], "-XX:G1HeapRegionSize=32m -cp . Heap"),
    // Flags that hinder the adapter.
    (Heap, &[], "-Xms200m -Xmx200m -cp . Heap"),
    (
        Heap,
        &[],
        "-XX:+AlwaysPreTouch -Xms100m -Xmx100m -cp . Heap",
    ),
    (Heap, &[], "-Xmx1t -cp . Heap"),
    (Start, &[], "-XX:MinHeapFreeRatio=90 -cp . Heap"),
    (Start, &[], "-XX:+UseLargePages -cp . Heap"),
    (Start, &[], "-XX:-UsePerfData -cp . Heap"),
    (Start, &[], "-XX:+DisableAttachMechanism -cp . Heap"),
    (Start, &[(TOOL, "-XX:+UseSerialGC")], "-cp . Heap"),
    (
        Start,
        &[(TOOL, "-XX:+UseSerialGC")],
        "-XX:+UseG1GC -cp . Heap",
    ),
    (
        Start,
        &[(LAST, "-XX:+UseParallelGC")],
        "-XX:+UseG1GC -cp . Heap",
    ),
    // Mistakes stay mistakes.
    (Start, &[], "-XX:MaxGCPauseMilis=100 -cp . Heap"),
    (Start, &[], "-XX:+UseG1CG -cp . Heap"),
    (Start, &[], "-Xfoo -cp . Heap"),
    (Start, &[], "-Xmx -cp . Heap"),
    (Start, &[], "-d64 -cp . Heap"),
    (Start, &[], "@nothing Heap"),
    (Start, &[], "@within Heap"),
    (Start, &[(TOOL, "-XX:+NoSuchFlag")], "-cp . Heap"),
    (Start, &[(LAUNCHER, "-XX:NoSuchSize=1")], "-cp . Heap"),
    (Start, &[], "-XX:+UseSerialGC -XX:+UseParallelGC -cp . Heap"),
    (Start, &[], "-XX:+UseConcMarkSweepGC -cp . Heap"),
    // Experimental flags stay locked, unless the user unlocks them.
    (Start, &[], "-XX:+UseEpsilonGC -cp . Heap"),
    (
        Start,
        &[],
        "-XX:+UseG1GC -XX:G1NewSizePercent=10 -cp . Heap",
    ),
    (
        Start,
        &[],
        "-XX:G1NewSizePercent=9 -XX:+UnlockExperimentalVMOptions -cp . Heap",
    ),
    (
        Start,
        &[(TOOL, "-XX:+UnlockExperimentalVMOptions")],
        "-XX:G1NewSizePercent=10 -cp . Heap",
    ),
    (
        Start,
        &[(LAUNCHER, "-XX:+UnlockExperimentalVMOptions")],
        "-XX:G1NewSizePercent=9 -cp . Heap",
    ),
    (
        Start,
        &[],
        "-XX:Flags=unlock -XX:G1NewSizePercent=10 -cp . Heap",
    ),
    (
        Start,
        &[],
        "-XX:+IgnoreUnrecognizedVMOptions -XX:+NoSuchFlag -cp . Heap",
    ),
];

/// The folder that the programs start in.
struct Ground {
    dir: tempfile::TempDir,
    memory: u64,
}

impl Ground {
    fn new() -> Ground {
        let dir = compiled("Heap.java");
        for (name, text) in FILES {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        let mut machine = plimsoll_kernel::capacity::Domain::of_self().unwrap();
        let memory = machine.lowest_limit().unwrap();
        let memory = memory.unwrap_or_else(|| machine.read().unwrap().capacity);
        Ground {
            dir,
            memory: memory.0,
        }
    }

    /// The results of a command line as it is, and as `plimsoll run` would start it.
    fn both(&self, home: &Path, line: &Line) -> [String; 2] {
        let (same, variables, words) = line;
        let mut argv: Vec<OsString> = vec![home.join("bin/java").into()];
        argv.extend(words.split_ascii_whitespace().map(OsString::from));
        let variable = |name: &str| {
            let found = variables.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| OsString::from(value))
        };
        let setting = Setting {
            variables: &variable,
            folder: self.dir.path(),
        };
        // More memory than the machine would take by itself, so that our additions have an effect.
        let plan = Plan {
            budget: Some(Bytes(self.memory / 8 * 7)),
            memory: Some(Bytes(self.memory)),
            ..Plan::default()
        };
        let prepared = launch::prepare_in(&argv, &plan, &setting);
        assert!(prepared.environment.is_empty());
        [argv, prepared.argv].map(|argv| {
            let mut command = Command::new(&argv[0]);
            command.args(&argv[1..]).current_dir(self.dir.path());
            for name in VARIABLES {
                command.env_remove(name);
            }
            command.envs(variables.iter().copied());
            let done = command.stdin(Stdio::null()).output().unwrap();
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let (out, errors) = (text(&done.stdout), text(&done.stderr));
            match same {
                All => format!("{:?}\n{out}{errors}", done.status.code()),
                Heap => format!("{:?}\n{out}", done.status.code()),
                Start => format!("{:?}", done.status.code()),
            }
        })
    }

    /// The command lines whose results differ: each on one of the machines in turn, or all on all, if every
    /// case is to be run.
    fn differ(&self, machines: &[(u32, PathBuf)], lines: &[Line]) -> Vec<String> {
        let (next, faults) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let work = || loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let (row, column) = (at / lines.len(), at % lines.len());
            let Some((version, home)) = machines.get(row) else {
                break;
            };
            if !cases::is_run(row, column, machines.len()) {
                continue;
            }
            let line = &lines[column];
            let [alone, with_us] = self.both(home, line);
            if alone != with_us {
                let fault = format!("{version}: {line:?}\nalone: {alone}\nwith us: {with_us}\n");
                faults.lock().unwrap().push(fault);
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(work);
            }
        });
        faults.into_inner().unwrap()
    }
}

#[test]
fn what_was_given_is_as_without_us() {
    let machines = jdks();
    if machines.is_empty() {
        return;
    }
    let ground = Ground::new();
    let faults = ground.differ(&machines, &LINES);
    assert!(faults.is_empty(), "{}", faults.join("\n"));

    // Limited address space belongs into the same test, because the limit holds for the whole
    // process.
    use rustix::process::{Resource, getrlimit, setrlimit};
    let before = getrlimit(Resource::As);
    let mut limited = before;
    limited.current = Some(8000 * MIB);
    setrlimit(Resource::As, limited).unwrap();
    let lines: [Line; 3] = [
        (Heap, &[], "-cp . Heap"),
        (Heap, &[], "-Xmx100m -cp . Heap"),
        (Start, &[], "-XX:+UseSerialGC -cp . Heap"),
    ];
    let faults = ground.differ(&machines, &lines);
    setrlimit(Resource::As, before).unwrap();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
