//! A private place for a broker, in which tests call `plimsoll`. Everything that was started there ends with
//! it.
#![allow(dead_code, unreachable_pub)]

pub mod ground;
pub mod mapped;
pub mod nobody;
pub mod older_broker;
pub mod prometheus;

use plimsoll_client::{Connection, Socket};
use plimsoll_wire::messages::{Listing, Principal};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

/// A wait that takes longer than this has failed, on any machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The program that is tested: `plimsoll`, or `plimsoll-lab` in the tests of its package.
pub const OWN: &str = match (
    option_env!("CARGO_BIN_EXE_plimsoll"),
    option_env!("CARGO_BIN_EXE_plimsoll-lab"),
) {
    (Some(own), _) | (None, Some(own)) => own,
    (None, None) => panic!("cargo builds the program with its tests"),
};

pub struct Place {
    dir: tempfile::TempDir,
    started: Vec<Started>,
}

/// A process of a test. It is ended when this is dropped.
pub struct Started(pub Child);

impl Drop for Started {
    fn drop(&mut self) {
        // `plimsoll run` passes the signal on, so its program ends too.
        if let Ok(None) = self.0.try_wait() {
            self.signal(libc::SIGTERM);
            self.signal(libc::SIGCONT);
        }
        let deadline = Instant::now() + PATIENCE / 3;
        while let Ok(None) = self.0.try_wait()
            && Instant::now() < deadline
        {
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Started {
    pub fn signal(&self, signal: i32) {
        signal_to(self.0.id(), signal);
    }

    pub fn wait(&mut self) -> ExitStatus {
        wait_for("the process ends", || self.0.try_wait().unwrap())
    }
}

/// Lets a command have at most 64 open files, which it may raise to 4096.
pub fn limit_open_files(command: &mut Command) {
    let limit = libc::rlimit {
        rlim_cur: 64,
        rlim_max: 4096,
    };
    // SAFETY: `setrlimit` may be called between fork and exec; `limit` is valid for reading.
    unsafe {
        command.pre_exec(
            move || match libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            },
        );
    }
}

pub fn signal_to(pid: u32, signal: i32) {
    // SAFETY: `kill` only sends a signal; the process is one that the test started.
    unsafe { libc::kill(pid as i32, signal) };
}

/// Calls `look` until it returns something.
pub fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Runs a command of `plimsoll run` to its end, until a broker knows its program: one that was kept waiting
/// answers too late, and the program runs without it.
pub fn until_known(command: impl Fn() -> Command) -> Output {
    wait_for("a broker knows the program", || {
        let output = command().output().unwrap();
        (!stderr(&output).contains("without a broker")).then_some(output)
    })
}

/// Waits until a process handles a signal, or keeps it from coming to read it.
pub fn hears(pid: u32, signal: i32) {
    wait_for("the process is ready for signals", || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let sets = ["SigBlk:", "SigCgt:"].map(|name| {
            let set = status.lines().find_map(|line| line.strip_prefix(name));
            u64::from_str_radix(set.unwrap_or_default().trim(), 16).unwrap_or(0)
        });
        ((sets[0] | sets[1]) >> (signal - 1) & 1 != 0).then_some(())
    });
}

impl Place {
    pub fn new() -> Place {
        let dir = tempfile::Builder::new()
            .prefix("plimsoll-test-cli-")
            .tempdir()
            .unwrap();
        Place {
            dir,
            started: Vec::new(),
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        std::fs::write(self.path(name), text).unwrap();
        self.path(name)
    }

    pub fn socket(&self) -> PathBuf {
        self.path("b/broker.sock")
    }

    pub fn command(&self, args: &[&str]) -> Command {
        self.program(OWN, args)
    }

    /// A command for another program, made as [`Place::command`] makes one for ours.
    pub fn program(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .args(args)
            .env("PLIMSOLL_SOCKET", self.socket())
            .current_dir(self.dir.path());
        command
            .env_remove("PLIMSOLL_ID")
            .env_remove("PLIMSOLL_PAGE");
        command.stdin(Stdio::null());
        // A shell makes processes that it starts in the background ignore some signals, which these tests
        // send.
        // SAFETY: `signal` may be called between fork and exec, and touches no memory.
        unsafe {
            command.pre_exec(|| {
                for signal in [libc::SIGINT, libc::SIGQUIT, libc::SIGHUP] {
                    libc::signal(signal, libc::SIG_DFL);
                }
                Ok(())
            });
        }
        command
    }

    /// Runs `plimsoll` with these arguments, to its end.
    pub fn call(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Runs `plimsoll run` with these arguments, to its end. Again, if its broker answered too late to know
    /// its program.
    pub fn known(&self, args: &[&str]) -> Output {
        until_known(|| self.command(args))
    }

    /// Runs `plimsoll`, which must succeed, and returns its output.
    pub fn text(&self, args: &[&str]) -> String {
        let output = self.call(args);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{args:?}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Starts `plimsoll`, and does not wait for its end.
    pub fn start(&self, args: &[&str]) -> Started {
        let mut command = self.command(args);
        Started(command.stdout(Stdio::null()).spawn().unwrap())
    }

    /// As [`Place::start`], in a process group of its own.
    pub fn start_job(&self, args: &[&str]) -> Started {
        let mut command = self.command(args);
        command.process_group(0);
        Started(command.stdout(Stdio::null()).spawn().unwrap())
    }

    /// The list of principals from the broker of this place, if there is one.
    pub fn listing(&self) -> Option<Listing> {
        let socket = Socket::at(self.socket());
        Connection::open(&socket, PATIENCE).ok()?.list().ok()
    }

    /// The principal of this name, at any depth.
    pub fn principal(&self, name: &str) -> Option<Principal> {
        fn find(all: &[Principal], name: &str) -> Option<Principal> {
            let here = all.iter().find(|p| p.name == name).cloned();
            here.or_else(|| all.iter().find_map(|p| find(&p.children, name)))
        }
        find(&self.listing()?.principals, name)
    }

    /// Waits until the principal of this name has a process.
    pub fn attached(&self, name: &str) -> Principal {
        let look = || self.principal(name).filter(|p| p.pid.is_some());
        wait_for(&format!("{name} is attached"), look)
    }

    /// Keeps a process as long as the place.
    pub fn keep(&mut self, started: Started) {
        self.started.push(started);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.started.clear();
        if let Some(listing) = self.listing() {
            signal_to(listing.pid, libc::SIGTERM);
            // The broker writes its last files into the directory that is removed with this place.
            let deadline = Instant::now() + PATIENCE;
            while alive(listing.pid) && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
}

/// Path of a library that cargo built with these tests.
pub fn library(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let places = test.ancestors().skip(1).take(2);
    let found = places.map(|place| place.join(name)).find(|p| p.is_file());
    found.unwrap_or_else(|| panic!("cargo builds {name} with its tests"))
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Whether a process runs (and is no zombie).
pub fn alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')')
        .next()
        .is_some_and(|rest| !rest.is_empty() && !rest.starts_with(" Z"))
}
