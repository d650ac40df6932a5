//! The load against servers that answer when the test lets them.

use super::*;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// A server of one connection. It answers a request once it gets a permit for it, and ends when there
/// are no more permits to come.
fn server(permits: mpsc::Receiver<()>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        while one_request(&mut stream) && permits.recv().is_ok() {
            stream.write_all(ANSWER).unwrap();
        }
    });
    address
}

fn one_request(stream: &mut TcpStream) -> bool {
    let mut seen = Vec::new();
    let mut byte = [0];
    while !seen.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => seen.push(byte[0]),
            _ => return false,
        }
    }
    true
}

fn load(server: SocketAddr, per_second: f64) -> Load {
    Load::start(&Rate {
        servers: vec![server],
        path: "/".to_owned(),
        per_second,
        connections: 1,
    })
    .unwrap()
}

fn wait_until(what: impl Fn() -> bool) {
    let begin = Instant::now();
    while !what() {
        assert!(begin.elapsed() < Duration::from_secs(60), "it never came");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn latency_includes_the_wait_for_a_connection() {
    let (permit, permits) = mpsc::channel();
    let load = load(server(permits), 200.0);
    // The first request is held until 20 more are due. Nothing was answered meanwhile.
    wait_until(|| load.now() > 21.0 / 200.0);
    let held = load.now();
    let before = load.window(0.0, held);
    assert_eq!((before.answers, before.failed), (0, 0));
    assert!(before.open >= 20 && before.latencies.len() as u64 == before.open);
    for _ in 0..20 {
        permit.send(()).unwrap();
    }
    wait_until(|| load.window(0.0, load.now()).answers == 20);
    let window = load.window(0.0, held);
    let after = load.window(0.0, load.now());
    assert_eq!(after.answers, 20);
    // Each was due 1/200 s after the one before, and none was answered before the hold ended.
    for (number, latency) in after.latencies.iter().take(20).enumerate() {
        let least = held - number as f64 / 200.0;
        assert!(*latency >= least - 1e-6, "request {number}: {latency} s");
    }
    // Answers after a window leave its requests open, with the wait up to its end.
    assert_eq!((window.answers, window.open), (0, before.open));
}

#[test]
fn requests_are_due_at_the_rate_whatever_the_answers() {
    let (permit, permits) = mpsc::channel();
    let load = load(server(permits), 1000.0);
    wait_until(|| load.now() > 0.3);
    // 100 requests are due in any window of a tenth of a second, answered or not.
    for begin in [0.0, 0.1, 0.15] {
        let window = load.window(begin, begin + 0.1);
        assert!((99..=101).contains(&window.latencies.len()), "{window:?}");
    }
    drop(permit);
}

#[test]
fn a_server_that_is_not_there_fails_requests() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let load = load(address, 100.0);
    wait_until(|| load.window(0.0, load.now()).failed > 0);
    assert_eq!(load.window(0.0, load.now()).answers, 0);
}

#[test]
fn dropping_it_does_not_wait_for_answers() {
    let (permit, permits) = mpsc::channel();
    let load = load(server(permits), 100.0);
    wait_until(|| load.window(0.0, load.now()).open > 0);
    drop(load);
    drop(permit);
}
