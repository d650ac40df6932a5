//! A server for one page: `GET /metrics`, HTTP/1.1, one request for each connection.
//!
//! Written over `std::net`, because a library for so little brings more than it saves. All is bounded: the
//! connections at a time (the oldest is closed for a new one), the length of a request, and the time of each.

use super::exposition::Format;
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Builder};
use std::time::{Duration, Instant};

/// Most connections at a time. Prometheus has one.
const MOST: usize = 32;
/// Most bytes of a request.
const LONGEST: usize = 8 << 10;
/// How long a request may take to come, and the answer to be read.
const PATIENCE: Duration = Duration::from_secs(5);
/// Pause after a connection that could not be accepted, for example for want of descriptors.
const REST: Duration = Duration::from_millis(200);
/// Stack of the thread of a connection.
const STACK: usize = 512 << 10;

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Request {
    /// For the page, in this format.
    Page(Format),
    /// For something else.
    Other,
    /// It is no request.
    Nonsense,
}

/// The open connections.
#[derive(Debug, Default)]
struct Open {
    all: Mutex<BTreeMap<u64, TcpStream>>,
    left: Condvar,
}

impl Open {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, TcpStream>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a place, for which the oldest connection is closed.
    fn enter(&self, number: u64, stream: &TcpStream) -> io::Result<()> {
        let second = stream.try_clone()?;
        let mut all = self.lock();
        while all.len() >= MOST {
            if let Some((_, oldest)) = all.first_key_value() {
                // It may have gone by itself.
                let _ = oldest.shutdown(Shutdown::Both);
            }
            all = self.left.wait(all).unwrap_or_else(PoisonError::into_inner);
        }
        all.insert(number, second);
        Ok(())
    }

    fn leave(&self, number: u64) {
        self.lock().remove(&number);
        self.left.notify_one();
    }
}

/// Serves until the process ends. `page` makes the page.
pub(super) fn serve(listener: &TcpListener, page: &(dyn Fn(Format) -> Arc<str> + Sync)) {
    let open = Open::default();
    thread::scope(|scope| {
        for (number, stream) in (0..).zip(listener.incoming()) {
            let entered = stream.and_then(|stream| open.enter(number, &stream).map(|()| stream));
            let Ok(stream) = entered else {
                thread::sleep(REST);
                continue;
            };
            let open = &open;
            let talk = move || {
                // A client that breaks off has its reasons.
                let _ = answer(&stream, page);
                open.leave(number);
            };
            let thread = Builder::new().stack_size(STACK);
            if thread.spawn_scoped(scope, talk).is_err() {
                open.leave(number);
                thread::sleep(REST);
            }
        }
    });
}

fn answer(stream: &TcpStream, page: &(dyn Fn(Format) -> Arc<str> + Sync)) -> io::Result<()> {
    let head = read_head(stream, Instant::now() + PATIENCE)?;
    let (status, media, body): (_, _, Arc<str>) = match parse(&head) {
        Request::Page(format) => ("200 OK", format.media_type(), page(format)),
        Request::Other => ("404 Not Found", "text/plain", "try GET /metrics\n".into()),
        Request::Nonsense => ("400 Bad Request", "text/plain", "no HTTP request\n".into()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {media}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let deadline = Instant::now() + PATIENCE;
    write_all(stream, head.as_bytes(), deadline)?;
    write_all(stream, body.as_bytes(), deadline)
}

/// Reads to the empty line that ends the head of a request, or as far as it comes.
fn read_head(mut stream: &TcpStream, deadline: Instant) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    let mut chunk = [0; 1024];
    while head.len() < LONGEST && !head.windows(4).any(|end| end == b"\r\n\r\n") {
        stream.set_read_timeout(Some(left(deadline)?))?;
        match stream.read(&mut chunk)? {
            0 => break,
            count => head.extend_from_slice(&chunk[..count]),
        }
    }
    Ok(head)
}

fn write_all(mut stream: &TcpStream, mut bytes: &[u8], deadline: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        stream.set_write_timeout(Some(left(deadline)?))?;
        let count = stream.write(bytes)?;
        bytes = &bytes[count..];
    }
    Ok(())
}

/// The time until a deadline; an error once there is none.
fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    Ok(left)
}

/// Reads the head of a request (RFC 9112, section 3).
fn parse(head: &[u8]) -> Request {
    let text = head.strip_suffix(b"\r\n\r\n").map(std::str::from_utf8);
    let Some(Ok(text)) = text else {
        return Request::Nonsense;
    };
    let mut lines = text.split("\r\n");
    let mut words = lines.next().unwrap_or("").split(' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Request::Nonsense;
    };
    if !version.starts_with("HTTP/1.") {
        return Request::Nonsense;
    }
    let path = target.split('?').next();
    if (method, path) != ("GET", Some("/metrics")) {
        return Request::Other;
    }
    let accepts = |line: &str| {
        let (name, value) = line.split_once(':').unwrap_or_default();
        name.eq_ignore_ascii_case("accept") && value.contains("application/openmetrics-text")
    };
    Request::Page(if lines.any(accepts) {
        Format::OpenMetrics
    } else {
        Format::Prometheus
    })
}

#[cfg(test)]
#[path = "http_tests.rs"]
mod tests;
