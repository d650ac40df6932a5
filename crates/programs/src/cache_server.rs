//! Servers that keep a cache in their memory: Redis, Valkey, memcached.

use crate::candidate::Candidate;
use crate::command::Command;
use crate::recognise::Recognise;
use plimsoll_kernel::process::Process;
use std::ffi::OsStr;
use std::path::Path;

/// The file names of Redis and Valkey.
const REDIS: [&str; 2] = ["redis-server", "valkey-server"];
/// Names of the same file where a distribution has the server as a link to it (Debian).
const ALSO_REDIS: [&str; 4] = [
    "redis-check-rdb",
    "redis-check-aof",
    "valkey-check-rdb",
    "valkey-check-aof",
];
/// The file name of memcached.
const MEMCACHED: &str = "memcached";

/// Redis or Valkey.
#[derive(Clone, Copy, Debug)]
pub struct Redis;

impl Recognise for Redis {
    fn name(&self) -> &'static str {
        "redis"
    }

    fn starts(&self, command: &Command<'_>) -> bool {
        let called = command.argv.first();
        let called = called.and_then(|name| Path::new(name).file_name());
        let is_called_so = || REDIS.iter().any(|name| called == Some(OsStr::new(name)));
        let file = command.executable().and_then(Path::file_name);
        let file = file.and_then(OsStr::to_str).unwrap_or_default();
        REDIS.contains(&file) || ALSO_REDIS.contains(&file) && is_called_so()
    }

    /// A process that such a server forked to write a file has the same program and all of its memory, but
    /// takes no commands. It is none.
    fn runs(&self, process: &Candidate<'_>) -> bool {
        let is_named = |names: &[&str]| process.names().any(|name| names.contains(&name));
        let is_server =
            is_named(&REDIS) || is_named(&ALSO_REDIS) && is_called_server(process.pid());
        is_server && !is_forked(process.pid())
    }
}

/// Whether a process was started by the name of the server.
fn is_called_server(pid: u32) -> bool {
    let called = open(pid).and_then(|process| process.comm().ok());
    called.is_some_and(|called| REDIS.contains(&called.as_str()))
}

/// Whether a process has the program of its parent.
fn is_forked(pid: u32) -> bool {
    let program = |process: &Process| process.exe().ok().flatten();
    let same = || {
        let process = open(pid)?;
        let parent = Process::open(process.ids().ok()?.parent).ok()?;
        Some(program(&process)? == program(&parent)?)
    };
    same().unwrap_or(false)
}

fn open(pid: u32) -> Option<Process> {
    Process::open(i32::try_from(pid).ok()?).ok()
}

/// memcached.
#[derive(Clone, Copy, Debug)]
pub struct Memcached;

impl Recognise for Memcached {
    fn name(&self) -> &'static str {
        "memcached"
    }

    fn starts(&self, command: &Command<'_>) -> bool {
        let file = command.executable().and_then(Path::file_name);
        file.is_some_and(|name| name == MEMCACHED)
    }

    fn runs(&self, process: &Candidate<'_>) -> bool {
        process.names().any(|name| name == MEMCACHED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::candidate::mappings;
    use crate::start_environment::Setting;
    use plimsoll_testbed::children::copy_program;
    use std::ffi::OsString;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::process::{Child, Stdio};
    use std::sync::Arc;

    fn starts(runtime: &dyn Recognise, program: &Path) -> bool {
        let argv = [OsString::from(program)];
        runtime.starts(&Command::new(&argv, &Setting::ours()))
    }

    #[test]
    fn a_command_is_told_by_its_file_or_by_the_name_that_it_is_called_by() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["redis-check-rdb", "valkey-server", "memcached", "redis-cli"] {
            std::fs::write(at(name), "").unwrap();
            let mode = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions(at(name), mode).unwrap();
        }
        for (name, of) in [
            ("redis-server", "redis-check-rdb"),
            ("redis-sentinel", "redis-check-rdb"),
            ("cache", "valkey-server"),
        ] {
            symlink(of, at(name)).unwrap();
        }
        let redis = ["redis-server", "valkey-server", "cache"];
        assert!(redis.iter().all(|name| starts(&Redis, &at(name))));
        let others = [
            "redis-check-rdb",
            "redis-sentinel",
            "redis-cli",
            "memcached",
        ];
        assert!(!others.iter().any(|name| starts(&Redis, &at(name))));
        assert!(starts(&Memcached, &at("memcached")) && !starts(&Memcached, &at("cache")));
    }

    #[test]
    fn a_process_is_told_by_its_file() {
        let runs = |runtime: &dyn Recognise, file: &str| {
            let mappings = mappings(&[file, "/lib/libc.so.6"]);
            let path = Path::new("");
            runtime.runs(&Candidate::seen(0, path, &Arc::default(), &mappings))
        };
        assert!(runs(&Redis, "/usr/local/bin/redis-server"));
        assert!(runs(&Redis, "/usr/bin/valkey-server (deleted)"));
        assert!(!runs(&Redis, "/usr/bin/redis-check-rdb") && !runs(&Redis, "/usr/bin/cat"));
        assert!(runs(&Memcached, "/usr/bin/memcached") && !runs(&Memcached, "/bin/cat"));
    }

    /// A shell under this name, called by another, which forks and waits.
    fn shell(folder: &Path, file: &str, called: &str) -> Child {
        copy_program("/bin/sh", folder.join(file)).unwrap();
        if called != file {
            symlink(file, folder.join(called)).unwrap();
        }
        let mut command = std::process::Command::new(folder.join(called));
        // The shell in brackets is a fork of the other.
        command.args(["-c", "exec 3<&0; (read x <&3; :) & read x <&3; wait"]);
        command.stdin(Stdio::piped()).spawn().unwrap()
    }

    #[test]
    fn a_fork_of_a_server_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let mut server = shell(folder.path(), "redis-check-rdb", "redis-server");
        let runs = |pid: u32| Redis.runs(&Candidate::look(pid));
        let server_pid = i32::try_from(server.id()).unwrap();
        let mut children = Vec::new();
        while children.is_empty() {
            std::thread::sleep(std::time::Duration::from_millis(1));
            let mut all = |_| true;
            let _ =
                plimsoll_kernel::process::descendants_where(server_pid, 9, &mut all, &mut children);
        }
        let child = u32::try_from(children[0]).unwrap();
        let told = (runs(server.id()), runs(child));
        drop(server.stdin.take());
        server.wait().unwrap();
        assert_eq!(told, (true, false));
    }
}
