//! The balance of reclaim on real programs: what it does for a hot file beside cold anonymous memory,
//! what it does not do to hot anonymous memory beside a file that is streamed through, and what it
//! puts back.

use crate::common::{Broker, Client, PATIENCE, until};
use crate::ladder::{MIB, begin};
use plimsoll_kernel::cgroup::{Cgroup, Version};
use plimsoll_testbed::{Child, SwapFile, TestCgroup, skip};
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Without revocation, so that nobody but the kernel reclaims.
const OFF: &str = "revoke = false\n";
const ON: &str = "revoke = false\n[balance]\nshift = true\n";

/// A group with swap, a file, a broker for the group, and a program in it.
struct Ground {
    broker: Broker,
    client: Client,
    id: u64,
    program: Child,
    home: PathBuf,
    config: PathBuf,
    _file: tempfile::NamedTempFile,
    _own: tempfile::TempDir,
    _group: TestCgroup,
    _swap: SwapFile,
}

impl Ground {
    /// Starts a program with a file of so many MiB in a group of 128 MiB, with balance off. `None`
    /// where there are no rights for that.
    fn new(name: &str, file_mib: u64, line: &str) -> Option<Ground> {
        let Ok(group) = TestCgroup::new(name, Some(128 * MIB)) else {
            skip("no cgroup of our own here");
            return None;
        };
        let scratch = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let Ok(swap) = SwapFile::new(scratch, 320 * MIB) else {
            skip("no swap of our own here");
            return None;
        };
        let file = uncached_file(scratch, file_mib);
        let own = tempfile::tempdir().expect("a directory");
        let config = own.path().join("plimsoll.toml");
        std::fs::write(&config, OFF).expect("a configuration");
        let domain = group.cgroup().dir().display().to_string();
        let arguments = [
            "--config",
            &config.display().to_string(),
            "--domain",
            &domain,
        ];
        let broker = Broker::start_in(
            &own.path().join("run"),
            arguments.map(str::to_owned).to_vec(),
        );
        let line = line.replace("FILE", &file.path().display().to_string());
        let program = begin(&line, &group);
        let mut client = broker.connect();
        let registered = client
            .call("Register", json!({"name": name, "pid": program.pid()}))
            .expect("it is registered");
        Some(Ground {
            home: registered["cgroup"].as_str().expect("a cgroup").into(),
            id: registered["id"].as_u64().expect("a number"),
            broker,
            client,
            program,
            config,
            _file: file,
            _own: own,
            _group: group,
            _swap: swap,
        })
    }

    fn cgroup(&self) -> Cgroup {
        Cgroup::at(&self.home).expect("its cgroup")
    }

    fn swappiness(&self) -> u64 {
        self.cgroup().swappiness().expect("version 1")
    }

    /// Refaults of both kinds and rounds of the program so far.
    fn counters(&mut self) -> (u64, u64) {
        let rounds = self.program.next(PATIENCE).expect("it lives");
        let stat = self.cgroup().stat().expect("readable");
        (
            stat.refault_file + stat.refault_anon,
            rounds.expect("it tells").rounds,
        )
    }

    /// Refaults per thousand rounds over some seconds.
    fn refaults(&mut self) -> f64 {
        // Old reports wait in the pipe.
        self.drain();
        let before = self.counters();
        self.wait(8);
        self.drain();
        let after = self.counters();
        let rounds = (after.1 - before.1).max(1);
        println!(
            "{:?} {:?} at {:?}",
            before,
            after,
            self.cgroup().swappiness()
        );
        (after.0 - before.0) as f64 * 1000.0 / rounds as f64
    }

    fn wait(&mut self, seconds: u64) {
        std::thread::sleep(std::time::Duration::from_secs(seconds));
    }

    /// Reads the reports that wait.
    fn drain(&mut self) {
        let newest = plimsoll_kernel::clock::now_ns();
        self.program
            .until(PATIENCE, |progress| progress.time_ns >= newest)
            .expect("it goes on");
    }

    fn shown(&mut self) -> Value {
        let id = self.id;
        self.client.find(id).expect("listed")["refaults"].clone()
    }

    fn configure(&mut self, config: &str) {
        std::fs::write(&self.config, config).expect("a configuration");
        self.client.call("Reload", json!({})).expect("it is read");
    }
}

/// A file of which no page is cached.
fn uncached_file(directory: &Path, mib: u64) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new_in(directory).expect("a file");
    let piece: Vec<u8> = (0..MIB).map(|n| n as u8).collect();
    for _ in 0..mib {
        file.write_all(&piece).expect("room on the disk");
    }
    rustix::fs::fsync(file.as_file()).expect("it is written");
    rustix::fs::fadvise(file.as_file(), 0, None, rustix::fs::Advice::DontNeed).expect("dropped");
    file
}

#[test]
fn a_hot_file_is_spared_and_what_was_changed_is_put_back() {
    let line = "mix --path FILE --bytes 120M --part 0.999 --delay 1";
    let Some(mut ground) = Ground::new("balance-hot-file", 60, line) else {
        return;
    };
    until("its refaults are measured", || {
        ground.shown()["file"].as_u64().is_some_and(|file| file > 0)
    });
    if ground.cgroup().version() == Version::V2 {
        assert_eq!(ground.shown()["swappiness"], json!(null));
        return;
    }
    let usual = ground.swappiness();
    let before = ground.refaults();
    assert_eq!(ground.swappiness(), usual, "nothing moves while it is off");
    ground.configure(ON);
    until("most is reclaimed from anonymous memory", || {
        ground.swappiness() >= 180
    });
    ground.wait(6);
    let after = ground.refaults();
    assert!(after < before / 4.0, "{before} before, {after} after");
    let shown = ground.shown();
    assert!(
        shown["file_ns"].as_u64().is_some_and(|cost| cost > 0),
        "{shown}"
    );

    // A crash, after which nobody may change anything.
    std::fs::write(&ground.config, OFF).expect("a configuration");
    assert_ne!(ground.swappiness(), usual);
    ground.broker.crash_and_restart();
    assert_eq!(ground.swappiness(), usual, "put back by the next broker");
    ground.client = ground.broker.connect();
    let again = json!({"name": "again", "pid": ground.program.pid()});
    let registered = ground
        .client
        .call("Register", again)
        .expect("it comes back");
    ground.id = registered["id"].as_u64().expect("a number");
    ground.configure(ON);
    until("it is shifted again", || ground.swappiness() != usual);
    ground.configure(OFF);
    until("it is put back when that is off", || {
        ground.swappiness() == usual
    });
    ground.configure(ON);
    until("it is shifted again", || ground.swappiness() != usual);
    assert!(ground.broker.leave());
    assert_eq!(ground.swappiness(), usual, "put back at the end");
}

#[test]
fn hot_anonymous_memory_is_no_worse_off_beside_a_file_that_is_streamed() {
    let line = "mix --path FILE --bytes 96M --stream --delay 1";
    let Some(mut ground) = Ground::new("balance-stream", 200, line) else {
        return;
    };
    if ground.cgroup().version() == Version::V2 {
        return;
    }
    until("it runs", || {
        ground.shown()["file"].as_u64().is_some_and(|file| file > 0)
    });
    let before = ground.refaults();
    ground.configure(ON);
    // Long enough for a walk in each direction.
    ground.wait(30);
    let after = ground.refaults();
    assert!(
        after <= before * 1.3 + 1.0,
        "{before} before, {after} after"
    );
}
