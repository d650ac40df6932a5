//! Java virtual machines, and one look at each.

use plimsoll_kernel::process::Process;
use plimsoll_kernel::smaps::Addresses;
use plimsoll_map::memory::{Memory, ProcessMemory};
use plimsoll_map::parts::{Part, cut};
use plimsoll_map::runtimes::hotspot::HotSpot;
use plimsoll_map::{Kind, Labeller, Labels, Snapshot, native};
use plimsoll_programs::Recognise;
use plimsoll_testbed::java::javac;
pub(crate) use plimsoll_testbed::java::{Jdk, jdks};
use plimsoll_testbed::skip;
use plimsoll_unit::MIB;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Megabytes that the program keeps alive, besides one array of 8 MiB.
pub(crate) const LIVE: u64 = 100;

/// The folder with the compiled programs; `None` without a compiler.
pub(crate) fn classes() -> Option<&'static Path> {
    static CLASSES: OnceLock<Option<PathBuf>> = OnceLock::new();
    let compiled = CLASSES.get_or_init(|| {
        let Some(javac) = javac() else {
            skip("no JDK with javac");
            return None;
        };
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hotspot");
        let sources = ["Live.java", "Allocate.java"];
        let java = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/java");
        let compiled = Command::new(javac)
            .args(["--release", "11", "-d"])
            .arg(&folder)
            .args(sources.map(|source| java.join(source)))
            .status();
        assert!(compiled.unwrap().success());
        Some(folder)
    });
    compiled.as_deref()
}

/// A machine with a live set that does nothing any more. Ended when dropped.
pub(crate) struct Jvm {
    pub(crate) child: Child,
    pub(crate) jdk: Jdk,
}

impl Jvm {
    /// Starts one with these flags, and waits until it is at rest.
    pub(crate) fn start(jdk: &Jdk, flags: &[&str]) -> Option<Jvm> {
        Jvm::start_by(Command::new(jdk.java()), jdk, flags)
    }

    /// As [`Jvm::start`], by a command that ends with the launcher.
    pub(crate) fn start_by(command: Command, jdk: &Jdk, flags: &[&str]) -> Option<Jvm> {
        let mut jvm = Jvm::begin(command, jdk, flags)?;
        jvm.come_to_rest();
        Some(jvm)
    }

    /// As [`Jvm::start_by`], without a wait.
    pub(crate) fn begin(mut command: Command, jdk: &Jdk, flags: &[&str]) -> Option<Jvm> {
        command
            .args([
                "-Xmx512m",
                "-XX:+UnlockExperimentalVMOptions",
                "-Xlog:disable",
            ])
            .args(flags)
            .arg("-cp")
            .arg(classes()?)
            .args(["Live", &LIVE.to_string()]);
        let child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Some(Jvm {
            child,
            jdk: jdk.clone(),
        })
    }

    /// Waits until it is at rest. Once.
    pub(crate) fn come_to_rest(&mut self) {
        let mut line = String::new();
        let out = self.child.stdout.take().unwrap();
        BufReader::new(out).read_line(&mut line).unwrap();
        assert_eq!(line.trim(), "ready", "JDK {}", self.jdk.version);
    }

    pub(crate) fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Its answer to `jcmd`.
    pub(crate) fn ask(&self, command: &str) -> String {
        let out = Command::new(self.jdk.home.join("bin/jcmd"))
            .args([&self.pid().to_string(), command])
            .output()
            .unwrap();
        String::from_utf8_lossy(&out.stdout).into_owned()
    }

    pub(crate) fn look(&self) -> Seen {
        look(self.pid())
    }
}

impl Drop for Jvm {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The result of a look at a machine.
pub(crate) struct Seen {
    pub(crate) snapshot: Snapshot,
    pub(crate) notes: Vec<String>,
    parts: Vec<Part>,
}

/// One look at a process.
pub(crate) fn look(pid: i32) -> Seen {
    let process = Arc::new(Process::open(pid).unwrap());
    let memory = ProcessMemory::open(&process).unwrap();
    look_with(pid, &memory)
}

/// One look at a process, whose memory is read so.
pub(crate) fn look_with(pid: i32, memory: &dyn Memory) -> Seen {
    let process = Arc::new(Process::open(pid).unwrap());
    let snapshot = Snapshot::of(&process, Duration::from_secs(60)).unwrap();
    assert!(HotSpot.runs(&snapshot.candidate()));
    let mut labels = Labels::default();
    HotSpot.label(&snapshot, memory, &mut labels);
    assert_inside(&snapshot, &labels);
    native::label(&snapshot, memory, &mut labels);
    Seen {
        parts: cut(&snapshot.mappings, &labels.labels),
        notes: labels.notes,
        snapshot,
    }
}

/// Every label is in mappings.
fn assert_inside(snapshot: &Snapshot, labels: &Labels) {
    for label in &labels.labels {
        let mut at = label.addresses.start;
        for area in &snapshot.mappings {
            if area.addresses.contains(&at) {
                at = area.addresses.end;
            }
        }
        assert!(at >= label.addresses.end, "{label:x?} is outside");
    }
}

impl Seen {
    /// Addresses of this kind, bytes.
    pub(crate) fn of(&self, kind: Kind) -> u64 {
        let parts = self.parts.iter().filter(|part| part.kind == kind);
        parts.map(|part| length(&part.addresses)).sum()
    }

    /// Addresses of the mappings with this name, bytes.
    pub(crate) fn named(&self, name: &str) -> u64 {
        let mappings = self.snapshot.mappings.iter();
        let named = mappings.filter(|area| area.name == name);
        named.map(|area| length(&area.addresses)).sum()
    }

    /// The ranges of this kind, and the mappings that they lie in.
    pub(crate) fn ranges(&self, kind: Kind) -> String {
        let mut text = String::new();
        for part in self.parts.iter().filter(|part| part.kind == kind) {
            let (range, area) = (&part.addresses, &self.snapshot.mappings[part.mapping]);
            let whole = &area.addresses;
            text += &format!(
                "{:x}-{:x} of {:x}-{:x}; ",
                range.start, range.end, whole.start, whole.end
            );
        }
        text
    }

    /// Addresses of this kind that can be read: what the machine calls committed, bytes.
    pub(crate) fn committed(&self, kind: Kind) -> u64 {
        let can_be_read = |part: &&Part| self.snapshot.mappings[part.mapping].readable;
        let parts = self.parts.iter().filter(|part| part.kind == kind);
        parts
            .filter(can_be_read)
            .map(|part| length(&part.addresses))
            .sum()
    }

    /// The purpose of the memory at an address.
    pub(crate) fn at(&self, address: u64) -> Option<Kind> {
        let part = self
            .parts
            .iter()
            .find(|part| part.addresses.contains(&address));
        part.map(|part| part.kind)
    }
}

fn length(addresses: &Addresses) -> u64 {
    addresses.end - addresses.start
}

/// Whether two sizes are the same within 1 MiB or 2 %.
pub(crate) fn near(one: u64, other: u64) -> bool {
    one.abs_diff(other) <= MIB.max(other / 50)
}
