//! A connection to list and change principals, for `ps`, `top`, `set`, `doctor` and recordings.

use crate::error::CliError;
use crate::rows::shown;
use plimsoll_client::{Connection, Error, Socket};
use plimsoll_wire::messages::{Listing, Set};
use plimsoll_wire::varlink::ErrorName;
use std::io::ErrorKind;
use std::time::Duration;

/// A broker that takes longer to answer counts as gone.
const PATIENCE: Duration = Duration::from_secs(5);

/// Longer messages of a broker are cut to this many characters.
const LONGEST: usize = 1000;

/// A connection to a broker.
#[derive(Debug)]
pub struct Control(Connection);

impl Control {
    /// Connects to the broker at a socket.
    ///
    /// # Errors
    /// [`CliError::NoBroker`] when nobody answers there.
    pub fn connect(socket: &Socket) -> Result<Control, CliError> {
        Connection::open(socket, PATIENCE)
            .map(Control)
            .map_err(|error| told(error, socket))
    }

    /// All principals.
    ///
    /// # Errors
    /// When the broker is gone or answers nonsense.
    pub fn list(&mut self) -> Result<Listing, CliError> {
        self.0.list().map_err(|error| told(error, self.0.socket()))
    }

    /// Changes a principal.
    ///
    /// # Errors
    /// When the broker refuses, is gone or answers nonsense.
    pub fn set(&mut self, set: &Set) -> Result<(), CliError> {
        self.0
            .set(set)
            .map_err(|error| told(error, self.0.socket()))
    }
}

/// Translates an error of the client library for the user.
pub fn told(error: Error, socket: &Socket) -> CliError {
    match error {
        // The message may contain names that others chose.
        Error::Refused(error) => {
            let message = shown(&error.message, LONGEST);
            if is_of_a_value(error.name) {
                CliError::Asked(message)
            } else {
                CliError::Refused(message)
            }
        }
        Error::Socket { source, .. } if source.kind() == ErrorKind::PermissionDenied => {
            CliError::path(socket.path())(source)
        }
        Error::Timeout { .. } => CliError::Client(error),
        error if error.is_absent() => CliError::NoBroker {
            socket: socket.path().to_owned(),
        },
        error => CliError::Client(error),
    }
}

/// Whether the broker refuses a value that the user chose. Its other refusals are about itself or others.
fn is_of_a_value(name: ErrorName) -> bool {
    matches!(
        name,
        ErrorName::BadName | ErrorName::BadWeight | ErrorName::BadPriority | ErrorName::BadMax
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{FAILED, USAGE};
    use std::io::{Read, Write};
    use std::os::unix::net::UnixListener;

    fn answered(answer: &'static [u8]) -> Result<Listing, CliError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        let broker = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut call = [0; 256];
            let _ = stream.read(&mut call).unwrap();
            stream.write_all(answer).unwrap();
        });
        let listing = Control::connect(&Socket::at(path)).unwrap().list();
        broker.join().unwrap();
        listing
    }

    #[test]
    fn answers_are_read_and_nonsense_is_told() {
        let listing = answered(b"{\"parameters\":{\"capacity\":5,\"principals\":[]}}\0").unwrap();
        assert_eq!(listing.capacity, 5);
        let refusal =
            b"{\"error\":\"io.plimsoll.NotPermitted\",\"parameters\":{\"message\":\"ask root\"}}\0";
        let value =
            b"{\"error\":\"io.plimsoll.BadMax\",\"parameters\":{\"message\":\"give more\"}}\0";
        assert_eq!(answered(value).unwrap_err().status(), USAGE);
        assert_eq!(answered(refusal).unwrap_err().status(), FAILED);
        for (answer, needle) in [
            (&b"hello\0"[..], "against the protocol"),
            (b"\xff\xfe\0", "against the protocol"),
            (b"\0", "against the protocol"),
            (
                b"{\"parameters\":{\"capacity\":-5}}\0",
                "against the protocol",
            ),
            (b"{\"parameters\":{", "no broker answers"),
            (b"", "no broker answers"),
            (refusal, "refused: ask root"),
        ] {
            let error = answered(answer).unwrap_err().to_string();
            assert!(error.contains(needle), "{error}");
        }
    }

    #[test]
    fn nobody_at_the_socket_says_what_to_do() {
        let error = Control::connect(&Socket::at("/nonexistent/s"))
            .unwrap_err()
            .to_string();
        assert!(error.contains("plimsoll run"), "{error}");
    }
}
