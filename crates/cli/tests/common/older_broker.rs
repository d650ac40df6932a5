//! A broker of an earlier version: the one of a place, behind a socket that knows one method less.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// A socket in a folder of its own. Its threads end with the test.
pub struct OlderBroker {
    socket: PathBuf,
}

impl OlderBroker {
    /// Passes everything on to `socket`, except calls of `method`.
    pub fn without(method: &'static str, socket: &Path, folder: PathBuf) -> OlderBroker {
        std::fs::create_dir(&folder).unwrap();
        let own = folder.join("broker.sock");
        let listener = UnixListener::bind(&own).unwrap();
        let to = socket.to_owned();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let broker = UnixStream::connect(&to).unwrap();
                let (from, back) = (broker.try_clone().unwrap(), client.try_clone().unwrap());
                std::thread::spawn(move || each_message(&from, |message| send(&back, message)));
                std::thread::spawn(move || {
                    each_message(&client, |message| {
                        if names(message, method) {
                            send(&client, unknown(method).as_bytes());
                        } else {
                            send(&broker, message);
                        }
                    });
                    // The client is gone, and its principals end with its connection.
                    let _ = broker.shutdown(std::net::Shutdown::Both);
                });
            }
        });
        OlderBroker { socket: own }
    }

    pub fn socket(&self) -> &Path {
        &self.socket
    }
}

/// Whether a message calls this method.
fn names(message: &[u8], method: &str) -> bool {
    let text = String::from_utf8_lossy(message);
    text.contains(&format!("io.plimsoll.{method}\""))
}

fn unknown(method: &str) -> String {
    let error = "org.varlink.service.MethodNotFound";
    format!("{{\"error\":\"{error}\",\"parameters\":{{\"method\":\"io.plimsoll.{method}\"}}}}\0")
}

/// Calls `with` with each message, its NUL byte included.
fn each_message(from: &UnixStream, mut with: impl FnMut(&[u8])) {
    let mut reader = BufReader::new(from);
    let mut message = Vec::new();
    while reader
        .read_until(0, &mut message)
        .is_ok_and(|read| read > 0)
    {
        with(&message);
        message.clear();
    }
}

fn send(mut to: &UnixStream, message: &[u8]) {
    // Who is gone needs no answer.
    let _ = to.write_all(message);
}
