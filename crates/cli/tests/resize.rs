//! A container whose limit is changed while its programs work, without swap. A Java program, Guile on our
//! libgc, and a cache that holds as much as it may share the limit. Nobody is killed, and all go on.

mod common;

use common::ground::{alone, classes, enter, group, jdk, ours, within, without_swap};
use common::{Place, Started, alive, wait_for};
use plimsoll_client::{Bytes, Principal};
use plimsoll_kernel::cgroup::{Cgroup, Version};
use plimsoll_testbed::{TestCgroup, cases, skip};
use plimsoll_unit::MIB;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The limit of the container, bytes; half of it is still enough for what lives.
const LIMIT: u64 = 1024 * MIB;
/// Times that it is halved: by `make test`, and by `make test-machines`.
const HALVINGS: (usize, usize) = (3, 20);
/// Size of the cache's entries, bytes.
const ENTRY: usize = MIB as usize;
/// Makes this binary the cache.
const CACHE: &str = "PLIMSOLL_TEST_CACHE";

/// Is the cache if the environment says so. It prints the number of its entries, and reads all in turn.
#[test]
fn cache() {
    if std::env::var_os(CACHE).is_none() {
        return;
    }
    let principal = Principal::builder("cache")
        .weight(200)
        .adapter("self")
        .open()
        .unwrap();
    let mut entries: Vec<Vec<u8>> = Vec::new();
    let mut work = 0u64;
    loop {
        let now = *principal.wait(Duration::from_millis(20)).reading();
        if now.owed > 0 {
            let count = (now.owed as usize).div_ceil(ENTRY).min(entries.len());
            entries.truncate(entries.len() - count);
            principal.released(Bytes((count * ENTRY) as u64));
        } else if now.uses + 4 * (ENTRY as u64) < now.limit {
            entries.extend((0..2).map(|_| vec![1; ENTRY]));
        }
        work += entries.iter().map(|entry| u64::from(entry[0])).sum::<u64>();
        println!("{{\"entries\":{},\"work\":{work}}}", entries.len());
        std::io::stdout().flush().unwrap();
    }
}

/// A group with the limit, and each program in a container below it.
struct Container {
    place: Place,
    group: TestCgroup,
    below: Vec<TestCgroup>,
    programs: Vec<(&'static str, Started)>,
}

impl Drop for Container {
    /// Groups within are removed before the one around them.
    fn drop(&mut self) {
        self.programs.clear();
        self.below.clear();
    }
}

impl Container {
    /// Starts the programs, and so a broker, in a group of this limit.
    fn start() -> Option<Container> {
        let place = Place::new();
        let classes = classes(&place, &["bench/programs/Container.java"])?;
        let group = group("resize", LIMIT).filter(|group| without_swap(group, LIMIT))?;
        let own = ours(&place).display().to_string();
        let test = std::env::current_exe().unwrap().display().to_string();
        let java = jdk(17);
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/programs/churn.scm");
        let script = script.display().to_string();
        let run = |name| [own.as_str(), "run", "-n", name, "--"];
        let machine = [&java, "-XX:+UseG1GC", "-cp", &classes, "Container"];
        let guile = ["guile", "--no-auto-compile", &script, "60", "36000"];
        let words = [
            (
                "java",
                [
                    &run("java")[..],
                    &machine,
                    &["60", "150", "36000", "steady"],
                ]
                .concat(),
            ),
            ("guile", [&run("guile")[..], &guile].concat()),
            ("cache", vec![&test, "--exact", "cache", "--nocapture"]),
        ];
        let mut container = Container {
            place,
            group,
            below: Vec::new(),
            programs: Vec::new(),
        };
        for (name, words) in words {
            let mut command = container.place.program(words[0], &words[1..]);
            let own = within(&container.group, name, None)?;
            enter(&mut command, &own);
            container.below.push(own);
            let file =
                |end: &str| std::fs::File::create(container.place.path(&format!("{name}{end}")));
            command.stdin(Stdio::piped()).env(CACHE, "1");
            command
                .stdout(file(".out").unwrap())
                .stderr(file(".errors").unwrap());
            let started = Started(command.spawn().unwrap());
            container.place.attached(name);
            container.programs.push((name, started));
        }
        Some(container)
    }

