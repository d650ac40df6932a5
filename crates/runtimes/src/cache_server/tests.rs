//! Servers that follow a script: they lie, stall, send without end, or close the connection.

use super::connection::{Connection, Failed, MAX_ANSWER, PATIENCE};
use super::resp::{self, Reply};
use super::session::{Problem, Session};
use super::text;
use crate::process::Process;
use crate::testing::Sleeper;
use plimsoll_kernel::sockets::Listens;
use proptest::prelude::*;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

/// The end of a script, after its last answer.
#[derive(Clone, Copy)]
enum Then {
    Close,
    Stall,
    /// Sends this again and again.
    Flood(&'static [u8]),
}

/// A server in a thread of ours, which answers each question by the next of these, on each connection anew.
struct Scripted {
    folder: tempfile::TempDir,
    connections: Arc<AtomicU32>,
}

impl Scripted {
    fn start(answers: &[&[u8]], then: Then) -> Scripted {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("socket")).unwrap();
        let answers: Vec<Vec<u8>> = answers.iter().map(|it| it.to_vec()).collect();
        let connections = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&connections);
        // It ends with the test's process.
        std::thread::spawn(move || {
            let mut held = Vec::new();
            for connection in listener.incoming() {
                count.fetch_add(1, Ordering::Relaxed);
                held.extend(serve(connection.unwrap(), &answers, then));
            }
        });
        Scripted {
            folder,
            connections,
        }
    }

    fn listens(&self) -> Listens {
        Listens::Path(self.folder.path().join("socket"))
    }

    fn open(&self) -> Connection {
        Connection::open(&own(), &self.listens()).unwrap()
    }
}

/// Returns the connection if it is to stay open.
fn serve(mut stream: UnixStream, answers: &[Vec<u8>], then: Then) -> Option<UnixStream> {
    let mut question = [0; 4096];
    for answer in answers {
        let asked = stream.read(&mut question).unwrap_or(0);
        if asked == 0 || stream.write_all(answer).is_err() {
            return None;
        }
    }
    match then {
        Then::Close => None,
        Then::Stall => Some(stream),
        Then::Flood(with) => {
            while stream.write_all(with).is_ok() {}
            None
        }
    }
}

fn own() -> Process {
    Process::new(std::process::id()).unwrap()
}

fn asked(answer: &[u8], then: Then) -> Result<Reply, Failed> {
    let server = Scripted::start(&[answer], then);
    resp::command(&mut server.open(), &["INFO"])
}

#[test]
fn replies_of_each_kind_are_read() {
    let text = |text: &str| Reply::Text(text.to_owned());
    for (sent, read) in [
        (&b"+OK\r\n"[..], text("OK")),
        (b":12\r\n", text("12")),
        (b"$5\r\na\r\nb\n\r\n", text("a\r\nb\n")),
        (b"$0\r\n\r\n", text("")),
        (b"$-1\r\n", text("")),
        (b"-ERR no\r\n", Reply::Error("ERR no".to_owned())),
        (
            b"*2\r\n$9\r\nmaxmemory\r\n$1\r\n0\r\n",
            Reply::List(vec![text("maxmemory"), text("0")]),
        ),
        (b"*0\r\n", Reply::List(vec![])),
    ] {
        assert_eq!(asked(sent, Then::Stall).unwrap(), read);
    }
}

#[test]
fn lies_are_told_from_answers_and_nothing_is_allocated_for_them() {
    for sent in [
        &b"\r\n"[..],
        b"HTTP/1.1 400 Bad Request\r\n",
        b"$99999999999\r\n",
        b"$300000\r\n",
        b"$x\r\n",
        b"$-2\r\n",
        b"*65\r\n",
        b"*99999999999999999999999\r\n",
        b"*1\r\n*1\r\n*1\r\n+deep\r\n",
        b"\x15\x03\x03\x00\x02\x02\x28\n",
    ] {
        let failed = asked(sent, Then::Stall);
        assert!(matches!(failed, Err(Failed::Nonsense)), "{failed:?}");
    }
}

#[test]
fn a_server_that_sends_without_end_is_given_up_after_little() {
    let parts: [&[u8]; 3] = [b"x", b"*1\r\n", b"STAT a b\r\n"];
    for part in parts {
        let server = Scripted::start(&[b""], Then::Flood(part));
        let mut connection = server.open();
        assert!(connection.ask(b"x").is_ok());
        let read = (0..=MAX_ANSWER).try_for_each(|_| connection.line().map(drop));
        assert!(matches!(read, Err(Failed::Nonsense)), "{read:?}");
        drop(connection);
        let statistics = text::statistics(&mut server.open(), "stats");
        assert!(!matches!(statistics, Ok(Ok(_))), "{statistics:?}");
    }
}

