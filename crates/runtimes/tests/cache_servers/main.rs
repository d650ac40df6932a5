//! Real servers with a cache in memory, steered by their own protocols: Redis (or Valkey), and memcached.

mod server;
#[path = "../support/mod.rs"]
mod support;

use plimsoll_kernel::undo_notes::Notes;
use plimsoll_runtimes::launch::{Plan, prepare};
use plimsoll_runtimes::lever_options::Chosen;
use plimsoll_runtimes::process::Process;
use plimsoll_runtimes::{ALL, Ended, Options, run};
use plimsoll_testbed::{children, skip};
use plimsoll_unit::MIB;
use rustix::process::Signal;
use server::{MANY, Server, installed};
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use support::{Script, eventually};

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
    // Memory that it takes again comes back again.
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
