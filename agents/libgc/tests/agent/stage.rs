//! A stage for real programs: builds them, gives them a page that a script writes, watches them from outside.

use plimsoll_wire::page::{Level, Numbers, PAGE_SIZE, PageImage, Step};
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub(crate) const MB: u64 = 1_000_000;
/// Nothing is waited for longer than this.
const PATIENCE: Duration = Duration::from_secs(60);

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .and_then(Path::parent)
        .expect("agents/libgc lies two levels deep")
}

/// `target/<profile>`: this test's executable lies in `deps` below it.
fn target() -> PathBuf {
    let executable = std::env::current_exe().expect("own path");
    executable
        .ancestors()
        .nth(2)
        .expect("target/profile/deps")
        .to_owned()
}

pub(crate) fn agent() -> PathBuf {
    let built = [
        target().join("libplimsoll_libgc.so"),
        target().join("deps/libplimsoll_libgc.so"),
    ];
    // `cargo build` leaves an older copy in the first place.
    let made = |path: &PathBuf| fs::metadata(path).and_then(|file| file.modified()).ok();
    built
        .into_iter()
        .max_by_key(made)
        .filter(|path| path.exists())
        .expect("cargo builds the library before its tests")
}

/// Builds the C programs once; `None`, with the reason printed, where no compiler or libgc is installed.
pub(crate) fn gcbench() -> Option<Vec<String>> {
    static BUILT: OnceLock<Option<PathBuf>> = OnceLock::new();
    let path = BUILT.get_or_init(|| {
        let out = target().join("programs");
        let made = Command::new("make")
            .args(["-s", "-C"])
            .arg(repository().join("bench/programs"))
            .arg(format!("OUT={}", out.display()))
            .status();
        if made.is_ok_and(|status| status.success()) {
            return Some(out.join("gcbench"));
        }
        eprintln!("skipped: gcbench cannot be built (install make, a C compiler and libgc-dev)");
        None
    });
    path.as_ref().map(|path| vec![path.display().to_string()])
}

/// `guile churn.scm`; `None`, with the reason printed, where there is no Guile.
pub(crate) fn churn() -> Option<Vec<String>> {
    if Command::new("guile")
        .arg("--version")
        .stdout(Stdio::null())
        .status()
        .is_err()
    {
        eprintln!("skipped: there is no guile (install guile-3.0)");
        return None;
    }
    let script = repository().join("bench/programs/churn.scm");
    Some(vec![
        "guile".into(),
        "--no-auto-compile".into(),
        script.display().to_string(),
    ])
}

/// What the program printed, one JSON object per line.
pub(crate) type Lines = Vec<serde_json::Value>;

pub(crate) fn last(lines: &Lines) -> &serde_json::Value {
    lines.last().expect("the program prints something")
}

pub(crate) fn number(line: &serde_json::Value, name: &str) -> u64 {
    line[name]
        .as_u64()
        .unwrap_or_else(|| panic!("no number {name} in {line}"))
}

pub(crate) fn parse(text: &str) -> Lines {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("not JSON: {line}")))
        .collect()
}

/// Runs to the end. `setting` is `PLIMSOLL_LIBGC`; without one the adapter is not even loaded.
pub(crate) fn run(argv: &[String], setting: Option<&str>) -> Lines {
    let mut command = Command::new(&argv[0]);
    command
        .args(&argv[1..])
        .env("PLIMSOLL_SOCKET", "/nonexistent/broker.sock");
    if let Some(setting) = setting {
        command
            .env("LD_PRELOAD", agent())
            .env("PLIMSOLL_LIBGC", setting);
    }
    let output = command.output().expect("the program starts");
    assert!(output.status.success(), "{argv:?} {setting:?}: {output:?}");
    parse(&String::from_utf8(output.stdout).expect("text"))
}

pub(crate) fn with(argv: &[String], more: &[&str]) -> Vec<String> {
    argv.iter()
        .cloned()
        .chain(more.iter().map(|text| (*text).to_owned()))
        .collect()
}

/// A page that says what the test says.
pub(crate) struct Page {
    directory: tempfile::TempDir,
    limit: Arc<AtomicU64>,
    pid: Arc<AtomicU32>,
    stop: Arc<AtomicBool>,
    writer: Option<JoinHandle<()>>,
}

