//! Real servers with a cache in memory, steered by their own protocols: Redis (or Valkey), and memcached.

mod support;

use plimsoll_kernel::undo_notes::Notes;
use plimsoll_runtimes::launch::{Plan, prepare};
use plimsoll_runtimes::lever_options::Chosen;
use plimsoll_runtimes::process::Process;
use plimsoll_runtimes::{ALL, Ended, Options, family, run};
use plimsoll_testbed::{children, skip};
use plimsoll_unit::MIB;
use rustix::process::Signal;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use support::{Script, eventually};

/// A value is so large that it has pages of its own: then each one that is dropped gives memory back.
const VALUE: usize = 20_000;
/// Values that fill about 100 MiB.
const MANY: usize = 5_000;

/// The path of a program, if it is installed.
fn installed(names: &[&str]) -> Option<PathBuf> {
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
struct Server {
    child: Child,
    folder: tempfile::TempDir,
}

impl Server {
    /// Starts a Redis or Valkey with these arguments; `None` if none is installed.
    fn redis(arguments: &[&str]) -> Option<Server> {
        Server::redis_after(&[], arguments)
    }

    /// The same by another program, which becomes the server.
    fn redis_after(before: &[&str], arguments: &[&str]) -> Option<Server> {
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
    fn memcached(arguments: &[&str]) -> Option<Server> {
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

    fn pid(&self) -> u32 {
        self.child.id()
    }

    fn uses(&self) -> u64 {
        family::uses(self.pid()).unwrap().0
    }

    /// Talks to it as a client would.
    fn client(&self) -> Client {
        let socket = UnixStream::connect(self.socket()).unwrap();
        Client {
            lines: BufReader::new(socket.try_clone().unwrap()),
            socket,
        }
    }

    /// Steers it by this script.
    fn steer(&self, script: &Script, options: Options) -> JoinHandle<Ended> {
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
struct Client {
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
    fn redis(&mut self, words: &[&str]) -> Vec<String> {
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

    fn maxmemory(&mut self) -> u64 {
        self.redis(&["CONFIG", "GET", "maxmemory"])[1]
            .parse()
            .unwrap()
    }

    /// A field of `INFO`.
    fn info(&mut self, name: &str) -> u64 {
        let lines = self.redis(&["INFO"]);
        let mut fields = lines.iter().filter_map(|line| line.split_once(':'));
        let (_, value) = fields.find(|(field, _)| *field == name).unwrap();
        value.parse().unwrap()
    }

    /// Fills it with this many values, named from `first` on.
    fn fill_redis(&mut self, first: usize, values: usize) {
        let value = "v".repeat(VALUE);
        for key in first..first + values {
            let said = self.redis(&["SET", &format!("key-{key}"), &value]);
            assert_eq!(said, ["+OK"]);
        }
    }

    /// A command of memcached with an answer of one line.
    fn memcached(&mut self, line: &str) -> String {
        self.socket
            .write_all(format!("{line}\r\n").as_bytes())
            .unwrap();
        self.line()
    }

    /// A statistic of memcached.
    fn statistic(&mut self, of: &str, name: &str) -> u64 {
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

    fn fill_memcached(&mut self, first: usize, values: usize) {
        let value = "v".repeat(VALUE);
        for key in first..first + values {
            let said = self.memcached(&format!("set key-{key} 0 0 {VALUE}\r\n{value}"));
            assert_eq!(said, "STORED");
        }
    }
}

fn limit(script: &Script, mib: u64) {
    script.limit.store(mib * MIB, Ordering::Relaxed);
}

/// Stops the steering, which restores what it changed.
fn stop(script: &Script, steering: JoinHandle<Ended>) {
    script.stop.store(true, Ordering::Relaxed);
    assert_eq!(steering.join().unwrap(), Ended::Stopped);
}

/// Waits until the user is told why a server is not steered.
fn refused(server: &Server, options: Options, needle: &str) {
    let script = Script::default();
    limit(&script, 64);
    let steering = server.steer(&script, options);
    eventually(needle, || {
        let why = script.why.lock().unwrap();
        why.iter().any(|why| why.contains(needle))
    });
    stop(&script, steering);
}

#[test]
fn commands_and_processes_are_recognised() {
    for (server, program, name) in [
        (Server::redis(&[]), "redis-server", "redis"),
        (Server::memcached(&[]), "memcached", "memcached"),
    ] {
        let Some(server) = server else { continue };
        assert_eq!(ALL.of_process(server.pid()).name(), name);
        let argv = [OsString::from(program), "-x".into()];
        let found = prepare(&argv, &Plan::default());
        assert_eq!((found.runtime.name(), found.adapter), (name, Some(name)));
        assert_eq!(found.argv, argv);
        // The pages of memcached are to come back each time.
        let added = usize::from(name == "memcached");
        assert_eq!((found.environment.len(), found.notes.len()), (added, added));
    }
}

#[test]
fn a_cache_follows_its_limit_down_and_up_and_is_let_go() {
    let Some(server) = Server::redis(&["--maxmemory-policy", "allkeys-lru"]) else {
        return;
    };
    let mut client = server.client();
    client.fill_redis(0, MANY);
    let before = server.uses();
    assert!(before > 90 * MIB, "{before}");
    let script = Script::default();
    limit(&script, 64);
    let steering = server.steer(&script, Options::default());
    eventually("its memory comes back", || {
        server.uses() <= 64 * MIB * 105 / 100
    });
    eventually("it is told", || {
        (1..=64 * MIB).contains(&client.maxmemory())
    });
    let evicted = client.info("evicted_keys");
    assert!(evicted > 0);
    // It goes on within the limit.
    client.fill_redis(MANY, 1000);
    assert!(client.info("evicted_keys") > evicted);
    eventually("it is within its limit", || {
        server.uses() <= 64 * MIB * 105 / 100
    });
    eventually("it reports", || {
        let report = *script.report.lock().unwrap();
        let floor = report.floor.unwrap_or(u64::MAX);
        report.demand.is_none() && floor < 64 * MIB && report.reaction_ms.is_some()
    });
    limit(&script, 200);
    eventually("it may grow", || client.maxmemory() > 150 * MIB);
    let evicted = client.info("evicted_keys");
    client.fill_redis(2 * MANY, 3000);
    assert_eq!(client.info("evicted_keys"), evicted);
    stop(&script, steering);
    assert_eq!(client.maxmemory(), 0);
}

#[test]
fn the_users_maximum_is_kept_and_comes_back_and_a_new_one_counts() {
    let own = (80 * MIB).to_string();
    let policy = ["--maxmemory-policy", "allkeys-lfu", "--maxmemory", &own];
    let Some(server) = Server::redis(&policy) else {
        return;
    };
    let mut client = server.client();
    let script = Script::default();
    limit(&script, 48);
    let steering = server.steer(&script, Options::default());
    eventually("it is lowered", || client.maxmemory() < 48 * MIB);
    eventually("it reports", || {
        let report = *script.report.lock().unwrap();
        report.demand.is_some_and(|demand| demand >= 80 * MIB)
    });
    limit(&script, 500);
    eventually("it is the user's", || client.maxmemory() == 80 * MIB);
    let new = (60 * MIB).to_string();
    client.redis(&["CONFIG", "SET", "maxmemory", &new]);
    limit(&script, 30);
    eventually("it is lowered again", || client.maxmemory() < 30 * MIB);
    stop(&script, steering);
    assert_eq!(client.maxmemory(), 60 * MIB);
}

#[test]
fn a_server_that_is_no_cache_is_left_alone_until_it_is_one() {
    let Some(server) = Server::redis(&["--maxmemory-policy", "noeviction"]) else {
        return;
    };
    let mut client = server.client();
    refused(&server, Options::default(), "`noeviction`");
    assert_eq!(client.maxmemory(), 0);
    // It is let go when it becomes such a server while it is steered.
    client.redis(&["CONFIG", "SET", "maxmemory-policy", "allkeys-random"]);
    let script = Script::default();
    limit(&script, 64);
    let steering = server.steer(&script, Options::default());
    eventually("it is steered", || client.maxmemory() > 0);
    client.redis(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    eventually("it is let go", || client.maxmemory() == 0);
    client.redis(&["CONFIG", "SET", "maxmemory-policy", "allkeys-random"]);
    eventually("it is steered again", || client.maxmemory() > 0);
    stop(&script, steering);
    assert_eq!(client.maxmemory(), 0);
}

#[test]
fn what_forbids_steering_is_told() {
    let policy = ["--maxmemory-policy", "allkeys-lru"];
    for (more, needle) in [
        (
            &["--requirepass", "secret"][..],
            "--redis-password-file FILE",
        ),
        (&["--rename-command", "CONFIG", ""], "renamed or forbidden"),
        (&["--replicaof", "127.0.0.1", "1"], "it is a replica"),
        (
            &["--maxmemory-policy", "volatile-lru", "--maxmemory", "0"],
            "",
        ),
    ] {
        let Some(server) = Server::redis(&[&policy[..], more].concat()) else {
            return;
        };
        if needle.is_empty() {
            // Its keys do not expire.
            server.client().fill_redis(0, 3);
            refused(&server, Options::default(), "only 0 of its 3 keys");
        } else {
            refused(&server, Options::default(), needle);
        }
    }
}

#[test]
fn a_password_is_read_from_a_file() {
    let policy = [
        "--maxmemory-policy",
        "allkeys-lru",
        "--requirepass",
        "secret",
    ];
    let Some(server) = Server::redis(&policy) else {
        return;
    };
    let mut client = server.client();
    assert_eq!(client.redis(&["AUTH", "secret"]), ["+OK"]);
    let file = server.folder.path().join("password");
    let options = || {
        let mut chosen = Chosen::default();
        let mut options = ALL.options();
        let option = options.find(|it| it.name == "redis-password-file").unwrap();
        chosen.give(option, file.to_str().unwrap()).unwrap();
        Options {
            chosen,
            ..Options::default()
        }
    };
    refused(&server, options(), "cannot be used");
    std::fs::write(&file, "wrong\n").unwrap();
    refused(&server, options(), "refuses the password");
    std::fs::write(&file, "secret\n").unwrap();
    let script = Script::default();
    limit(&script, 64);
    let steering = server.steer(&script, options());
    eventually("it is steered", || client.maxmemory() > 0);
    stop(&script, steering);
    assert_eq!(client.maxmemory(), 0);
    // The note of a killed adapter names the file.
    client.redis(&["CONFIG", "SET", "maxmemory", "7000000"]);
    let process = Process::new(server.pid()).unwrap();
    let numbers = "maxmemory 9000000 7000000 0\n";
    let note = format!("{numbers}password {}\n", file.display());
    assert_eq!(ALL.put_back("redis", process, numbers), Some(false));
    assert_eq!(ALL.put_back("redis", process, &note), Some(true));
    assert_eq!(client.maxmemory(), 9_000_000);
    // Somebody has set another value since.
    assert_eq!(ALL.put_back("redis", process, &note), Some(true));
    assert_eq!(client.maxmemory(), 9_000_000);
}

#[test]
fn a_server_that_saves_evicts_when_the_file_is_written() {
    let policy = [
        "--maxmemory-policy",
        "allkeys-lru",
        "--rdb-key-save-delay",
        "400",
    ];
    let Some(server) = Server::redis(&policy) else {
        return;
    };
    let mut client = server.client();
    client.fill_redis(0, MANY);
    let script = Script::default();
    limit(&script, 300);
    let steering = server.steer(&script, Options::default());
    eventually("it is told", || client.maxmemory() > 0);
    client.redis(&["BGSAVE"]);
    assert_eq!(client.info("rdb_bgsave_in_progress"), 1);
    limit(&script, 64);
    let mut looks = 0;
    while client.info("rdb_bgsave_in_progress") == 1 {
        // The file may be written between the two questions.
        let evicted = client.info("evicted_keys");
        assert!(evicted == 0 || client.info("rdb_bgsave_in_progress") == 0);
        looks += 1;
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert!(looks > 5, "it saved for long enough: {looks}");
    eventually("its memory comes back", || {
        server.uses() <= 64 * MIB * 105 / 100
    });
    stop(&script, steering);
    assert_eq!(client.maxmemory(), 0);
}

#[test]
fn a_server_that_stands_still_blocks_nobody() {
    let Some(server) = Server::redis(&["--maxmemory-policy", "allkeys-lru"]) else {
        return;
    };
    let mut client = server.client();
    let script = Script::default();
    limit(&script, 64);
    let steering = server.steer(&script, Options::default());
    eventually("it is steered", || client.maxmemory() > 0);
    children::stop(server.pid(), support::LONG);
    limit(&script, 32);
    stop(&script, steering);
    children::signal(server.pid(), Signal::CONT);
    // Nothing could be put back.
    assert!(client.maxmemory() > 0);
    children::stop(server.pid(), support::LONG);
    refused(&server, Options::default(), "is stopped");
}

#[test]
fn one_in_another_network_namespace_is_reached_by_its_socket_only() {
    if !rustix::process::geteuid().is_root() {
        return skip("a network namespace needs root");
    }
    let policy = ["--maxmemory-policy", "allkeys-lru"];
    let Some(server) = Server::redis_after(&["unshare", "--net"], &policy) else {
        return;
    };
    let mut client = server.client();
    let script = Script::default();
    limit(&script, 64);
    let steering = server.steer(&script, Options::default());
    eventually("it is steered", || client.maxmemory() > 0);
    stop(&script, steering);
    assert_eq!(client.maxmemory(), 0);
    // Its socket is taken away, and the port is another network's.
    let port = [
        "--port",
        "6399",
        "--maxmemory-policy",
        "allkeys-lru",
        "--unixsocket",
        "",
    ];
    let mut words: Vec<OsString> = vec!["unshare".into(), "--net".into()];
    words.push(
        installed(&["redis-server", "valkey-server"])
            .unwrap()
            .into(),
    );
    words.extend(port.map(OsString::from));
    let mut command = Command::new(&words[0]);
    command
        .args(&words[1..])
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    let folder = tempfile::tempdir().unwrap();
    let child = command.current_dir(folder.path()).spawn().unwrap();
    let server = Server { child, folder };
    refused(&server, Options::default(), "another network namespace");
}

/// The variables that make the test [`adapter_of_another_process`] an adapter.
const PID: &str = "PLIMSOLL_TEST_ADAPTER_PID";
const NOTES: &str = "PLIMSOLL_TEST_ADAPTER_NOTES";

/// Steers a server to 64 MiB until it is killed, in a process that another test starts. Else does nothing.
#[test]
fn adapter_of_another_process() {
    let Ok(pid) = std::env::var(PID) else { return };
    let folder = std::env::var_os(NOTES).unwrap();
    let mut script = Script::default();
    limit(&script, 64);
    let notes = Notes::open(Path::new(&folder)).unwrap();
    let options = Options {
        notes: Some(Arc::new(notes)),
        ..Options::default()
    };
    run(&mut script, pid.parse().unwrap(), &options);
}

/// Starts an adapter in a process of its own, kills it once it `has_set` something, and follows its note.
fn kill_an_adapter(server: &Server, has_set: impl FnMut() -> bool) {
    let folder = server.folder.path().join("notes");
    std::fs::create_dir(&folder).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "adapter_of_another_process"]);
    command
        .env(PID, server.pid().to_string())
        .env(NOTES, &folder);
    let mut adapter = command.stdout(Stdio::null()).spawn().unwrap();
    eventually("it is steered", has_set);
    let notes = Notes::open(&folder).unwrap();
    assert!(notes.left().unwrap().is_empty(), "its writer lives");
    adapter.kill().unwrap();
    adapter.wait().unwrap();
    let left = notes.left().unwrap();
    let [(about, text, _)] = &left[..] else {
        panic!("{left:?}")
    };
    let process = Process::new(about.pid).unwrap();
    assert_eq!(process.pid, server.pid());
    assert_eq!(ALL.put_back(&about.kind, process, text), Some(true));
}

#[test]
fn what_a_killed_adapter_has_set_is_put_back() {
    if let Some(server) = Server::redis(&["--maxmemory-policy", "allkeys-lru"]) {
        let mut client = server.client();
        kill_an_adapter(&server, || client.maxmemory() > 0);
        assert_eq!(client.maxmemory(), 0);
    }
    if let Some(server) = Server::memcached(&["-m", "100"]) {
        let mut client = server.client();
        let mut limit = || client.statistic("stats", "limit_maxbytes");
        kill_an_adapter(&server, || limit() < 64 * MIB);
        assert_eq!(limit(), 100 * MIB);
    }
}

#[test]
fn a_memcached_follows_its_limit_down_and_up_and_is_let_go() {
    let Some(server) = Server::memcached(&["-m", "100"]) else {
        return;
    };
    let mut client = server.client();
    client.fill_memcached(0, MANY);
    let before = server.uses();
    assert!(before > 80 * MIB, "{before}");
    let script = Script::default();
    limit(&script, 64);
    let steering = server.steer(&script, Options::default());
    eventually("its memory comes back", || {
        server.uses() <= 64 * MIB * 105 / 100
    });
    let evicted = client.statistic("stats", "evictions");
    client.fill_memcached(MANY, 1000);
    assert!(client.statistic("stats", "evictions") > evicted);
    eventually("it reports", || {
        let report = *script.report.lock().unwrap();
        let floor = report.floor.unwrap_or(u64::MAX);
        report.demand.is_some_and(|demand| demand >= 100 * MIB) && floor < 64 * MIB
    });
    limit(&script, 90);
    let mut grown = || client.statistic("stats", "limit_maxbytes");
    eventually("it may grow", || grown() > 70 * MIB);
    limit(&script, 500);
    eventually("no more than the user gave", || grown() == 100 * MIB);
    // What it takes again comes back again.
    client.fill_memcached(0, MANY);
    for lower in [50, 30] {
        limit(&script, lower);
        eventually("its memory comes back again", || {
            server.uses() <= lower * MIB * 105 / 100
        });
    }
    stop(&script, steering);
    let restored = client.statistic("stats", "limit_maxbytes");
    assert_eq!(restored, 100 * MIB);
}

#[test]
fn a_memcached_that_does_not_evict_or_speaks_no_text_is_told_of() {
    for (arguments, needle) in [
        (&["-M"][..], "started with -M"),
        (&["-B", "binary"], "binary protocol"),
    ] {
        let Some(server) = Server::memcached(arguments) else {
            return;
        };
        refused(&server, Options::default(), needle);
    }
}
