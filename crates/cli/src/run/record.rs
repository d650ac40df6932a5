//! `--record`: writes the broker's listings, and events in between, as lines of JSON.
//!
//! A line is either a listing with `at_ms` beside its fields, or an event: `at_ms`, `event`
//! (`started`, `ended`), `program`, `outsider`, `pid`, `status`. `at_ms` counts from the start of the
//! file's run. The first line is an event `begun` with `unix_ms`, the time of day.

use crate::broker_connection::Control;
use crate::error::CliError;
use crate::json;
use plimsoll_client::Socket;
use plimsoll_wire::messages::Listing;
use serde::Serialize;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tracing::warn;

/// Something that happened to a program.
#[derive(Debug, Default, Serialize)]
pub struct Event<'a> {
    /// `begun`, `started` or `ended`.
    pub event: &'static str,
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<&'a str>,
    /// Whether the broker does not know it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outsider: Option<bool>,
    /// Its process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// How it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u8>,
    /// Milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unix_ms: Option<u64>,
}

#[derive(Serialize)]
struct Line<T: Serialize> {
    at_ms: u64,
    #[serde(flatten)]
    what: T,
}

/// A recording in progress.
pub struct Recording {
    file: File,
    path: PathBuf,
    started: Instant,
    interval: Duration,
    due: Instant,
    socket: Socket,
    control: Option<Control>,
    failed: bool,
}

impl Recording {
    /// Begins a recording of the broker at `socket`.
    ///
    /// # Errors
    /// When the file cannot be created.
    pub fn begin(path: &Path, socket: &Socket, interval: Duration) -> Result<Recording, CliError> {
        let file = File::create(path).map_err(CliError::path(path))?;
        let now = Instant::now();
        let mut recording = Recording {
            file,
            path: path.to_owned(),
            started: now,
            interval,
            due: now,
            socket: socket.clone(),
            control: None,
            failed: false,
        };
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let unix_ms = Some(since.as_millis() as u64);
        recording.event(&Event {
            event: "begun",
            unix_ms,
            ..Event::default()
        });
        Ok(recording)
    }

    /// When the next listing is due.
    pub fn due(&self) -> Instant {
        self.due
    }

    /// Writes an event.
    pub fn event(&mut self, event: &Event<'_>) {
        self.write(event);
    }

    /// Writes a listing if one is due. Reconnects if the broker is gone.
    pub fn look(&mut self) {
        let now = Instant::now();
        if now < self.due {
            return;
        }
        // Listings that were missed are not made up for.
        self.due = (self.due + self.interval).max(now);
        if self.control.is_none() {
            self.control = Control::connect(&self.socket).ok();
        }
        let listing: Option<Listing> = self.control.as_mut().and_then(|c| c.list().ok());
        match listing {
            Some(listing) => self.write(&listing),
            None => self.control = None,
        }
    }

    fn write<T: Serialize>(&mut self, what: &T) {
        let at_ms = self.started.elapsed().as_millis() as u64;
        let mut text = json::line(&Line { at_ms, what });
        text.push('\n');
        if let Err(error) = self.file.write_all(text.as_bytes()) {
            if !self.failed {
                warn!("{}: {error}; the recording has a gap", self.path.display());
            }
            self.failed = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_json_with_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.jsonl");
        let nobody = Socket::at(dir.path().join("no.sock"));
        let mut recording = Recording::begin(&path, &nobody, Duration::from_millis(100)).unwrap();
        recording.look();
        recording.event(&Event {
            event: "ended",
            status: Some(3),
            ..Event::default()
        });
        recording.write(&crate::rows::tests::sample());
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<serde_json::Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(lines.len(), 3);
        assert!(lines.iter().all(|line| line["at_ms"].is_u64()));
        assert_eq!(lines[0]["event"], "begun");
        assert_eq!(lines[1]["status"], 3);
        assert_eq!(
            lines[2]["principals"][1]["children"][0]["uses"],
            900u64 << 20
        );
    }

    #[test]
    fn a_full_disk_is_no_end() {
        let full = Path::new("/dev/full");
        let mut recording =
            Recording::begin(full, &Socket::at("/nonexistent"), Duration::from_secs(1)).unwrap();
        recording.event(&Event {
            event: "ended",
            ..Event::default()
        });
        assert!(recording.failed);
    }
}
