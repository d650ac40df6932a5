//! The text protocol of memcached, as far as it is about the server: a command is a line; statistics are
//! lines up to `END`, and any other answer is one line.

use super::connection::{Connection, Failed};
use std::collections::BTreeMap;

/// Statistics by their names.
pub(super) type Statistics = BTreeMap<String, String>;

/// Gives a command whose answer is one line.
pub(super) fn command(connection: &mut Connection, line: &str) -> Result<String, Failed> {
    connection.ask(format!("{line}\r\n").as_bytes())?;
    Ok(String::from_utf8_lossy(&connection.line()?).into_owned())
}

/// Asks for statistics: `stats`, or `stats` and what they are about. An answer that is none is returned as an
/// error: the server's own line.
pub(super) fn statistics(
    connection: &mut Connection,
    line: &str,
) -> Result<Result<Statistics, String>, Failed> {
    connection.ask(format!("{line}\r\n").as_bytes())?;
    let mut found = Statistics::new();
    loop {
        let line = connection.line()?;
        let line = String::from_utf8_lossy(&line);
        let Some(statistic) = line.strip_prefix("STAT ") else {
            let is_end = line == "END";
            return Ok(is_end.then_some(found).ok_or_else(|| line.into_owned()));
        };
        let (name, value) = statistic.split_once(' ').unwrap_or((statistic, ""));
        found.insert(name.to_owned(), value.to_owned());
    }
}