impl Page {
    pub(crate) fn new(limit: u64) -> Page {
        let directory = tempfile::tempdir().expect("a directory for the page");
        let file = File::create(directory.path().join("page")).expect("the page");
        file.set_len(PAGE_SIZE as u64).expect("a size");
        let limit = Arc::new(AtomicU64::new(limit));
        let (pid, stop) = (
            Arc::new(AtomicU32::new(0)),
            Arc::new(AtomicBool::new(false)),
        );
        let (ours, whose, until) = (Arc::clone(&limit), Arc::clone(&pid), Arc::clone(&stop));
        let mut image = PageImage::new(1);
        put(&file, &image.create());
        publish(&file, &mut image, limit.load(Ordering::Acquire), 0);
        let writer = std::thread::spawn(move || {
            while !until.load(Ordering::Acquire) {
                let uses = anonymous(whose.load(Ordering::Acquire)).unwrap_or(0);
                publish(&file, &mut image, ours.load(Ordering::Acquire), uses);
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        Page {
            directory,
            limit,
            pid,
            stop,
            writer: Some(writer),
        }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("page")
    }

    pub(crate) fn set(&self, limit: u64) {
        self.limit.store(limit, Ordering::Release);
    }

    /// The broker dies: nobody writes the page any more.
    pub(crate) fn die(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(writer) = self.writer.take() {
            writer.join().expect("the writer does not panic");
        }
    }

    pub(crate) fn start(&self, argv: &[String]) -> Running {
        let mut child = Command::new(&argv[0])
            .args(&argv[1..])
            .env("LD_PRELOAD", agent())
            .env("PLIMSOLL_PAGE", self.path())
            .env_remove("PLIMSOLL_ID")
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        self.pid.store(child.id(), Ordering::Release);
        let output = child.stdout.take().expect("piped");
        let lines = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&lines);
        let reader = std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                into.lock().expect("no panic while held").push(line);
            }
        });
        Running {
            child,
            lines,
            reader: Some(reader),
        }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

fn publish(file: &File, image: &mut PageImage, limit: u64, uses: u64) {
    let now = Instant::now_ns();
    let owed = uses.saturating_sub(limit);
    let deadline = if owed > 0 { now + 2_000_000_000 } else { 0 };
    let level = if owed > 0 {
        Level::Warning
    } else {
        Level::Normal
    };
    let numbers = Numbers {
        limit,
        available: limit,
        owed,
        deadline,
        uses,
        share: limit,
        level,
    };
    for step in image.publish(&numbers, now) {
        put(file, &step);
        fence(Ordering::SeqCst);
    }
}

fn put(file: &File, step: &Step<'_>) {
    file.write_all_at(step.bytes, step.offset)
        .expect("the page is writable");
}

trait Now {
    fn now_ns() -> u64;
}

impl Now for Instant {
    fn now_ns() -> u64 {
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: `time` is valid for writing.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }
}

/// Anonymous resident bytes of a process, from its `statm`.
pub(crate) fn anonymous(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    let pages: Vec<u64> = text
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    Some(pages.get(1)?.saturating_sub(*pages.get(2)?) * 4096)
}

/// A program on the stage; killed when it is dropped.
pub(crate) struct Running {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
    reader: Option<JoinHandle<()>>,
}

impl Running {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn uses(&self) -> u64 {
        anonymous(self.child.id()).unwrap_or(0)
    }

    /// Waits until the use is as wanted, and fails the test when it does not come to that.
    pub(crate) fn until(&mut self, what: &str, wanted: impl Fn(u64) -> bool) {
        let begin = Instant::now();
        while !wanted(self.uses()) {
            assert!(
                begin.elapsed() < PATIENCE,
                "{what}: uses {} bytes",
                self.uses()
            );
            assert!(
                self.child.try_wait().expect("it is ours").is_none(),
                "{what}: the program ended"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn lines(&self) -> Lines {
        let lines = self.lines.lock().expect("no panic while held");
        parse(&lines.join("\n"))
    }

    /// Waits for its end, which must be a good one, and gives back what it printed.
    pub(crate) fn finish(mut self) -> Lines {
        let status = self.child.wait().expect("it is ours");
        assert!(status.success(), "{status}");
        if let Some(reader) = self.reader.take() {
            reader.join().expect("the reader does not panic");
        }
        self.lines()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