#[test]
fn a_server_that_stalls_is_given_up_in_time() {
    for sent in [&b""[..], b"$10\r\nabc", b"*2\r\n+a\r\n", b"STAT a"] {
        let server = Scripted::start(&[sent], Then::Stall);
        let mut connection = server.open();
        let begun = Instant::now();
        let failed = resp::command(&mut connection, &["INFO"]);
        assert!(matches!(failed, Err(Failed::Late)), "{failed:?}");
        assert!(begun.elapsed() >= PATIENCE);
    }
}

#[test]
fn a_server_that_reads_nothing_is_given_up() {
    let server = Scripted::start(&[], Then::Stall);
    let large = "x".repeat(4 << 20);
    let failed = resp::command(&mut server.open(), &[&large]);
    assert!(matches!(failed, Err(Failed::Late)), "{failed:?}");
}

#[test]
fn a_connection_that_was_closed_is_opened_again_once() {
    let server = Scripted::start(&[b"+OK\r\n"], Then::Close);
    let mut session = Session::of(own(), server.listens(), server.open());
    let ask = |connection: &mut Connection| resp::command(connection, &["PING"]);
    for _ in 0..4 {
        let answer = session.ask(&|_| Ok(Ok(())), ask).unwrap();
        assert_eq!(answer, Reply::Text("OK".to_owned()));
    }
    assert_eq!(server.connections.load(Ordering::Relaxed), 4);

    let server = Scripted::start(&[], Then::Close);
    let mut session = Session::of(own(), server.listens(), server.open());
    let failed = session.ask(&|_| Ok(Ok(())), ask);
    assert!(
        matches!(failed, Err(Problem::Failed(Failed::Closed))),
        "{failed:?}"
    );
    let refused = session.ask(&|_| Ok(Err("no".to_owned())), ask);
    assert!(matches!(refused, Err(Problem::Refused(_))), "{refused:?}");
    let tries = server.connections.load(Ordering::Relaxed);
    assert!(tries <= 3, "{tries}");
}

#[test]
fn a_socket_of_another_process_is_told_nothing() {
    let server = Scripted::start(&[b"+OK\r\n"], Then::Stall);
    let sleeper = Sleeper::start();
    let failed = Connection::open(&sleeper.process(), &server.listens());
    assert!(matches!(failed, Err(Failed::Stranger(_))), "{failed:?}");
}

#[test]
fn a_port_is_reached_at_our_own_address() {
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let listens = Listens::Tcp(listener.local_addr().unwrap());
    let mut connection = Connection::open(&own(), &listens).unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    let server = std::thread::spawn(move || {
        let mut question = [0; 64];
        let asked = stream.read(&mut question).unwrap();
        stream.write_all(b"OK\r\n").unwrap();
        question[..asked].to_vec()
    });
    assert_eq!(
        text::command(&mut connection, "cache_memlimit 64").unwrap(),
        "OK"
    );
    assert_eq!(server.join().unwrap(), b"cache_memlimit 64\r\n");
    let gone = Listens::Tcp("127.0.0.1:1".parse().unwrap());
    assert!(Connection::open(&own(), &gone).is_err());
}

#[test]
fn statistics_are_lines_up_to_the_end() {
    let stats = b"STAT pid 4711\r\nSTAT version 1.6 x\r\nSTAT odd\r\nEND\r\n";
    let server = Scripted::start(&[stats], Then::Stall);
    let found = text::statistics(&mut server.open(), "stats")
        .unwrap()
        .unwrap();
    let found: Vec<(&str, &str)> = found
        .iter()
        .map(|(a, b)| (a.as_str(), b.as_str()))
        .collect();
    assert_eq!(found, [("odd", ""), ("pid", "4711"), ("version", "1.6 x")]);
    let server = Scripted::start(&[b"CLIENT_ERROR unauthenticated\r\n"], Then::Stall);
    let refused = text::statistics(&mut server.open(), "stats").unwrap();
    assert_eq!(refused, Err("CLIENT_ERROR unauthenticated".to_owned()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn no_answer_makes_us_panic(answer in proptest::collection::vec(any::<u8>(), 0..300)) {
        let server = Scripted::start(&[&answer], Then::Close);
        let mut connection = server.open();
        let _ = resp::command(&mut connection, &["INFO"]);
        let _ = text::statistics(&mut server.open(), "stats");
    }
}
