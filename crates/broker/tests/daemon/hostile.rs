//! Two hostile users and an honest one at the system's broker. The two take every resource that
//! they can; each call of the honest user is still answered, and its listing shows its principal.

use crate::common::{Broker, Client, Program, Sleeper, as_user, until};
use plimsoll_testbed::skip;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

const HOSTILE: [u32; 2] = [64_201, 64_202];
const HONEST: u32 = 64_203;
/// Limit of open files of the broker, its own files included.
const DESCRIPTORS: u64 = 700;
/// Calls of the honest user.
const CALLS: usize = 200;

/// A broker for all users, in a directory that all may read; `None` where the test cannot become
/// other users.
fn broker(descriptors: u64, config: &str) -> Option<(Broker, tempfile::TempDir)> {
    if !rustix::process::geteuid().is_root() {
        skip("only root can become other users for this test");
        return None;
    }
    let own = tempfile::tempdir().expect("a directory");
    std::fs::set_permissions(own.path(), PermissionsExt::from_mode(0o755)).expect("it can");
    let broker = Broker::for_everybody(&own.path().join("run"), descriptors, config);
    Some((broker, own))
}

/// The honest user connects, calls, and checks that it is listed. Returns the number of answered
/// calls.
fn honest(broker: &Broker) -> usize {
    as_user(HONEST, || {
        let mut program = Program::register(broker, "honest", json!({"adapter": "self"}));
        let id = program.id;
        let mut answered = 0;
        for call in 0..CALLS {
            let report = json!({"id": id, "live": call, "demand": 1 << 20});
            let reported = program.client.call("Report", report);
            let mut other = broker.connect();
            let shown = other.find(id);
            let right = shown.is_some_and(|shown| shown["live"] == json!(call));
            answered += usize::from(reported.is_ok() && right);
        }
        assert!(program.read_page().is_some(), "its page has numbers");
        answered
    })
}

/// The reply to a call. A refused client gets its error before it calls, and cannot send then.
fn ask(client: &mut Client, call: &Value) -> Value {
    let _ = client.stream.write_all(format!("{call}\0").as_bytes());
    client.reply().expect("an answer")
}

/// Opens connections of one user until one is refused; returns them and the refusal.
fn connect_all(socket: &Path) -> (Vec<Client>, String) {
    let mut taken = Vec::new();
    loop {
        let mut client = Client::connect(socket);
        let reply = ask(
            &mut client,
            &json!({"method": "org.varlink.service.GetInfo"}),
        );
        if !reply["error"].is_null() {
            return (taken, reply.to_string());
        }
        taken.push(client);
        assert!(taken.len() < DESCRIPTORS as usize, "nobody stops it");
    }
}

fn open_descriptors(broker: &Broker) -> usize {
    let open = std::fs::read_dir(format!("/proc/{}/fd", broker.pid()));
    open.expect("it runs").count()
}

#[test]
fn connections_of_two_users_leave_descriptors_to_a_third() {
    let Some((broker, _own)) = broker(DESCRIPTORS, "") else {
        return;
    };
    let socket = broker.socket();
    let crowds = HOSTILE.map(|uid| as_user(uid, || connect_all(&socket)));
    for (crowd, told) in &crowds {
        assert!(crowd.len() >= 20, "{} of its first", crowd.len());
        assert!(told.contains("io.plimsoll.TooMany"), "{told}");
        assert!(told.contains("descriptors"), "{told}");
    }
    assert!(crowds[0].0.len() > crowds[1].0.len());
    assert_eq!(honest(&broker), CALLS);
    assert!(open_descriptors(&broker) < DESCRIPTORS as usize - 64);
    drop(crowds);
    assert_eq!(honest(&broker), CALLS);
}

#[test]
fn descriptors_for_held_file_pages_are_not_given_to_users() {
    let most = |config| {
        let (broker, _own) = broker(DESCRIPTORS, config)?;
        let is_on = || broker.connect().list()["pinned"].is_object();
        if !config.is_empty() {
            until("file pages may be held", is_on);
        }
        let socket = broker.socket();
        let (taken, _) = as_user(HOSTILE[0], || connect_all(&socket));
        Some(taken.len())
    };
    let (Some(with), Some(without)) = (most("[pin]\nenabled = true\n"), most("")) else {
        return;
    };
    assert!(with >= 20, "{with} of its first");
    assert!(2 * with < without, "{with} of {without}");
}

/// A process with many idle children, which end with it.
struct Family(Child);

