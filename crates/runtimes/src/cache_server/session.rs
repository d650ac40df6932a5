//! Questions to one server, one after another. Where the server closed the connection meanwhile (its own time
//! limit for idle clients, say) it is opened again.

use super::connection::{Connection, Failed};
use crate::process::Process;
use plimsoll_kernel::sockets::Listens;

/// Says what has to be said first on a new connection. The error within is a refusal, in words.
pub(super) type Greet<'a> = &'a dyn Fn(&mut Connection) -> Result<Result<(), String>, Failed>;

/// Why a question got no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum Problem {
    #[error(transparent)]
    Failed(#[from] Failed),
    /// The server does not take us as its client.
    #[error("{0}")]
    Refused(String),
}

/// The way to a server that answered before.
#[derive(Debug)]
pub(super) struct Session {
    process: Process,
    place: Listens,
    connection: Option<Connection>,
}

impl Session {
    /// Goes on with an open connection.
    pub(super) fn of(process: Process, place: Listens, connection: Connection) -> Session {
        Session {
            process,
            place,
            connection: Some(connection),
        }
    }

    /// Asks a question.
    pub(super) fn ask<T>(
        &mut self,
        greet: Greet<'_>,
        question: impl Fn(&mut Connection) -> Result<T, Failed>,
    ) -> Result<T, Problem> {
        let was_open = self.connection.is_some();
        match self.once(greet, &question) {
            Err(Problem::Failed(Failed::Closed)) if was_open => self.once(greet, &question),
            other => other,
        }
    }

    fn once<T>(
        &mut self,
        greet: Greet<'_>,
        question: &impl Fn(&mut Connection) -> Result<T, Failed>,
    ) -> Result<T, Problem> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => {
                let mut connection = Connection::open(&self.process, &self.place)?;
                greet(&mut connection)?.map_err(Problem::Refused)?;
                connection
            }
        };
        let answer = question(&mut connection)?;
        self.connection = Some(connection);
        Ok(answer)
    }
}
