//! For tests of adapters: an availability page that the test writes, and programs that follow it.

use plimsoll_kernel::clock;
use plimsoll_unit::{Bytes, Nanos, Pages};
use plimsoll_wire::page::{Level, Numbers, PAGE_SIZE, PageImage, Step};
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The longest wait.
const PATIENCE: Duration = Duration::from_secs(60);

/// A page whose numbers the test sets.
#[derive(Debug)]
pub struct Page {
    directory: tempfile::TempDir,
    limit: Arc<AtomicU64>,
    pid: Arc<AtomicU32>,
    stop: Arc<AtomicBool>,
    writer: Option<JoinHandle<()>>,
}

impl Page {
    /// A page with this limit.
    pub fn new(limit: Bytes) -> Page {
        let directory = tempfile::tempdir().expect("a directory for the page");
        let file = File::create(directory.path().join("page")).expect("the page");
        file.set_len(PAGE_SIZE as u64).expect("a size");
        let limit = Arc::new(AtomicU64::new(limit.0));
        let (pid, stop) = (
            Arc::new(AtomicU32::new(0)),
            Arc::new(AtomicBool::new(false)),
        );
        let (ours, whose, until) = (Arc::clone(&limit), Arc::clone(&pid), Arc::clone(&stop));
        let mut image = PageImage::new(1);
        put(&file, &image.create());
        publish(&file, &mut image, &limit, Bytes::ZERO);
        let writer = std::thread::spawn(move || {
            while !until.load(Ordering::Acquire) {
                let uses = anonymous(whose.load(Ordering::Acquire)).unwrap_or_default();
                publish(&file, &mut image, &ours, uses);
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

    /// The path of the page.
    pub fn path(&self) -> PathBuf {
        self.directory.path().join("page")
    }

    /// Changes the limit.
    pub fn set(&self, limit: Bytes) {
        self.limit.store(limit.0, Ordering::Release);
    }

    /// Imitates the broker's death: the page is no longer written.
    pub fn die(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(writer) = self.writer.take() {
            writer.join().expect("the writer does not panic");
        }
    }

    /// Starts a program with the path of the page in its environment.
    pub fn start(&self, mut command: Command) -> Running {
        let mut child = command
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

fn publish(file: &File, image: &mut PageImage, limit: &AtomicU64, uses: Bytes) {
    let now = clock::now();
    let limit = limit.load(Ordering::Acquire);
    let (deadline, level) = match uses.0.saturating_sub(limit) {
        0 => (Nanos::ZERO, Level::Normal),
        _ => (now + Nanos::seconds(2), Level::Warning),
    };
    let numbers = Numbers {
        limit,
        available: limit,
        owed: uses.0.saturating_sub(limit),
        deadline: deadline.0,
        uses: uses.0,
        share: limit,
        level,
        sensed: now.0,
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

/// Anonymous resident memory of a process, from its `statm`.
pub fn anonymous(pid: u32) -> Option<Bytes> {
    let text = fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    let pages: Vec<u64> = text
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    Some((Pages(*pages.get(1)?) - Pages(*pages.get(2)?)).bytes())
}

/// A running program. Killed when dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
    reader: Option<JoinHandle<()>>,
}

impl Running {
    /// Its number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Anonymous resident memory.
    pub fn uses(&self) -> Bytes {
        anonymous(self.child.id()).unwrap_or_default()
    }

    /// Waits until the use is as wanted. Fails the test if that does not happen.
    pub fn until(&mut self, what: &str, wanted: impl Fn(Bytes) -> bool) {
        let begin = Instant::now();
        while !wanted(self.uses()) {
            assert!(begin.elapsed() < PATIENCE, "{what}: uses {}", self.uses());
            assert!(
                self.child.try_wait().expect("it is ours").is_none(),
                "{what}: the program ended"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Its output so far.
    pub fn printed(&self) -> String {
        self.lines.lock().expect("no panic while held").join("\n")
    }

    /// Waits for its end, which must be successful, and returns what it printed.
    pub fn finish(mut self) -> String {
        let status = self.child.wait().expect("it is ours");
        assert!(status.success(), "{status}");
        if let Some(reader) = self.reader.take() {
            reader.join().expect("the reader does not panic");
        }
        self.printed()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
