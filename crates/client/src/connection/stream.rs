//! Streams of answers.

use super::{Connection, after};
use crate::Result;
use serde::de::DeserializeOwned;
use std::marker::PhantomData;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// A stream of answers on a connection of its own.
#[derive(Debug)]
pub struct Stream<R> {
    connection: Connection,
    /// Whether the broker has sent the last answer.
    ended: bool,
    answers: PhantomData<fn() -> R>,
}

impl<R: DeserializeOwned> Stream<R> {
    pub(super) fn new(connection: Connection) -> Stream<R> {
        Stream {
            connection,
            ended: false,
            answers: PhantomData,
        }
    }

    /// The next answer; `None` if none came in time.
    ///
    /// # Errors
    /// The broker's refusal, or any error that ends a connection. The stream ends with it.
    pub fn next(&mut self, timeout: Duration) -> Result<Option<R>> {
        if self.ended {
            return Err(self.connection.closed());
        }
        let answer = self.connection.receive(after(timeout));
        match answer {
            Ok(None) => Ok(None),
            Ok(Some((answer, continues))) => {
                self.ended = !continues;
                answer.map(Some)
            }
            Err(error) => {
                self.ended = true;
                Err(error)
            }
        }
    }
}

impl<R> AsFd for Stream<R> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.connection.as_fd()
    }
}
