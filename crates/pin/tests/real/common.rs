//! Grounds and programs of these tests.

use plimsoll_kernel::clock;
use plimsoll_kernel::process::Process;
use plimsoll_kernel::smaps::FileKey;
use plimsoll_pin::{Options, Pinner, Programs, Report};
use plimsoll_testbed::{Child, Progress, TestCgroup, programs, skip};
use plimsoll_unit::{Bytes, MIB, Nanos, SECOND};
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
/// The size of the file, bytes. A third of it is hot.
pub(crate) const FILE: u64 = 48 * MIB;
pub(crate) const HOT: u64 = 16 * MIB;
/// Once this many bytes are held, pinning is at work. How many it needs depends on the disk and on what else
/// runs, because the kernel keeps the rest: it ended the faults with a third of the hot part, and with 1 MiB
/// where another test slowed the stream down.
pub(crate) const AT_WORK: u64 = MIB / 2;

/// The programs of these tests are this binary, started again.
#[test]
fn program() {
    programs::run_as_asked();
}

/// One test at a time: they share the disk and the machine's swap.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// A directory on the disk, gone with its guard.
pub(crate) fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// Makes a file whose bytes are on the disk and in no cache.
pub(crate) fn make_file(dir: &Path, name: &str, bytes: u64) -> PathBuf {
    let path = dir.join(name);
    let mut file = File::create(&path).unwrap();
    let piece: Vec<u8> = (0..MIB).map(|n| (n * 7 + n / 4096) as u8).collect();
    for _ in 0..bytes / MIB {
        file.write_all(&piece).unwrap();
    }
    file.sync_all().unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    path
}

pub(crate) fn key_of(path: &Path) -> FileKey {
    let stat = std::fs::metadata(path).unwrap();
    FileKey {
        major: rustix::fs::major(stat.dev()),
        minor: rustix::fs::minor(stat.dev()),
        inode: stat.ino(),
    }
}

pub(crate) fn group(name: &str, limit: u64) -> Option<TestCgroup> {
    match TestCgroup::new(name, Some(Bytes(limit))) {
        Ok(group) => Some(group),
        Err(error) => {
            skip(error);
            None
        }
    }
}

pub(crate) fn start(arguments: &[&str], group: Option<&TestCgroup>) -> Child {
    Child::start_again("common::program", arguments, group).unwrap()
}

/// A program that reads the first third of a file over and over.
pub(crate) fn start_pages(path: &Path, group: Option<&TestCgroup>) -> Child {
    let (bytes, part) = (
        FILE.to_string(),
        (HOT as f64 / FILE as f64 + 1e-9).to_string(),
    );
    let path = path.to_str().unwrap();
    let arguments = [
        "pages", "--path", path, "--bytes", &bytes, "--part", &part, "--every", "5",
    ];
    start(&arguments, group)
}

/// A shell's command to become a program that reads the first third of a file over and over.
pub(crate) fn become_pages(path: &Path) -> String {
    format!(
        "{}='pages --path {} --bytes {FILE} --part 0.3334 --every 5' \
         exec {} --exact common::program --nocapture",
        programs::VARIABLE,
        path.display(),
        std::env::current_exe().unwrap().display(),
    )
}

/// A program that streams another file through the page cache.
pub(crate) fn start_stream(path: &Path, group: Option<&TestCgroup>) -> Child {
    let path = path.to_str().unwrap();
    start(&["stream", "--path", path, "--rate", "100M"], group)
}

/// A program that loses the hot part of its file to a stream, and reads it again.
pub(crate) struct Losing {
    pub(crate) program: Child,
    _stream: Child,
    _dir: tempfile::TempDir,
}

/// Starts such a program in a group, and waits until it has lost pages.
pub(crate) fn losing(group: &TestCgroup) -> Losing {
    let dir = directory();
    let hot = make_file(dir.path(), "hot", FILE);
    let cold = make_file(dir.path(), "cold", 160 * MIB);
    let mut program = start_pages(&hot, Some(group));
    let stream = start_stream(&cold, Some(group));
    program
        .until(PATIENCE, |p| p.major_faults > 10_000)
        .unwrap();
    Losing {
        program,
        _stream: stream,
        _dir: dir,
    }
}

/// Bytes that this process has locked.
pub(crate) fn locked() -> u64 {
    Process::own().unwrap().memory().unwrap().locked.0
}

pub(crate) fn options() -> Options {
    Options {
        bytes: Some(Bytes(HOT + 4 * MIB)),
        share: None,
        window: Nanos::seconds(3),
        without_swap: true,
        processor: 0.2,
        ..Options::default()
    }
}

pub(crate) fn pinner(options: Options, pids: &[i32]) -> Pinner {
    Pinner::new(options, Programs::Processes(pids.to_vec()), clock::now()).unwrap()
}

/// Ticks until something is so, checking at each tick that the budget is kept.
pub(crate) fn tick_until(
    pinner: &mut Pinner,
    what: &str,
    mut is_so: impl FnMut(&Report, &Pinner) -> bool,
) -> Report {
    let end = clock::now() + PATIENCE.into();
    loop {
        let report = pinner.tick(clock::now()).unwrap();
        assert!(locked() <= report.budget, "{} locked: {report:?}", locked());
        if is_so(&report, pinner) {
            return report;
        }
        let now = clock::now();
        assert!(now < end, "never {what}: {report:?} {:?}", pinner.passed());
        let wait = pinner.due(now) - now;
        std::thread::sleep(wait.duration().min(Duration::from_millis(250)));
    }
}

/// Ticks for this many seconds.
pub(crate) fn tick_for(pinner: &mut Pinner, seconds: u64) -> Report {
    let end = clock::now() + Nanos::seconds(seconds);
    tick_until(pinner, "over", |_, _| clock::now() >= end)
}

/// The last report of a program that is there by now.
pub(crate) fn latest(child: &mut Child) -> Progress {
    child.latest(PATIENCE).unwrap().unwrap()
}

/// Major faults a second between two reports.
fn rate(before: Progress, after: Progress) -> f64 {
    let seconds = (after.time_ns - before.time_ns) as f64 / SECOND as f64;
    (after.major_faults - before.major_faults) as f64 / seconds
}

/// Major faults a second in the next three seconds, ticking meanwhile.
pub(crate) fn faults(pinner: &mut Pinner, child: &mut Child) -> f64 {
    let before = latest(child);
    tick_for(pinner, 3);
    rate(before, latest(child))
}

/// Waits until a program whose pages are held no longer reads them again: `times` as many a second as `with`
/// them, in some three seconds. The stream needs a while to push them out, more on a busy disk.
pub(crate) fn loses(program: &mut Child, with: f64, times: f64) {
    let end = clock::now() + PATIENCE.into();
    let mut most = 0.0_f64;
    while most <= with * times {
        assert!(
            clock::now() < end,
            "{with} faults a second with, {most} without"
        );
        let before = latest(program);
        std::thread::sleep(Duration::from_secs(3));
        most = most.max(rate(before, latest(program)));
    }
}

/// Checks that a program reads its pages again once they are held no longer, and hardly did before.
pub(crate) fn loses_without(mut pinner: Pinner, program: &mut Child) {
    let with = faults(&mut pinner, program);
    drop(pinner);
    loses(program, with, 10.0);
}
