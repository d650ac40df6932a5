//! Machines whose library is not where it seems to be, that do not run, and whose memory is closed.

use crate::jvm::{Jvm, LIVE, Seen, jdks, look_with};
use plimsoll_kernel::process::Process;
use plimsoll_map::Kind;
use plimsoll_map::memory::{Memory, Unread};
use plimsoll_testbed::{children, skip};
use plimsoll_unit::MIB;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// The longest wait.
const PATIENCE: Duration = Duration::from_secs(60);
const SERIAL: &[&str] = &["-XX:+UseSerialGC"];

fn assert_divided(seen: &Seen) {
    assert!(seen.of(Kind::Old) > LIVE * MIB, "{:?}", seen.notes);
    assert!(
        seen.of(Kind::Eden) > 0 && seen.of(Kind::CodeCache) > 0,
        "{:?}",
        seen.notes
    );
    assert!(seen.notes.is_empty(), "{:?}", seen.notes);
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Copies a JDK to where it can be deleted.
fn copy(home: &Path) -> tempfile::TempDir {
    let folder = tempfile::Builder::new()
        .prefix("plimsoll-test-")
        .tempdir_in("/var/tmp")
        .unwrap();
    let copied = Command::new("cp")
        .args(["-rL", "--reflink=auto"])
        .arg(home.join("bin"))
        .arg(home.join("lib"))
        .arg(home.join("conf"))
        .arg(folder.path())
        .status();
    assert!(copied.unwrap().success());
    folder
}

/// The JDK with the smallest copy.
fn jdk_to_copy() -> Option<crate::jvm::Jdk> {
    jdks().into_iter().find(|jdk| jdk.version == 21)
}

#[test]
fn a_machine_whose_jdk_was_deleted_is_read_by_its_mapping() {
    let Some(jdk) = jdk_to_copy() else { return };
    let folder = copy(&jdk.home);
    let jdk = crate::jvm::Jdk {
        home: folder.path().to_owned(),
        ..jdk
    };
    let Some(jvm) = Jvm::start(&jdk, SERIAL) else {
        return;
    };
    folder.close().unwrap();
    let seen = jvm.look();
    if is_root() {
        assert_divided(&seen);
    } else {
        assert_eq!(seen.of(Kind::Old), 0);
        assert!(seen.of(Kind::Heap) >= LIVE * MIB);
        assert!(
            seen.notes.iter().any(|note| note.contains("deleted")),
            "{:?}",
            seen.notes
        );
    }
}

#[test]
fn a_machine_in_another_mount_namespace_is_read_through_its_root() {
    if !is_root() {
        return skip("a mount namespace needs root");
    }
    let Some(jdk) = jdk_to_copy() else { return };
    let folder = copy(&jdk.home);
    // Only the program sees the mount: here the folder stays as it is.
    let script =
        "mount -t tmpfs none /mnt && cp -r \"$1\"/. /mnt && shift && exec /mnt/bin/java \"$@\"";
    let mut command = Command::new("unshare");
    command
        .args(["-m", "sh", "-c", script, "sh"])
        .arg(folder.path());
    let Some(jvm) = Jvm::start_by(command, &jdk, SERIAL) else {
        return;
    };
    assert!(!Path::new("/mnt/bin/java").exists());
    assert_divided(&jvm.look());
}

#[test]
fn a_stopped_machine_is_read_and_stays_stopped() {
    for jdk in &jdks() {
        let Some(jvm) = Jvm::start(jdk, &["-XX:+UseG1GC"]) else {
            return;
        };
        children::stop(jvm.child.id(), PATIENCE);
        let seen = jvm.look();
        assert!(seen.of(Kind::Old) >= LIVE * MIB, "{:?}", seen.notes);
        assert!(children::stands_still(jvm.child.id()));
    }
}

#[test]
fn looking_faults_nothing_in() {
    for jdk in &jdks() {
        let Some(jvm) = Jvm::start(jdk, &["-XX:+UseG1GC"]) else {
            return;
        };
        children::stop(jvm.child.id(), PATIENCE);
        let process = Process::open(jvm.pid()).unwrap();
        let (before, held) = (process.faults().unwrap(), process.memory().unwrap());
        jvm.look();
        let (after, holds) = (process.faults().unwrap(), process.memory().unwrap());
        assert_eq!((before.major, before.minor), (after.major, after.minor));
        // The kernel may take some of its own accord, when others on this machine need memory.
        assert!(holds.resident() <= held.resident());
    }
}

/// Memory that the kernel does not let us read.
struct Closed;

impl Memory for Closed {
    fn read(&self, _: u64, _: &mut [u8]) -> Result<(), Unread> {
        Err(Unread::Denied)
    }
}

#[test]
fn without_rights_the_heap_is_shown_as_a_whole() {
    for jdk in &jdks() {
        for flag in ["-XX:+UseG1GC", "-XX:+UseZGC"] {
            let Some(jvm) = Jvm::start(jdk, &[flag]) else {
                return;
            };
            let seen = look_with(jvm.pid(), &Closed);
            let name = format!("JDK {} {flag} {:?}", jdk.version, seen.notes);
            assert!(seen.committed(Kind::Heap) > LIVE * MIB, "{name}");
            assert_eq!(seen.of(Kind::Old) + seen.of(Kind::FreeHeap), 0, "{name}");
            let told = seen
                .notes
                .iter()
                .any(|note| note.contains("rights of a debugger"));
            assert!(told, "{name}");
        }
    }
}
