//! A real server of a test, and a client that talks to it.

use crate::support::{Script, eventually};
use plimsoll_runtimes::launch::{Plan, prepare};
use plimsoll_runtimes::{Ended, Options, family, run};
use plimsoll_testbed::{children, skip};
use rustix::process::Signal;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;

/// A value is so large that it has pages of its own: then each one that is dropped gives memory back.
const VALUE: usize = 20_000;
/// Values that fill about 100 MiB.
pub(crate) const MANY: usize = 5_000;

/// The path of a program, if it is installed.
pub(crate) fn installed(names: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let files = names
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    let found = files.into_iter().find(|file| file.is_file());
    if found.is_none() {
        skip(format!("none of {} is installed", names.join(", ")));
    }
    found
}

/// A server with a UNIX socket in a folder of its own. It ends with its guard.
pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) folder: tempfile::TempDir,
}

impl Server {
    /// Starts a Redis or Valkey with these arguments; `None` if none is installed.
    pub(crate) fn redis(arguments: &[&str]) -> Option<Server> {
        Server::redis_after(&[], arguments)
    }

    /// The same by another program, which becomes the server.
    pub(crate) fn redis_after(before: &[&str], arguments: &[&str]) -> Option<Server> {
        let program = installed(&["redis-server", "valkey-server"])?;
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let mut words: Vec<OsString> = before.iter().map(OsString::from).collect();
        words.extend([program.into(), "--unixsocket".into(), socket.into()]);
        words.extend(["--dir".into(), folder.path().into()]);
        words.extend(["--save", "", "--daemonize", "no"].map(OsString::from));
        // No port, unless the arguments name one.
        words.extend(["--port", "0"].map(OsString::from));
        words.extend(arguments.iter().map(OsString::from));
        Some(Server::start(&words, folder))
    }

    /// Starts a memcached with these arguments; `None` if it is not installed.
    pub(crate) fn memcached(arguments: &[&str]) -> Option<Server> {
        let program = installed(&["memcached"])?;
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let mut words: Vec<OsString> = vec![program.into(), "-s".into(), socket.into()];
        // Root has to say so.
        words.extend(["-u", "root"].map(OsString::from));
        words.extend(arguments.iter().map(OsString::from));
        let prepared = prepare(&words, &Plan::default());
        Some(Server::start_in(
            &prepared.argv,
            &prepared.environment,
            folder,
        ))
    }

    fn start(words: &[OsString], folder: tempfile::TempDir) -> Server {
        Server::start_in(words, &[], folder)
    }

    fn start_in(
        words: &[OsString],
        environment: &[(OsString, OsString)],
        folder: tempfile::TempDir,
    ) -> Server {
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command.envs(environment.iter().cloned());
        let child = command.spawn().unwrap();
        let server = Server { child, folder };
        eventually("it listens", || {
            UnixStream::connect(server.socket()).is_ok()
        });
        server
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn uses(&self) -> u64 {
        family::uses(self.pid()).unwrap().0
    }

    /// Talks to it as a client would.
    pub(crate) fn client(&self) -> Client {
        let socket = UnixStream::connect(self.socket()).unwrap();
        Client {
            lines: BufReader::new(socket.try_clone().unwrap()),
            socket,
        }
    }

    /// Steers it by this script.
    pub(crate) fn steer(&self, script: &Script, options: Options) -> JoinHandle<Ended> {
        let (mut link, pid) = (script.clone(), self.pid());
        std::thread::spawn(move || run(&mut link, pid, &options))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        children::signal(self.pid(), Signal::CONT);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A connection of the test's.
pub(crate) struct Client {
    socket: UnixStream,
    lines: BufReader<UnixStream>,
}

impl Client {
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// A command of Redis, and the lines of its reply, without those that tell lengths.
    pub(crate) fn redis(&mut self, words: &[&str]) -> Vec<String> {
        let mut text = format!("*{}\r\n", words.len());
        for word in words {
            text.push_str(&format!("${}\r\n{word}\r\n", word.len()));
        }
        self.socket.write_all(text.as_bytes()).unwrap();
        self.reply()
    }

    fn reply(&mut self) -> Vec<String> {
        let line = self.line();
        let (kind, rest) = line.split_at(1);
        match kind {
            "$" => {
                let mut bytes = vec![0; rest.parse::<usize>().unwrap() + 2];
                self.lines.read_exact(&mut bytes).unwrap();
                let text = String::from_utf8(bytes).unwrap();
                text.lines().map(str::to_owned).collect()
            }
            "*" => (0..rest.parse().unwrap())
                .flat_map(|_| self.reply())
                .collect(),
            _ => vec![line],
        }
    }

    pub(crate) fn maxmemory(&mut self) -> u64 {
        self.redis(&["CONFIG", "GET", "maxmemory"])[1]
            .parse()
            .unwrap()
    }

    /// A field of `INFO`.
    pub(crate) fn info(&mut self, name: &str) -> u64 {
        let lines = self.redis(&["INFO"]);
        let mut fields = lines.iter().filter_map(|line| line.split_once(':'));
        let (_, value) = fields.find(|(field, _)| *field == name).unwrap();
        value.parse().unwrap()
    }

    /// Fills it with this many values, named from `first` on.
    pub(crate) fn fill_redis(&mut self, first: usize, values: usize) {
        let value = "v".repeat(VALUE);
        for key in first..first + values {
            let said = self.redis(&["SET", &format!("key-{key}"), &value]);
            assert_eq!(said, ["+OK"]);
        }
    }

    /// A command of memcached with an answer of one line.
    pub(crate) fn memcached(&mut self, line: &str) -> String {
        self.socket
            .write_all(format!("{line}\r\n").as_bytes())
            .unwrap();
        self.line()
    }

    /// A statistic of memcached.
    pub(crate) fn statistic(&mut self, of: &str, name: &str) -> u64 {
        self.socket
            .write_all(format!("{of}\r\n").as_bytes())
            .unwrap();
        let mut found = None;
        loop {
            let line = self.line();
            if line == "END" {
                return found.unwrap();
            }
            let value = line.strip_prefix(&format!("STAT {name} "));
            found = value.map(|value| value.parse().unwrap()).or(found);
        }
    }

    pub(crate) fn fill_memcached(&mut self, first: usize, values: usize) {
        let value = "v".repeat(VALUE);
        for key in first..first + values {
            let said = self.memcached(&format!("set key-{key} 0 0 {VALUE}\r\n{value}"));
            assert_eq!(said, "STORED");
        }
    }
}
