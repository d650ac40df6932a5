//! A broker for the test, clients, and a neighbour that must never notice what others do.

use plimsoll_kernel::process::Process;
use plimsoll_testbed::{SwapFile, children};
use plimsoll_unit::Bytes;
use plimsoll_wire::page::{PageView, offset};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Long enough for a busy machine, and for an emulated processor on one; no test asserts a time.
pub(crate) const PATIENCE: Duration = Duration::from_secs(240);

/// Waits until `what` holds.
#[track_caller]
pub(crate) fn until(what: &str, holds: impl FnMut() -> bool) {
    within(PATIENCE, what, holds);
}

/// Waits as long as that until `what` holds: for what the broker tries again after rests that grow.
#[track_caller]
pub(crate) fn within(patience: Duration, what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + patience;
    while !holds() {
        assert!(Instant::now() < end, "never: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Swap for a test.
pub(crate) struct Swap {
    _file: Arc<SwapFile>,
}

/// Makes swap, or shares that of other tests; `None` without the rights. It is switched off after the last of
/// them: the kernel reads all of a swap space back then, and the pages of any test's programs may be in it.
pub(crate) fn swap() -> Option<Swap> {
    static SHARED: Mutex<Weak<SwapFile>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    let file = match shared.upgrade() {
        Some(file) => file,
        None => {
            let scratch = Path::new(env!("CARGO_TARGET_TMPDIR"));
            Arc::new(SwapFile::new(scratch, Bytes::mib(512)).ok()?)
        }
    };
    *shared = Arc::downgrade(&file);
    Some(Swap { _file: file })
}

/// A broker process; ended when dropped.
pub(crate) struct Broker {
    child: Child,
    arguments: Vec<String>,
    directory: PathBuf,
    log: tempfile::NamedTempFile,
    /// Command that becomes the broker by `exec`; empty when the broker is started directly.
    by: Vec<String>,
    _own: Option<tempfile::TempDir>,
}

impl Broker {
    /// Starts a broker for all users in that directory, with a limit of `descriptors` open files and
    /// this configuration.
    pub(crate) fn for_everybody(directory: &Path, descriptors: u64, config: &str) -> Broker {
        let file = directory.with_extension("toml");
        std::fs::write(&file, config).expect("a configuration");
        let file = file.display().to_string();
        let limit = format!("ulimit -n {descriptors} && exec \"$@\"");
        let by = ["sh", "-c", limit.as_str(), "sh"].map(str::to_owned);
        let arguments = vec!["--config".into(), file, "--system".into()];
        Broker::start_by(directory, arguments, by.into())
    }

    /// Starts a broker by a command that becomes it (its own arguments come first), and waits until
    /// it serves.
    pub(crate) fn start_by(directory: &Path, arguments: Vec<String>, by: Vec<String>) -> Broker {
        let broker = Broker::spawned(directory, arguments, by);
        broker.wait_until_it_serves();
        broker
    }

    /// Starts a broker in a new directory with this configuration.
    pub(crate) fn with_config(config: &str) -> Broker {
        let own = tempfile::tempdir().expect("a directory");
        std::fs::write(own.path().join("plimsoll.toml"), config).expect("a configuration");
        let directory = own.path().join("run");
        let arguments = vec![
            "--config".into(),
            own.path().join("plimsoll.toml").display().to_string(),
        ];
        let mut broker = Broker::start_in(&directory, arguments);
        broker._own = Some(own);
        broker
    }

    /// Starts a broker in a new directory.
    pub(crate) fn start() -> Broker {
        Broker::with_config("")
    }

    /// Starts a broker in that directory and waits until it serves.
    pub(crate) fn start_in(directory: &Path, arguments: Vec<String>) -> Broker {
        let broker = Broker::start_alone_in(directory, arguments);
        broker.wait_until_it_serves();
        broker
    }

    fn wait_until_it_serves(&self) {
        until("the broker serves", || {
            UnixStream::connect(self.socket()).is_ok()
        });
    }

    /// Starts a broker in that directory and does not wait for it.
    pub(crate) fn start_alone_in(directory: &Path, arguments: Vec<String>) -> Broker {
        Broker::spawned(directory, arguments, Vec::new())
    }

    fn spawned(directory: &Path, arguments: Vec<String>, by: Vec<String>) -> Broker {
        // Outside the directory, which may be on a file system that the test fills.
        let log = tempfile::NamedTempFile::new().expect("a log");
        let child = spawn(directory, &arguments, &by, &log);
        Broker {
            by,
            child,
            arguments,
            directory: directory.into(),
            log,
            _own: None,
        }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.join("broker.sock")
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The directory that holds the configuration.
    pub(crate) fn config(&self) -> PathBuf {
        PathBuf::from(&self.arguments[1])
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.log.path()).unwrap_or_default()
    }

    pub(crate) fn connect(&self) -> Client {
        Client::connect(&self.socket())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Memory of its own, bytes: what it has of files comes and goes with what others need.
    pub(crate) fn memory(&self) -> u64 {
        let process = Process::open(self.child.id() as i32).expect("it runs");
        let memory = process.memory().expect("its memory");
        (memory.anon + memory.swap).0
    }

    pub(crate) fn signal(&self, signal: i32) {
        let pid = rustix::process::Pid::from_raw(self.child.id() as i32).expect("a process");
        let signal = rustix::process::Signal::from_named_raw(signal).expect("a signal");
        rustix::process::kill_process(pid, signal).expect("it can be signalled");
    }

    /// Stops the broker, until it gets SIGCONT.
    pub(crate) fn stop(&self) {
        children::stop(self.child.id(), PATIENCE);
    }

    /// Kills the broker like a crash, and starts another in its place.
    pub(crate) fn crash_and_restart(&mut self) {
        self.signal(libc::SIGKILL);
        self.child.wait().expect("it ended");
        self.child = spawn(&self.directory, &self.arguments, &self.by, &self.log);
        self.wait_until_it_serves();
    }

    /// Waits for its end.
    pub(crate) fn wait(&mut self) {
        self.child.wait().expect("it ended");
    }

    /// Ends the broker like a service manager; returns whether it exited cleanly.
    pub(crate) fn leave(&mut self) -> bool {
        self.signal(libc::SIGTERM);
        self.child.wait().expect("it ended").success()
    }

    /// Whether it exited cleanly; `None` while it runs.
    pub(crate) fn left(&mut self) -> Option<bool> {
        let status = self.child.try_wait().expect("it can be asked");
        status.map(|status| status.success())
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- the broker's log:\n{}", self.log());
        }
        if let Ok(None) = self.child.try_wait() {
            self.signal(libc::SIGTERM);
        }
        let _ = self.child.wait();
    }
}

fn spawn(
    directory: &Path,
    arguments: &[String],
    by: &[String],
    log: &tempfile::NamedTempFile,
) -> Child {
    let mut line = by.to_vec();
    line.push(env!("CARGO_BIN_EXE_plimsolld").into());
    let mut command = Command::new(&line[0]);
    command.args(&line[1..]);
    let log = std::fs::OpenOptions::new()
        .append(true)
        .open(log.path())
        .expect("a log");
    command
        .args(arguments)
        .arg("--directory")
        .arg(directory)
        .env_remove("NOTIFY_SOCKET")
        .env("RUST_LOG", "debug")
        .stdin(Stdio::null())
        .stderr(log)
        .spawn()
        .expect("plimsolld starts")
}

/// Runs `work` as another user, in a thread of its own. Processes that it starts belong to that
/// user.
pub(crate) fn as_user<T: Send>(uid: u32, work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(move || {
            let uid = libc::c_long::from(uid);
            // SAFETY: setresuid takes three numbers and touches no memory of ours; the raw call
            // changes the calling thread alone, which ends with `work`.
            let code = unsafe { libc::syscall(libc::SYS_setresuid, uid, uid, uid) };
            assert_eq!(code, 0);
            work()
        });
        thread.join().expect("what that user does works")
    })
}

/// Starts a broker that is expected to fail; returns its exit code and its output.
pub(crate) fn refused_start(arguments: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_plimsolld"))
        .args(arguments)
        .env("RUST_LOG", "warn")
        .output()
        .expect("plimsolld starts");
    (
        output.status.code(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

/// A refused call.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) error: String,
    pub(crate) message: String,
}

/// One connection.
pub(crate) struct Client {
    pub(crate) stream: UnixStream,
    pending: Vec<u8>,
}

impl Client {
    pub(crate) fn connect(socket: &Path) -> Client {
        let stream = UnixStream::connect(socket).expect("the broker takes connections");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        Client {
            stream,
            pending: Vec::new(),
        }
    }

    pub(crate) fn send(&mut self, message: &[u8]) {
        self.stream
            .write_all(message)
            .expect("it takes what we send");
    }

    /// The next reply; `None` when the broker closed the connection.
    pub(crate) fn reply(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.pending.iter().position(|&byte| byte == 0) {
                let message: Vec<u8> = self.pending.drain(..=end).collect();
                return Some(serde_json::from_slice(&message[..end]).expect("a JSON reply"));
            }
            let mut buffer = [0; 65536];
            match self.stream.read(&mut buffer) {
                Ok(0) => return None,
                Ok(count) => self.pending.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                // A signal interrupted the read, for example because a child ended. A read with a
                // time limit is not restarted automatically.
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => panic!("no reply: {error}"),
            }
        }
    }

    fn request(&mut self, method: &str, parameters: &Value, more: bool) {
        let method = if method.contains('.') {
            method.to_owned()
        } else {
            format!("io.plimsoll.{method}")
        };
        let mut text = json!({"method": method, "parameters": parameters, "more": more})
            .to_string()
            .into_bytes();
        text.push(0);
        self.send(&text);
    }

    pub(crate) fn call(&mut self, method: &str, parameters: Value) -> Result<Value, Refused> {
        self.request(method, &parameters, false);
        result(self.reply().expect("an answer, not a closed connection"))
    }

    pub(crate) fn subscribe(&mut self, method: &str, parameters: Value) -> Result<Value, Refused> {
        self.request(method, &parameters, true);
        result(self.reply().expect("an answer, not a closed connection"))
    }

    /// Checks that the reply is an error with this name (without its interface) and text, and that
    /// the connection stays open.
    #[track_caller]
    pub(crate) fn refuses(&mut self, method: &str, parameters: Value, error: &str, says: &str) {
        let shown = parameters.to_string();
        let refused = self.call(method, parameters).expect_err(&shown);
        assert!(
            refused.error.ends_with(&format!(".{error}")),
            "{shown}: {refused:?}"
        );
        assert!(refused.message.contains(says), "{shown}: {refused:?}");
    }

    pub(crate) fn list(&mut self) -> Value {
        self.call("List", json!({})).expect("a listing")
    }

    /// The principal with that id, anywhere in the tree.
    pub(crate) fn find(&mut self, id: u64) -> Option<Value> {
        let listing = self.list();
        let mut left: Vec<Value> = listing["principals"]
            .as_array()
            .expect("principals")
            .clone();
        while let Some(principal) = left.pop() {
            if principal["id"] == json!(id) {
                return Some(principal);
            }
            left.extend(
                principal["children"]
                    .as_array()
                    .expect("children")
                    .iter()
                    .cloned(),
            );
        }
        None
    }
}

fn result(reply: Value) -> Result<Value, Refused> {
    match reply.get("error") {
        None => Ok(reply["parameters"].clone()),
        Some(error) => Err(Refused {
            error: error.as_str().unwrap_or_default().into(),
            message: reply["parameters"]["message"]
                .as_str()
                .unwrap_or_default()
                .into(),
        }),
    }
}

/// A process that does nothing; ended when dropped.
pub(crate) struct Sleeper(pub(crate) Child);

impl Sleeper {
    pub(crate) fn start() -> Sleeper {
        Sleeper(
            Command::new("sleep")
                .arg("600")
                .stdin(Stdio::null())
                .spawn()
                .expect("sleep starts"),
        )
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A registered program.
pub(crate) struct Program {
    pub(crate) client: Client,
    pub(crate) sleeper: Sleeper,
    pub(crate) id: u64,
    pub(crate) page: PathBuf,
    pub(crate) pressure: PathBuf,
}

impl Program {
    pub(crate) fn register(broker: &Broker, name: &str, extra: Value) -> Program {
        Program::rejoin(broker, name, extra, Sleeper::start())
    }

    /// Registers a program that already runs.
    pub(crate) fn rejoin(broker: &Broker, name: &str, extra: Value, sleeper: Sleeper) -> Program {
        let mut parameters = json!({"name": name, "pid": sleeper.pid()});
        for (key, value) in extra.as_object().expect("an object") {
            parameters[key] = value.clone();
        }
        let mut client = broker.connect();
        let registered = client
            .call("Register", parameters)
            .expect("it is registered");
        Program {
            client,
            sleeper,
            id: registered["id"].as_u64().expect("a number"),
            page: registered["page"].as_str().expect("a path").into(),
            pressure: registered["pressure"].as_str().expect("a path").into(),
        }
    }

    /// The page's (limit, heartbeat, generation).
    pub(crate) fn read_page(&self) -> Option<plimsoll_wire::page::Reading> {
        read_page(&self.page)
    }

    /// Checks that nothing was taken from it: it is listed, and its page is fresh and owes nothing.
    #[track_caller]
    pub(crate) fn assert_unharmed(&mut self) {
        let id = self.id;
        let shown = self.client.find(id).expect("it is listed");
        assert_eq!(shown["owed"], json!(0));
        until("its page is fresh", || {
            let reading = self.read_page();
            reading.is_some_and(|reading| !reading.is_stale(plimsoll_kernel::clock::now()))
        });
    }
}

/// Reads a page file like a client; retries while the broker writes.
pub(crate) fn read_page(path: &Path) -> Option<plimsoll_wire::page::Reading> {
    let end = Instant::now() + PATIENCE;
    loop {
        let words = words_of(path)?;
        let reading = PageView::of_words(&words).read();
        let being_written = words[offset::SEQUENCE / 8].load(Ordering::Relaxed) != 0;
        if reading.is_some() || !being_written || Instant::now() > end {
            return reading;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn words_of(path: &Path) -> Option<Box<[AtomicU64; 512]>> {
    let bytes = std::fs::read(path)
        .ok()
        .filter(|bytes| bytes.len() == 4096)?;
    let words: Vec<AtomicU64> = bytes
        .chunks_exact(8)
        .map(|word| AtomicU64::new(u64::from_le_bytes(word.try_into().expect("eight bytes"))))
        .collect();
    Some(words.into_boxed_slice().try_into().expect("a page"))
}
