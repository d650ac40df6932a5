//! The protocol of Redis and Valkey (RESP 2): a command is a list of words; a reply is a text, a number, an
//! error, or a list of replies.

use super::connection::{Connection, Failed};

/// The most parts of a list, and the deepest list in lists, that we take.
const MAX_PARTS: usize = 64;
const MAX_DEPTH: u32 = 2;

/// A reply. A number is a text here, and nothing is an empty one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    Text(String),
    /// The server refused the command: the kind of the error, a blank, and words for people.
    Error(String),
    List(Vec<Reply>),
}

/// Gives a command and reads the reply.
pub(super) fn command(connection: &mut Connection, words: &[&str]) -> Result<Reply, Failed> {
    let mut text = format!("*{}\r\n", words.len());
    for word in words {
        text.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    connection.ask(text.as_bytes())?;
    reply(connection, 0)
}

fn reply(connection: &mut Connection, depth: u32) -> Result<Reply, Failed> {
    let line = connection.line()?;
    let (kind, rest) = line.split_first().ok_or(Failed::Nonsense)?;
    let text = String::from_utf8_lossy(rest).into_owned();
    match kind {
        b'+' | b':' => Ok(Reply::Text(text)),
        b'-' => Ok(Reply::Error(text)),
        b'$' | b'*' if text == "-1" => Ok(Reply::Text(String::new())),
        b'$' => {
            let length: usize = text.parse().map_err(|_| Failed::Nonsense)?;
            let bytes = connection.exactly(length)?;
            // The end of the line after it.
            connection.exactly(2)?;
            Ok(Reply::Text(String::from_utf8_lossy(&bytes).into_owned()))
        }
        b'*' if depth < MAX_DEPTH => {
            let parts: usize = text.parse().map_err(|_| Failed::Nonsense)?;
            if parts > MAX_PARTS {
                return Err(Failed::Nonsense);
            }
            let parts = (0..parts).map(|_| reply(connection, depth + 1));
            Ok(Reply::List(parts.collect::<Result<_, _>>()?))
        }
        _ => Err(Failed::Nonsense),
    }
}
