use super::*;
use proptest::prelude::*;
use std::net::SocketAddr;

/// A server whose page says its format. It lasts as long as the process of the tests.
fn server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || serve(&listener, &|format| format!("{format:?}\n").into()));
    address
}

/// The answer of a server to these bytes.
fn answered(address: SocketAddr, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn the_page_is_served_and_nothing_else() {
    let address = server();
    for (request, status, body) in [
        (
            "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n",
            "200 OK",
            "Prometheus\n",
        ),
        (
            "GET /metrics?x=y HTTP/1.0\r\naccept: application/openmetrics-text;version=1.0.0,*/*\r\n\r\n",
            "200 OK",
            "OpenMetrics\n",
        ),
        ("GET / HTTP/1.1\r\n\r\n", "404 Not Found", ""),
        ("GET /metrics/ HTTP/1.1\r\n\r\n", "404 Not Found", ""),
        ("POST /metrics HTTP/1.1\r\n\r\n", "404 Not Found", ""),
        ("GET /metrics\r\n\r\n", "400 Bad Request", ""),
        ("GET /metrics HTTP/2\r\n\r\n", "400 Bad Request", ""),
    ] {
        let answer = answered(address, request.as_bytes());
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}\r\n")),
            "{request}: {answer}"
        );
        assert!(answer.ends_with(body), "{request}: {answer}");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(
            head.contains(&format!("Content-Length: {}\r\n", body.len())),
            "{answer}"
        );
    }
}

#[test]
fn a_request_without_end_is_cut() {
    let address = server();
    let mut stream = TcpStream::connect(address).unwrap();
    let line = format!("GET /metrics HTTP/1.1\r\nX: {}", "x".repeat(LONGEST));
    // The server may have closed the connection before all of it is sent.
    let _ = stream.write_all(line.as_bytes());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 400 "));
    assert!(answered(address, b"GET /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200"));
}

/// More connections than the server keeps say nothing: each request is answered all the same.
#[test]
fn clients_that_say_nothing_do_not_keep_others_out() {
    let address = server();
    let connect = || TcpStream::connect(address).unwrap();
    let idle: Vec<TcpStream> = std::iter::repeat_with(connect).take(3 * MOST).collect();
    for _ in 0..3 {
        assert!(answered(address, b"GET /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200"));
    }
    // The oldest made room.
    let mut oldest = &idle[0];
    assert!(matches!(oldest.read(&mut [0; 8]), Ok(0) | Err(_)));
}

proptest! {
    #[test]
    fn any_bytes_are_read_as_some_request(head in prop::collection::vec(any::<u8>(), 0..300)) {
        let request = parse(&head);
        let is_page = matches!(request, Request::Page(_));
        prop_assert!(!is_page || head.starts_with(b"GET /metrics"));
    }

    #[test]
    fn any_request_line_is_read(line in "(GET|POST|) ?/?metrics ?(HTTP/1.1)?(\r\n)?[ -~]{0,40}\r\n\r\n") {
        let is_page = matches!(parse(line.as_bytes()), Request::Page(_));
        prop_assert!(!is_page || line.starts_with("GET /metrics HTTP/1."));
    }
}
