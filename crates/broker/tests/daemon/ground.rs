//! A group with swap, a broker for it, and a program that reads a file there.

use crate::common::{Broker, Client, PATIENCE, Swap, swap, until};
use crate::ladder::begin;
use plimsoll_kernel::cgroup::{Cgroup, Version};
use plimsoll_testbed::{Child, TestCgroup, skip};
use plimsoll_unit::{Bytes, MIB};
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Without revocation, so that nobody but the kernel reclaims.
pub(crate) const OFF: &str = "revoke = false\n";

/// A group with swap, a file, a broker for the group, and a program in it.
pub(crate) struct Ground {
    pub(crate) broker: Broker,
    pub(crate) client: Client,
    pub(crate) id: u64,
    pub(crate) program: Child,
    pub(crate) home: PathBuf,
    pub(crate) config: PathBuf,
    _file: tempfile::NamedTempFile,
    _own: tempfile::TempDir,
    pub(crate) group: TestCgroup,
    _swap: Swap,
}

impl Ground {
    /// Starts a program with a file of `file_mib` MiB in a group of 128 MiB, with balance off. `None`
    /// where there are no rights for that.
    pub(crate) fn new(name: &str, file_mib: u64, line: &str) -> Option<Ground> {
        Ground::inheriting(None, name, file_mib, line)
    }

    /// The same with groups that have that swappiness under version 1.
    pub(crate) fn inheriting(
        swappiness: Option<u64>,
        name: &str,
        file_mib: u64,
        line: &str,
    ) -> Option<Ground> {
        let Ok(group) = TestCgroup::new(name, Some(Bytes::mib(128))) else {
            skip("no cgroup of our own here");
            return None;
        };
        if let Some(swappiness) = swappiness.filter(|_| group.cgroup().version() == Version::V1) {
            // The groups that the broker makes inside inherit it.
            group.cgroup().set_swappiness(swappiness).expect("as root");
        }
        let scratch = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let Some(swap) = swap() else {
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
            // Under version 2 a program that runs already stays in the group, here alone.
            home: registered["cgroup"].as_str().unwrap_or(&domain).into(),
            id: registered["id"].as_u64().expect("a number"),
            broker,
            client,
            program,
            config,
            _file: file,
            _own: own,
            group,
            _swap: swap,
        })
    }

    pub(crate) fn cgroup(&self) -> Cgroup {
        Cgroup::at(&self.home).expect("its cgroup")
    }

    pub(crate) fn swappiness(&self) -> u64 {
        self.cgroup().swappiness().expect("version 1")
    }

    /// Refaults of both kinds and rounds of the program so far: those that it reports next, however long
    /// that takes to come here. Old reports wait in the pipe.
    pub(crate) fn counters(&mut self) -> (u64, u64) {
        let stat = self.cgroup().stat().expect("readable");
        let now = plimsoll_kernel::clock::now().0;
        let told = self
            .program
            .until(PATIENCE, |progress| progress.time_ns >= now);
        (
            stat.refault_file + stat.refault_anon,
            told.expect("it goes on").rounds,
        )
    }

    /// Refaults per thousand rounds over some seconds.
    pub(crate) fn refaults(&mut self) -> f64 {
        let before = self.counters();
        self.wait(8);
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

    pub(crate) fn wait(&mut self, seconds: u64) {
        std::thread::sleep(std::time::Duration::from_secs(seconds));
    }

    pub(crate) fn shown(&mut self) -> Value {
        let id = self.id;
        self.client.find(id).expect("listed")["refaults"].clone()
    }

    /// Waits until refaults of its file are measured.
    pub(crate) fn measured(&mut self) {
        until("its refaults are measured", || {
            self.shown()["file"].as_u64().is_some_and(|file| file > 0)
        });
    }

    pub(crate) fn configure(&mut self, config: &str) {
        std::fs::write(&self.config, config).expect("a configuration");
        self.client.call("Reload", json!({})).expect("it is read");
    }
}

/// A file without a page in the page cache.
pub(crate) fn uncached_file(directory: &Path, mib: u64) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new_in(directory).expect("a file");
    let piece: Vec<u8> = (0..MIB).map(|n| n as u8).collect();
    for _ in 0..mib {
        file.write_all(&piece).expect("room on the disk");
    }
    rustix::fs::fsync(file.as_file()).expect("it is written");
    rustix::fs::fadvise(file.as_file(), 0, None, rustix::fs::Advice::DontNeed).expect("dropped");
    file
}
