//! One kept-open connection of HTTP/1.1: a request without a body, and its answer with a length or in
//! chunks. Source: RFC 9112, sections 6 and 7.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Longest answer, bytes.
const LONGEST: usize = 4 << 20;
/// Most header fields that are looked at.
const FIELDS: usize = 256;
/// How long opening a connection may take.
const OPEN: Duration = Duration::from_secs(2);
/// Bytes read at a time.
const PIECE: usize = 16 << 10;

/// An open connection.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    received: Vec<u8>,
}

/// An answer that has arrived in full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    /// 200 and so on.
    pub(super) status: u16,
    /// Whether the server keeps the connection open.
    pub(super) keep: bool,
    /// Bytes of it, head and body.
    length: usize,
}

/// The text of a request.
pub(super) fn request(path: &str, server: SocketAddr) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: {server}\r\nAccept: */*\r\n\r\n").into_bytes()
}

impl Connection {
    /// Opens one. Reads return after `look` without data.
    pub(super) fn open(server: SocketAddr, look: Duration) -> io::Result<Connection> {
        let stream = TcpStream::connect_timeout(&server, OPEN)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(look))?;
        stream.set_write_timeout(Some(OPEN))?;
        Ok(Connection {
            stream,
            received: Vec::new(),
        })
    }

    /// Sends a request and waits for its answer, until `stop` says otherwise.
    pub(super) fn ask(&mut self, request: &[u8], stop: impl Fn() -> bool) -> io::Result<Answer> {
        self.received.clear();
        self.stream.write_all(request)?;
        let mut piece = [0; PIECE];
        loop {
            if stop() {
                return Err(ErrorKind::Interrupted.into());
            }
            match self.stream.read(&mut piece) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.received.extend_from_slice(&piece[..count]),
                Err(e) if is_look(&e) => continue,
                Err(e) => return Err(e),
            }
            if let Some(answer) = answer(&self.received)? {
                return Ok(answer);
            }
            if self.received.len() > LONGEST {
                return Err(bad("the answer is too long"));
            }
        }
    }
}

fn is_look(e: &io::Error) -> bool {
    matches!(
        e.kind(),
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
    )
}

/// The answer at the begin of `bytes`; `None` if more is to come.
fn answer(bytes: &[u8]) -> io::Result<Option<Answer>> {
    let Some(head) = find(bytes, b"\r\n\r\n") else {
        return Ok(None);
    };
    let text = std::str::from_utf8(&bytes[..head]).map_err(|_| bad("the head is no text"))?;
    let mut lines = text.split("\r\n");
    let status = lines.next().unwrap_or_default();
    let status = status.strip_prefix("HTTP/1.1 ").and_then(|s| s.get(..3));
    let status = status.and_then(|s| s.parse().ok());
    let status = status.ok_or_else(|| bad("no status of HTTP/1.1"))?;
    let (mut size, mut chunked, mut keep) = (None, false, true);
    for field in lines.take(FIELDS) {
        let Some((name, value)) = field.split_once(':') else {
            continue;
        };
        let value = value.trim();
        if name.eq_ignore_ascii_case("content-length") {
            size = value.parse::<usize>().ok();
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            chunked = value.eq_ignore_ascii_case("chunked");
        } else if name.eq_ignore_ascii_case("connection") {
            keep = !value.eq_ignore_ascii_case("close");
        }
    }
    let body = &bytes[head + 4..];
    let size = match (chunked, size) {
        (true, _) => chunks(body)?,
        (false, Some(size)) => Some(size).filter(|size| body.len() >= *size),
        (false, None) => return Err(bad("the answer has no length")),
    };
    Ok(size.map(|size| Answer {
        status,
        keep,
        length: head + 4 + size,
    }))
}

/// Bytes of a body in chunks; `None` if more is to come. Fields after the last chunk are not expected.
fn chunks(body: &[u8]) -> io::Result<Option<usize>> {
    let mut at = 0;
    while at <= LONGEST {
        let Some(rest) = body.get(at..) else {
            return Ok(None);
        };
        let Some(line) = find(rest, b"\r\n") else {
            return Ok(None);
        };
        let size = std::str::from_utf8(&rest[..line]).unwrap_or_default();
        let size = size.split(';').next().unwrap_or_default().trim();
        let size = usize::from_str_radix(size, 16).map_err(|_| bad("a chunk has no size"))?;
        // The line, what it announces, and the end of line behind that.
        at = at.saturating_add(line + 4).saturating_add(size);
        if size == 0 {
            return Ok((body.len() >= at).then_some(at));
        }
    }
    Err(bad("the answer is too long"))
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|at| at == what)
}

fn bad(why: &'static str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(text: &str) -> Option<Answer> {
        for end in 0..text.len() {
            assert_eq!(
                answer(&text.as_bytes()[..end]).unwrap(),
                None,
                "{end} bytes"
            );
        }
        answer(text.as_bytes()).unwrap()
    }

    #[test]
    fn answers_end_where_they_say() {
        let plain = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
        let wanted = |status, keep, length| {
            Some(Answer {
                status,
                keep,
                length,
            })
        };
        assert_eq!(whole(plain), wanted(200, true, plain.len()));
        let chunked = "HTTP/1.1 500 No\r\ntransfer-encoding: chunked\r\nConnection: Close\r\n\r\n\
                       5\r\nhello\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n";
        assert_eq!(whole(chunked), wanted(500, false, chunked.len()));
        let empty = "HTTP/1.1 304 Same\r\nContent-Length: 0\r\n\r\n";
        assert_eq!(whole(empty), wanted(304, true, empty.len()));
    }

    #[test]
    fn what_is_no_answer_is_told() {
        for text in [
            "SSH-2.0\r\n\r\n",
            "HTTP/1.1 200 OK\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        ] {
            assert!(answer(text.as_bytes()).is_err(), "{text:?}");
        }
    }
}