impl Family {
    fn start(children: usize) -> Family {
        // The shell ends when its input is closed.
        let script = format!(
            "all=; for n in $(seq {children}); do sleep 600 & all=\"$all $!\"; done; cat; kill $all"
        );
        let child = Command::new("sh")
            .args(["-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn();
        Family(child.expect("sh starts"))
    }
}

impl Drop for Family {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

#[test]
fn idle_processes_of_two_users_leave_descriptors_to_a_third() {
    let Some((broker, _own)) = broker(DESCRIPTORS, "") else {
        return;
    };
    let come = || {
        let family = Family::start(150);
        let mut client = broker.connect();
        client
            .call("Register", json!({"name": "family", "pid": family.0.id()}))
            .expect("it is registered");
        let mut others = Vec::new();
        // Each principal has a process that does nothing.
        loop {
            let sleeper = Sleeper::start();
            let mut client = broker.connect();
            let parameters = json!({"name": "idle", "pid": sleeper.pid()});
            let call = json!({"method": "io.plimsoll.Register", "parameters": parameters});
            let reply = ask(&mut client, &call);
            if !reply["error"].is_null() {
                assert_eq!(reply["error"], "io.plimsoll.TooMany", "{reply}");
                break;
            }
            others.push((sleeper, client));
            assert!(others.len() < DESCRIPTORS as usize, "nobody stops it");
        }
        (family, client, others)
    };
    let crowds = HOSTILE.map(|uid| as_user(uid, come));
    assert_eq!(honest(&broker), CALLS);
    assert!(open_descriptors(&broker) < DESCRIPTORS as usize - 64);
    drop(crowds);
    assert_eq!(honest(&broker), CALLS);
}

#[test]
fn half_messages_of_two_users_cost_little_memory_and_others_nothing() {
    let Some((broker, _own)) = broker(4096, "") else {
        return;
    };
    let before = broker.memory();
    let begin = || -> Vec<UnixStream> {
        let connect = |_| {
            let mut stream = UnixStream::connect(broker.socket()).expect("there is room");
            // The connection may be cut off meanwhile.
            let _ = stream.write(&[b'x'; 60_000]);
            stream
        };
        (0..500).map(connect).collect()
    };
    let crowds = HOSTILE.map(|uid| as_user(uid, begin));
    assert_eq!(honest(&broker), CALLS);
    // A message of the greatest length arrives as well, in pieces.
    as_user(HONEST, || {
        let mut client = broker.connect();
        let long = format!(
            "{{\"method\":\"io.plimsoll.List\",{}\"parameters\":{{}}}}\0",
            " ".repeat(60_000)
        );
        for piece in long.as_bytes().chunks(7000) {
            client.send(piece);
        }
        assert!(client.reply().expect("an answer")["parameters"]["budget"].is_u64());
    });
    let grown = broker.memory().saturating_sub(before);
    assert!(grown < 24 << 20, "{grown} bytes for 1000 half messages");
    drop(crowds);
}

/// Tells others to end when this is dropped.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn floods_of_two_users_leave_turns_to_a_third() {
    let Some((broker, _own)) = broker(4096, "") else {
        return;
    };
    let calls = b"{\"method\":\"io.plimsoll.List\"}\0".repeat(64);
    let socket = broker.socket();
    let (begun, done) = (AtomicUsize::new(0), AtomicBool::new(false));
    let flood = || {
        let mut streams: Vec<UnixStream> = (0..200)
            .map(|_| UnixStream::connect(&socket).expect("there is room"))
            .collect();
        for stream in &streams {
            stream.set_nonblocking(true).expect("it can");
        }
        let mut is_heard = false;
        while !done.load(Ordering::Relaxed) {
            for stream in &mut streams {
                let _ = stream.write(&calls);
                let heard = stream.read(&mut [0; 65536]).unwrap_or(0);
                if heard > 0 && !is_heard {
                    is_heard = true;
                    begun.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    };
    let flood = &flood;
    std::thread::scope(|scope| {
        // Ends the floods, also where something fails.
        let end = Ending(&done);
        for uid in HOSTILE {
            scope.spawn(move || as_user(uid, flood));
        }
        until("both floods are answered", || {
            begun.load(Ordering::Relaxed) == HOSTILE.len()
        });
        assert_eq!(honest(&broker), CALLS);
        drop(end);
    });
}

#[test]
fn no_text_of_two_users_hides_anothers_principal_or_fails_the_listing() {
    let Some((broker, _own)) = broker(4096, "") else {
        return;
    };
    let come = || {
        let mut client = broker.connect();
        for bad in [
            "x".repeat(60_000),
            "\u{9b}2J".into(),
            "\u{202e}".into(),
            String::new(),
        ] {
            client.refuses(
                "Register",
                json!({"name": "n", "adapter": bad}),
                "BadName",
                "adapter",
            );
            client.refuses("Register", json!({"name": bad}), "BadName", "name");
        }
        let mut kept = Vec::new();
        for _ in 0..80 {
            let mut client = broker.connect();
            let longest = json!({"name": "\"".repeat(64), "adapter": "a".repeat(32)});
            let id = client.call("Register", longest).expect("it is registered")["id"].clone();
            client.refuses(
                "Adapt",
                json!({"id": id, "adapter": "x".repeat(60_000)}),
                "BadName",
                "1 to 32",
            );
            kept.push(client);
        }
        kept
    };
    let crowds = HOSTILE.map(|uid| as_user(uid, come));
    assert_eq!(honest(&broker), CALLS);
    let listing = broker.connect().list();
    assert_eq!(listing["left_out"], json!(0));
    drop(crowds);
}
