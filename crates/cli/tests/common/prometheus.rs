//! The official tools of Prometheus, and what tests ask a server over HTTP.

use super::{Place, Started, wait_for};
use plimsoll_testbed::skip;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A file of the project.
pub fn project(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path)
}

/// A program of Prometheus: the one that `tools/setup.sh test` unpacked, or one that is installed. Without
/// one the test is skipped.
pub fn tool(name: &str) -> Option<PathBuf> {
    let unpacked = project(".cache/prometheus/usr/bin").join(name);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let installed = std::env::split_paths(&path).map(|dir| dir.join(name));
    let found = std::iter::once(unpacked)
        .chain(installed)
        .find(|path| path.is_file());
    if found.is_none() {
        skip(format_args!(
            "{name} is not there; `tools/setup.sh test` fetches it"
        ));
    }
    found
}

/// The status and the body of an answer to `GET`, or why there is none.
pub fn get(address: SocketAddr, target: &str, headers: &str) -> std::io::Result<(u16, String)> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(super::PATIENCE))?;
    write!(
        stream,
        "GET {target} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{headers}\r\n"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    Ok((status.unwrap_or(0), body.to_owned()))
}

/// `plimsoll metrics --listen`, and its address.
pub fn serving(place: &Place) -> (Started, SocketAddr) {
    let mut command = place.command(&["metrics", "--listen", "127.0.0.1:0"]);
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    errors.read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("plimsoll: serving http://");
    let address = address.and_then(|rest| rest.strip_suffix("/metrics"));
    let address = address.unwrap_or_else(|| panic!("{line}")).parse().unwrap();
    // Later messages are read, so that it never waits for us.
    std::thread::spawn(move || std::io::copy(&mut errors, &mut std::io::sink()));
    (Started(child), address)
}

/// A server of Prometheus that scrapes an address once a second.
pub struct Server {
    _process: Started,
    address: SocketAddr,
}

impl Server {
    /// Starts one that keeps everything in the place, and waits until it answers.
    pub fn start(program: &Path, place: &Place, scraped: SocketAddr) -> Server {
        let config = place.write(
            "prometheus.yml",
            &format!(
                "global:\n  scrape_interval: 1s\nscrape_configs:\n  - job_name: plimsoll\n    \
                 static_configs: [{{targets: [\"{scraped}\"]}}]\n"
            ),
        );
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        let process = Command::new(program)
            .arg(format!("--config.file={}", config.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                place.path("tsdb").display()
            ))
            .arg(format!("--web.listen-address={address}"))
            .arg("--log.level=error")
            .spawn()
            .unwrap();
        let server = Server {
            _process: Started(process),
            address,
        };
        wait_for("Prometheus is ready", || {
            let answer = get(address, "/-/ready", "").ok()?;
            (answer.0 == 200).then_some(())
        });
        server
    }

    /// The answer to a call of its interface, which must succeed.
    pub fn ask(&self, call: &str, parameters: &[(&str, &str)]) -> Value {
        let encoded =
            |text: &str| -> String { text.bytes().map(|byte| format!("%{byte:02X}")).collect() };
        let pairs = parameters
            .iter()
            .map(|(name, value)| format!("{name}={}", encoded(value)));
        let query = pairs.collect::<Vec<_>>().join("&");
        let (status, body) = get(self.address, &format!("/api/v1/{call}?{query}"), "").unwrap();
        assert_eq!(status, 200, "{call} {parameters:?}: {body}");
        let answer: Value = serde_json::from_str(&unchunked(&body)).unwrap();
        assert_eq!(answer["status"], "success", "{answer}");
        answer["data"]["result"].clone()
    }

    /// The series that an expression has now.
    pub fn query(&self, expression: &str) -> Vec<Value> {
        let result = self.ask("query", &[("query", expression)]);
        result.as_array().cloned().unwrap_or_default()
    }
}

/// A body without the lengths of its chunks (RFC 9112, section 7.1), if it has any.
fn unchunked(body: &str) -> String {
    let mut rest = body;
    let mut whole = String::new();
    while let Some((length, after)) = rest.split_once("\r\n")
        && let Ok(length) = usize::from_str_radix(length.trim(), 16)
        && length > 0
    {
        whole.push_str(&after[..length]);
        rest = after[length..].trim_start_matches("\r\n");
    }
    if whole.is_empty() {
        body.to_owned()
    } else {
        whole
    }
}
