//! Files that several principals map are charged to those who use them.

use crate::common::{Broker, Client, PATIENCE, read_page, within};
use crate::ladder::begin;
use plimsoll_kernel::process::Process;
use plimsoll_testbed::{Child, TestCgroup, children, skip};
use plimsoll_unit::{Bytes, MIB};
use rustix::fs::{Advice, fadvise};
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Size of the file that the programs map, MiB.
const SIZE: u64 = 64;
/// A charge may be this far from the true one, MiB: five percent of the file. Programs that wait for a
/// processor touch pages in bursts.
const CLOSE: f64 = 3.2;
/// Windows of working sets and epochs take turns, each after rests that grow.
const LONG: Duration = Duration::from_secs(300);

/// A file on a disk that is not in memory: whoever touches it first is charged for it by the kernel.
fn file_on_disk() -> tempfile::NamedTempFile {
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let mut file = tempfile::NamedTempFile::new_in(scratch).expect("a file");
    let block = vec![7; MIB as usize];
    for _ in 0..SIZE {
        file.write_all(&block).expect("there is room");
    }
    file.as_file().sync_all().expect("it is written");
    fadvise(file.as_file(), 0, None, Advice::DontNeed).expect("it may be dropped");
    file
}

/// A program that maps the file, registered as a principal.
struct Mapper {
    id: u64,
    program: Child,
    page: PathBuf,
    _life: Client,
}

impl Mapper {
    fn start(broker: &Broker, file: &Path, how: &str, group: &TestCgroup) -> Mapper {
        // Nobody reads its reports meanwhile, and a full pipe would stop it.
        let line = format!(
            "share --path {} --bytes {SIZE}M --read --report 600000 {how}",
            file.display()
        );
        let mut program = begin(&line, group);
        program
            .until(PATIENCE, |progress| progress.holding)
            .expect("it maps the file");
        let mut life = broker.connect();
        let register = json!({"name": "mapper", "pid": program.pid()});
        let registered = life.call("Register", register).expect("it is registered");
        Mapper {
            id: registered["id"].as_u64().expect("a number"),
            page: registered["page"].as_str().expect("a path").into(),
            program,
            _life: life,
        }
    }

    /// Its charge beside its own memory, MiB.
    fn charged(&self, control: &mut Client) -> f64 {
        let uses = control.find(self.id).expect("listed")["uses"].as_f64();
        let process = Process::open(self.program.pid()).expect("it runs");
        let memory = process.memory().expect("its memory");
        let own = (memory.anon + memory.shmem).0 as f64;
        (uses.expect("a number") - own) / MIB as f64
    }
}

/// Waits until each is charged what it should be, for some looks on end.
#[track_caller]
fn comes_to(what: &str, control: &mut Client, mappers: &[Mapper], truth: &[f64]) {
    let mut looks = 0;
    let mut charged = Vec::new();
    within(LONG, what, || {
        charged = mappers.iter().map(|one| one.charged(control)).collect();
        let close = |(one, truth): (&f64, &f64)| (one - truth).abs() <= CLOSE;
        looks = if charged.iter().zip(truth).all(close) {
            looks + 1
        } else {
            0
        };
        std::thread::sleep(Duration::from_millis(250));
        looks >= 8
    });
    eprintln!("{what}: charged {charged:.2?} MiB, true {truth:.2?}");
}

/// Checks that nothing counts twice, and that a program is told of its own memory only.
#[track_caller]
fn check_accounts(control: &mut Client, mappers: &[Mapper], group: &TestCgroup) {
    /// Programs take and give back a little between two readings, bytes.
    const SLACK: u64 = 4 * MIB;
    let outsiders = control.list()["outsiders"].as_u64().expect("a number");
    let mut uses = 0;
    for mapper in mappers {
        let shown = control.find(mapper.id).expect("listed");
        let number = |of: &str| shown[of].as_u64().expect("a number");
        let told = read_page(&mapper.page).expect("numbers").numbers;
        let own = number("uses") - (mapper.charged(control).max(0.0) * MIB as f64) as u64;
        assert!(told.uses.abs_diff(own) <= SLACK, "{told:?} {shown}");
        let files = number("uses").saturating_sub(told.uses);
        let left = number("limit") - files;
        assert!(told.limit.abs_diff(left) <= SLACK, "{told:?} {shown}");
        uses += number("uses");
    }
    let usage = group.cgroup().usage().expect("its use").0;
    assert!(
        uses + outsiders <= usage + SLACK && uses >= SIZE * MIB,
        "{uses} and {outsiders} of {usage}"
    );
}

fn domain(limit: Bytes) -> Option<(TestCgroup, Broker, tempfile::TempDir)> {
    if !plimsoll_kernel::referenced::is_noted().expect("our own bits") {
        skip("this kernel does not note which pages are used");
        return None;
    }
    let Ok(group) = TestCgroup::new("broker-files", Some(limit)) else {
        skip("no cgroup of our own here");
        return None;
    };
    let own = tempfile::tempdir().expect("a directory");
    let domain = group.cgroup().dir().display().to_string();
    let directory = own.path().join("run");
    let broker = Broker::start_in(&directory, vec!["--domain".into(), domain]);
    Some((group, broker, own))
}

#[test]
fn a_file_is_charged_to_those_who_use_it_by_how_often_they_do() {
    let Some((group, broker, _own)) = domain(Bytes::mib(1024)) else {
        return;
    };
    let mut control = broker.connect();
    let file = file_on_disk();
    let hows = ["--rate 4 --private", "--rate 2", "--rate 1", "--untouched"];
    let mut mappers: Vec<Mapper> = hows
        .map(|how| Mapper::start(&broker, file.path(), how, &group))
        .into();
    let part = |of: f64| SIZE as f64 * of;
    let truth = [4.0, 2.0, 1.0, 0.0].map(|rate: f64| part(rate / 7.0));
    comes_to("each by its rate", &mut control, &mappers, &truth);
    check_accounts(&mut control, &mappers, &group);
    // The name is gone, the file is not.
    drop(file);
    mappers.remove(0);
    let truth = [2.0, 1.0, 0.0].map(|rate: f64| part(rate / 3.0));
    comes_to("who ended pays nothing", &mut control, &mappers, &truth);
    mappers.remove(0);
    comes_to(
        "the last one pays all",
        &mut control,
        &mappers,
        &[part(1.0), 0.0],
    );
}

#[test]
fn a_file_that_becomes_shorter_is_charged_no_longer() {
    let Some((group, broker, _own)) = domain(Bytes::mib(1024)) else {
        return;
    };
    let mut control = broker.connect();
    let file = file_on_disk();
    let mappers =
        ["--rate 4", "--rate 4"].map(|how| Mapper::start(&broker, file.path(), how, &group));
    let half = SIZE as f64 / 2.0;
    comes_to("both use it", &mut control, &mappers, &[half, half]);
    for mapper in &mappers {
        children::stop(mapper.program.pid().unsigned_abs(), PATIENCE);
    }
    file.as_file().set_len(0).expect("it can be cut");
    comes_to("there is nothing left", &mut control, &mappers, &[0.0, 0.0]);
}
