//! A scripted broker that behaves well, badly, late, or not at all. It uses the real codec and
//! writes real pages.

#![allow(dead_code, unreachable_pub)] // Each test file uses its part.

mod serve;

use plimsoll_client::{Builder, Event, Principal, Socket};
use plimsoll_wire::messages::{
    self, Adapt, Changed, Id, Listing, Nothing, Register, Registered, Released, Report, Set, Which,
};
use plimsoll_wire::page::{Numbers, PAGE_SIZE, PageImage};
use plimsoll_wire::varlink::{
    Call, Decoder, ErrorName, Method, WireError, encode_error, encode_reply, service,
};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub const SOON: Duration = Duration::from_secs(60);

/// A principal of that broker.
pub fn builder(fake: &Fake) -> Builder {
    // The broker answers. Any delay comes from a busy machine.
    Principal::builder("test")
        .socket(Socket::at(fake.socket()))
        .timeout(SOON)
}

/// The next event that `wanted` says yes to, skipping others.
pub fn await_event(principal: &Principal, wanted: impl Fn(&Event) -> bool) -> Event {
    let deadline = Instant::now() + SOON;
    loop {
        let event = principal.wait(deadline.saturating_duration_since(Instant::now()));
        if wanted(&event) {
            return event;
        }
        assert!(Instant::now() < deadline, "the last event was {event:?}");
    }
}

pub fn is_lost(event: &Event) -> bool {
    matches!(event, Event::BrokerLost(_))
}

pub fn is_joined(event: &Event) -> bool {
    matches!(event, Event::Joined(_))
}

/// How it misbehaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Script {
    /// Behaves well.
    #[default]
    Good,
    /// Takes calls and never answers.
    Silent,
    /// Answers after this many milliseconds.
    Late(u64),
    /// Sends half an answer and closes.
    Truncated,
    /// Sends what is no JSON.
    Garbage,
    /// Sends a message that never ends.
    Endless,
    /// Refuses to register.
    Refuses,
    /// Refuses a process that is a principal already, as brokers do.
    Strict,
    /// Keeps its pages elsewhere than beside its socket, and says where.
    PagesElsewhere,
    /// Registers, but makes no page.
    NoPage,
    /// Registers, but the page is shorter than a page.
    ShortPage,
    /// Registers, but the page is a pipe that nobody writes to.
    PipeForPage,
    /// Registers, but the page has another layout version.
    WrongVersion,
    /// Registers, but the page is somebody else's.
    WrongId,
    /// Dies right after the answer to Register.
    DiesAfterRegister,
}

#[derive(Debug)]
struct Page {
    file: Option<File>,
    image: PageImage,
    last: Numbers,
}

/// The state of the broker, for tests to inspect.
#[derive(Debug, Default)]
pub struct State {
    pub script: Script,
    pub registered: Vec<Register>,
    pub reports: Vec<Report>,
    pub released: u64,
    pub sets: Vec<Set>,
    pub attached: Vec<(Id, u32)>,
    pub adapted: Vec<(Id, Option<String>)>,
    pub gone: Vec<Id>,
    pub first_numbers: Numbers,
    pub frozen: bool,
    next_id: Id,
    pages: BTreeMap<Id, Page>,
    subscribers: Vec<(Id, UnixStream)>,
    connections: Vec<UnixStream>,
}

#[derive(Debug)]
struct Common {
    state: Mutex<State>,
    changed: Condvar,
    dead: AtomicBool,
    directory: PathBuf,
}

/// The broker; dropping it kills it.
#[derive(Debug)]
pub struct Fake {
    common: Arc<Common>,
    threads: Vec<JoinHandle<()>>,
}

use serve::{accept, beat, publish, write_page};

pub fn numbers(limit: u64) -> Numbers {
    Numbers {
        limit,
        available: limit * 2,
        uses: limit / 2,
        share: limit,
        ..Numbers::default()
    }
}

/// Waits until `done`; long enough for a busy machine.
pub fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < deadline, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The variable with the folder of the test that started this process. The test removes what a
/// killed process leaves there.
pub const WITHIN: &str = "PLIMSOLL_TEST_WITHIN";

pub fn directory() -> tempfile::TempDir {
    tempfile::Builder::new()
        .prefix("plimsoll-test-client-")
        .tempdir_in(std::env::var_os(WITHIN).unwrap_or_else(|| "/tmp".into()))
        .unwrap()
}

impl Fake {
    pub fn start(directory: &Path, script: Script) -> Fake {
        Fake::start_numbered(directory, script, 1)
    }

    /// As after a restart: numbers of principals begin at `first_id`.
    pub fn start_numbered(directory: &Path, script: Script, first_id: Id) -> Fake {
        for pages in ["pages", "elsewhere"] {
            std::fs::create_dir_all(directory.join(pages)).unwrap();
        }
        let socket = directory.join("broker.sock");
        let _ = std::fs::remove_file(&socket);
        let listener = UnixListener::bind(&socket).unwrap();
        listener.set_nonblocking(true).unwrap();
        let common = Arc::new(Common {
            state: Mutex::new(State {
                script,
                next_id: first_id,
                first_numbers: numbers(100 << 20),
                ..State::default()
            }),
            changed: Condvar::new(),
            dead: AtomicBool::new(false),
            directory: directory.to_owned(),
        });
        let (accepting, beating) = (Arc::clone(&common), Arc::clone(&common));
        let threads = vec![
            std::thread::spawn(move || accept(&accepting, &listener)),
            std::thread::spawn(move || beat(&beating)),
        ];
        Fake { common, threads }
    }

    pub fn socket(&self) -> PathBuf {
        self.common.directory.join("broker.sock")
    }

    pub fn page(&self, id: Id) -> PathBuf {
        self.common.directory.join("pages").join(id.to_string())
    }

    pub fn state<R>(&self, look: impl FnOnce(&mut State) -> R) -> R {
        look(&mut self.common.state.lock().unwrap())
    }

    /// Waits until the state is so.
    pub fn until(&self, what: &str, mut done: impl FnMut(&mut State) -> bool) {
        eventually(what, || self.state(&mut done));
    }

    /// Writes the page and tells the subscribers.
    pub fn publish(&self, id: Id, numbers: Numbers) {
        self.state(|state| publish(state, id, numbers));
    }

    /// Writes the page and tells nobody.
    pub fn publish_silently(&self, id: Id, numbers: Numbers) {
        self.state(|state| write_page(state.pages.get_mut(&id).unwrap(), numbers));
    }

    /// Stops heartbeats and answers but keeps connections open, as a stopped process does.
    pub fn freeze(&self) {
        self.state(|state| {
            state.frozen = true;
            state.script = Script::Silent;
        });
    }

    /// Dies as by SIGKILL: connections end, files stay.
    pub fn kill(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.common.dead.store(true, Ordering::SeqCst);
        self.state(|state| {
            for stream in &state.connections {
                let _ = stream.shutdown(std::net::Shutdown::Both);
            }
        });
        for thread in self.threads.drain(..) {
            thread.join().unwrap();
        }
        self.state(|state| {
            state.connections.clear();
            state.subscribers.clear();
        });
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.end();
    }
}