    /// Kilobytes replaced, rounds made, entries read: what a program said last.
    fn work(&self, name: &str) -> u64 {
        let text =
            std::fs::read_to_string(self.place.path(&format!("{name}.out"))).unwrap_or_default();
        let after = text.rsplit("\"work\":").next().unwrap_or("");
        let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().unwrap_or(0)
    }

    /// The memory that cannot be dropped.
    fn used(&self) -> u64 {
        self.group.cgroup().used().unwrap().0
    }

    fn limit(&self) -> u64 {
        self.group.cgroup().limit().unwrap().expect("a limit").0
    }

    /// Every program has done more than before, and nobody was killed.
    fn all_work(&mut self, when: &str) {
        for (name, started) in &mut self.programs {
            assert!(
                started.0.try_wait().unwrap().is_none(),
                "{when}: {name} ended"
            );
        }
        for (name, _) in &self.programs {
            let before = self.work(name);
            wait_for(&format!("{when}: {name} works"), || {
                (self.work(name) > before).then_some(())
            });
            let pid = self.place.attached(name).pid.unwrap();
            assert!(alive(pid), "{when}: {name}");
        }
        assert_eq!(killed(self.group.cgroup().dir()), 0, "{when}");
    }

    /// Waits until the programs have much more than the half.
    fn fills(&self, when: &str) {
        wait_for(&format!("{when}: they use most of the limit"), || {
            (self.used() > LIMIT / 8 * 5).then_some(())
        });
    }

    /// Sets the limit, in the one write that an engine makes.
    fn write(&self, limit: u64) -> std::io::Result<()> {
        let file = match self.group.cgroup().version() {
            Version::V1 => "memory.limit_in_bytes",
            Version::V2 => "memory.max",
        };
        std::fs::write(self.group.cgroup().dir().join(file), limit.to_string())
    }

    /// Lowers the limit as our script does, in steps.
    fn shrink(&self, target: u64) {
        let script = "../../packaging/compose/resize.sh";
        let status = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join(script))
            .arg(self.group.cgroup().dir())
            .arg(target.to_string())
            .status();
        assert!(status.unwrap().success());
        assert_eq!(self.limit(), target);
    }
}

/// How many were killed in a group and below it: under version 1 each group counts its own.
fn killed(dir: &Path) -> u64 {
    let here = Cgroup::at(dir).and_then(|group| group.events());
    let below = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let below = below.filter(|entry| entry.path().is_dir());
    here.map_or(0, |events| events.oom_kill) + below.map(|one| killed(&one.path())).sum::<u64>()
}

/// Halves the limit again and again, and raises it again.
#[test]
fn programs_live_through_halved_limits() {
    let _alone = alone();
    let guile = Command::new("guile").arg("--version").output();
    if guile.is_err() {
        return skip("there is no guile (Debian: guile-3.0)");
    }
    let Some(mut container) = Container::start() else {
        return;
    };
    let every = std::env::var_os(cases::EVERY).is_some();
    for turn in 0..if every { HALVINGS.1 } else { HALVINGS.0 } {
        let when = format!("halving {turn}");
        container.fills(&when);
        if container.group.cgroup().version() == Version::V1 {
            // The kernel refuses what does not fit yet, and nothing happens to anybody.
            let refused = container.write(LIMIT / 2).expect_err("they use more");
            assert_eq!(refused.raw_os_error(), Some(libc::EBUSY), "{when}");
            assert_eq!(container.limit(), LIMIT, "{when}");
        }
        container.shrink(LIMIT / 2);
        container.all_work(&when);
        // Those that are late to take too much would take it by now.
        std::thread::sleep(Duration::from_secs(2));
        container.all_work(&when);
        container.write(LIMIT).unwrap();
    }
}
