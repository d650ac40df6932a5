//! The questions and commands to a Redis or Valkey.

use super::connection::{Connection, Failed};
use super::info::Info;
use super::password;
use super::reach::{at_first, early, not_yet};
use super::resp::{self, Reply};
use super::session::{Problem, Session};
use crate::lever::Refusal;
use crate::lever_options::Chosen;
use crate::process::Process;
use plimsoll_unit::Bytes;

/// The commands that a user of the server must be allowed, for messages.
const NEEDS: &str = "+info +config|get +config|set +memory|purge";

/// Why a server may not answer.
const HINT: &str = "a port for TLS only cannot be asked";

/// A server that answered.
#[derive(Debug)]
pub(super) struct Client<'a> {
    /// The number by which the process knows itself.
    inner_pid: Option<u32>,
    chosen: &'a Chosen,
    session: Session,
}

impl<'a> Client<'a> {
    /// Finds the server in a process and asks what it is.
    ///
    /// # Errors
    /// Why it cannot be steered now.
    pub(super) fn reach(
        process: Process,
        chosen: &'a Chosen,
    ) -> Result<(Client<'a>, Info), Refusal> {
        let ask = |connection: &mut Connection| match log_in(connection, chosen)? {
            Ok(()) => resp::command(connection, &["INFO"]).map(|reply| expect(reply, "INFO")),
            Err(why) => Ok(Err(why)),
        };
        let (answer, place, connection) = at_first(&process, HINT, ask)?;
        let pid = process.pid;
        let told = |why: String| not_yet(format!("process {pid} (Redis): {why}"));
        let info = Info::parse(&answer.map_err(told)?);
        let client = Client {
            inner_pid: process.status().ok().map(|status| status.inner_pid),
            chosen,
            session: Session::of(process, place, connection),
        };
        client.check(&info).map_err(told)?;
        if info.mode == "sentinel" {
            return Err(told("it is a Sentinel, which has no data".to_owned()));
        }
        if info.loads {
            return Err(early(format!("process {pid} (Redis) still loads its data")));
        }
        Ok((client, info))
    }

    /// Its account of itself.
    ///
    /// # Errors
    /// Why there is none, in words.
    pub(super) fn info(&mut self) -> Result<Info, String> {
        let info = Info::parse(&self.command(&["INFO"])?);
        self.check(&info)?;
        Ok(info)
    }

    /// Asks for `maxmemory` as one that may also be set.
    ///
    /// # Errors
    /// As [`Client::info`].
    pub(super) fn may_configure(&mut self) -> Result<(), String> {
        self.command(&["CONFIG", "GET", "maxmemory"]).map(drop)
    }

    /// Sets `maxmemory`.
    ///
    /// # Errors
    /// As [`Client::info`].
    pub(super) fn set(&mut self, maxmemory: Bytes) -> Result<(), String> {
        let bytes = maxmemory.0.to_string();
        self.command(&["CONFIG", "SET", "maxmemory", &bytes])
            .map(drop)
    }

    /// Has its allocator give free memory back.
    ///
    /// # Errors
    /// As [`Client::info`].
    pub(super) fn purge(&mut self) -> Result<(), String> {
        self.command(&["MEMORY", "PURGE"]).map(drop)
    }

    /// Whether the answer is of our process, and not of one that has its port by now.
    fn check(&self, info: &Info) -> Result<(), String> {
        match (info.pid, self.inner_pid) {
            (Some(answers), Some(ours)) if answers != ours => Err(format!(
                "process {answers} answers there, and not process {ours}"
            )),
            _ => Ok(()),
        }
    }

    /// The text of the reply to a command.
    fn command(&mut self, words: &[&str]) -> Result<String, String> {
        let name = words.iter().take(2).copied().collect::<Vec<_>>().join(" ");
        let greet = |connection: &mut Connection| log_in(connection, self.chosen);
        let ask = |connection: &mut Connection| resp::command(connection, words);
        match self.session.ask(&greet, ask) {
            Ok(reply) => expect(reply, &name),
            Err(Problem::Failed(failed)) => Err(format!("{name}: {failed}")),
            Err(Problem::Refused(why)) => Err(why),
        }
    }
}

/// Gives the password that the user named a file for, if so. The error within is for people.
fn log_in(connection: &mut Connection, chosen: &Chosen) -> Result<Result<(), String>, Failed> {
    let words = match password::read(chosen) {
        None => return Ok(Ok(())),
        Some(Err(why)) => return Ok(Err(why)),
        Some(Ok(words)) => words,
    };
    let mut all = vec!["AUTH"];
    all.extend(words.iter().map(String::as_str));
    Ok(match resp::command(connection, &all)? {
        Reply::Error(why) => Err(format!(
            "it refuses the password in the file of --{}: {why}",
            password::PASSWORD_FILE.name
        )),
        _ => Ok(()),
    })
}

/// The text of a reply. An error says what to do about it. `name`: the command.
fn expect(reply: Reply, name: &str) -> Result<String, String> {
    match reply {
        Reply::Text(text) => Ok(text),
        Reply::List(_) => Ok(String::new()),
        Reply::Error(why) => Err(explain(&why, name)),
    }
}

fn explain(why: &str, name: &str) -> String {
    let kind = why.split(' ').next().unwrap_or_default();
    match kind {
        "NOAUTH" => format!(
            "it wants a password: write it into a file that only you can read, and name that by --{} FILE",
            password::PASSWORD_FILE.name
        ),
        "NOPERM" => format!("it refuses {name}: its user needs the rights `{NEEDS}` ({why})"),
        "ERR" if why.contains("unknown command") => format!(
            "it does not know {name}, which may have been renamed or forbidden: without that command it \
             cannot be steered ({why})"
        ),
        _ => format!("it refuses {name}: {why}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_say_what_to_do() {
        for (why, needle) in [
            (
                "NOAUTH Authentication required.",
                "--redis-password-file FILE",
            ),
            ("NOPERM this user has no permissions", "+config|set"),
            (
                "ERR unknown command 'CONFIG', with args",
                "renamed or forbidden",
            ),
            ("MISCONF errors", "it refuses CONFIG GET: MISCONF errors"),
        ] {
            let told = expect(Reply::Error(why.to_owned()), "CONFIG GET").unwrap_err();
            assert!(told.contains(needle), "{told}");
        }
    }
}
