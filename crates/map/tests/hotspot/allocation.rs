//! The allocation of threads, read from outside, is that of `ThreadMXBean`, read within.

use crate::jvm::{Jdk, jdks};
use plimsoll_kernel::process::Process;
use plimsoll_map::runtimes::hotspot::allocation::{Allocation, AllocationError};
use plimsoll_testbed::skip;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The longest wait.
const PATIENCE: Duration = Duration::from_secs(60);

/// A machine whose threads allocate when they are told to. Ended when dropped.
struct Program {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Program {
    fn start(jdk: &Jdk, flags: &[&str]) -> Option<Program> {
        let classes = crate::jvm::classes()?;
        let mut child = Command::new(jdk.java())
            .args(["-Xmx128m", "-XX:+UnlockExperimentalVMOptions"])
            .args(flags)
            .arg("-cp")
            .arg(classes)
            .arg("Allocate")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Some(Program {
            child,
            input,
            output,
        })
    }

    /// One round; what the machine says of its threads, by name.
    fn round(&mut self) -> HashMap<String, u64> {
        writeln!(self.input, "go").unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        let pairs = line
            .split_whitespace()
            .map(|pair| pair.split_once('=').unwrap());
        pairs
            .map(|(name, bytes)| (name.to_owned(), bytes.parse().unwrap()))
            .collect()
    }

    /// The name that a thread has for the kernel.
    fn name_of(&self, tid: i32) -> Option<String> {
        let path = format!("/proc/{}/task/{tid}/comm", self.child.id());
        Some(std::fs::read_to_string(path).ok()?.trim().to_owned())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads the list and all that is in it, until neither changes meanwhile: threads that compile come and go.
fn read(allocation: &mut Allocation) {
    let end = Instant::now() + PATIENCE;
    loop {
        let listed = allocation.list().unwrap();
        let all: Vec<usize> = (0..allocation.threads().len()).collect();
        if listed && allocation.read(&all).unwrap() == all.len() {
            return;
        }
        assert!(Instant::now() < end, "its threads change all the time");
    }
}

fn follow(jdk: &Jdk, flags: &[&str]) {
    let Some(mut program) = Program::start(jdk, flags) else {
        return;
    };
    let what = format!("JDK {} {flags:?}", jdk.version);
    program.round();
    let process = Arc::new(Process::open(program.child.id() as i32).unwrap());
    let mut allocation = Allocation::open(&process).unwrap();
    for _ in 0..3 {
        let said = program.round();
        assert_eq!(said.len(), 5, "{what}");
        // One thread has ended and another one has begun.
        assert!(allocation.is_changed().unwrap(), "{what}");
        read(&mut allocation);
        let mut found = 0;
        for thread in allocation.threads() {
            let name = program.name_of(thread.tid);
            if let Some((name, &bytes)) = name.and_then(|name| said.get_key_value(&name)) {
                assert_eq!(thread.bytes, bytes, "{what}: {name}");
                found += 1;
            }
        }
        assert_eq!(found, said.len(), "{what}: {:?}", allocation.threads());
        // Threads that are not there are not read.
        assert_eq!(allocation.read(&[usize::MAX]).unwrap(), 0);
    }
    program.child.kill().unwrap();
    program.child.wait().unwrap();
    assert!(allocation.is_changed().unwrap_err().is_gone(), "{what}");
    assert!(allocation.list().unwrap_err().is_gone(), "{what}");
    assert!(allocation.read(&[0]).unwrap_err().is_gone(), "{what}");
}

#[test]
fn bytes_of_each_thread_are_those_that_the_machine_says() {
    let jdks = jdks();
    if jdks.is_empty() {
        return skip("no JDK");
    }
    for jdk in &jdks {
        follow(jdk, &["-XX:+UseSerialGC"]);
        follow(jdk, &["-XX:+UseG1GC"]);
    }
}

#[test]
fn without_buffers_of_threads_and_with_a_concurrent_collector_they_are_too() {
    for jdk in &jdks() {
        follow(jdk, &["-XX:-UseTLAB", "-XX:+UseSerialGC"]);
        follow(jdk, &["-XX:+UseZGC"]);
    }
}

#[test]
fn a_process_without_a_machine_is_refused() {
    let own = Arc::new(Process::own().unwrap());
    let refused = Allocation::open(&own).unwrap_err();
    assert!(
        matches!(refused, AllocationError::NotHotSpot(_)),
        "{refused}"
    );
}
