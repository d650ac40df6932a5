//! Asks systemd for a scope: a unit around processes that systemd did not start, delegated to us. We ask by
//! `busctl`, which is where systemd is. Source: `org.freedesktop.systemd1(5)`, `systemd.scope(5)`.

use super::holder::Holder;
use super::sweep;
use plimsoll_kernel::cgroup::{Cgroup, locate};
use plimsoll_kernel::process::{Process, own};
use rustix::process::geteuid;
use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tracing::warn;

/// How long the service manager may take to answer one call, seconds. A program waits for it.
const ANSWER: &str = "--timeout=3";
/// How long the whole call may take: `busctl` itself waits longer for a bus that does not speak.
const CALL: Duration = Duration::from_secs(4);
/// After this time of a call we say for what the program waits.
const TELL: Duration = Duration::from_secs(2);
/// How long the manager may take to move the first process after it has agreed.
const MOVE: Duration = Duration::from_secs(2);
/// Whether the manager did not answer once. Then it is not asked again: each program would wait.
static SILENT: AtomicBool = AtomicBool::new(false);
const PACE: Duration = Duration::from_millis(2);
/// Directory that is there where systemd runs (`sd_booted(3)`).
const BOOTED: &str = "/run/systemd/system";
/// Attributes by which systemd marks cgroups that it has delegated (`systemd.resource-control(5)`).
const MARKS: [&str; 2] = ["trusted.delegate", "user.delegate"];
/// Limits that a program must not lose by moving; each with what it says if it binds nothing.
const LIMITS: [(&str, &str); 9] = [
    ("memory.max", "max"),
    ("memory.high", "max"),
    ("memory.swap.max", "max"),
    ("memory.zswap.max", "max"),
    ("pids.max", "max"),
    ("cpu.max", "max 100000"),
    ("cpuset.cpus", ""),
    ("cpuset.mems", ""),
    ("io.max", ""),
];

/// Whether systemd divides the tree of cgroups here.
pub(super) fn systemd_runs() -> bool {
    let first = Process::open(1).and_then(|first| first.comm());
    // In a namespace of its own our numbers would be those of other processes for it.
    let same = own::is_shown() && first.is_ok_and(|name| name == "systemd");
    same && Path::new(BOOTED).is_dir()
}

/// Whether systemd has left this cgroup to its owner to divide.
pub(super) fn is_delegated(dir: &Path) -> bool {
    let marked = MARKS.iter().any(|mark| {
        let mut value = [0; 8];
        let length = rustix::fs::getxattr(dir, *mark, &mut value[..]);
        length.is_ok_and(|length| value.starts_with(b"1") && length == 1)
    });
    marked || is_top_of_ours(dir)
}

/// Whether a cgroup is ours and the one above is not: the system's manager made it for us, or a container's.
/// (All cgroups below the manager of a user are that user's, also those that it has not delegated.)
fn is_top_of_ours(dir: &Path) -> bool {
    let owner = |dir: &Path| std::fs::metadata(dir).map(|found| found.uid());
    let ours = geteuid().as_raw();
    let above = dir.parent().map(owner);
    ours != 0
        && owner(dir).is_ok_and(|owner| owner == ours)
        && above.is_some_and(|above| above.is_ok_and(|above| above != ours))
}

/// A scope. It ends with the last process in it.
#[derive(Debug)]
pub(super) struct Scope {
    /// Its name.
    unit: String,
    /// Its cgroup.
    dir: PathBuf,
    /// Keeps it until the first program is there.
    _holder: Holder,
}

impl Scope {
    /// Asks for a scope for programs that we start; we are in the cgroup `ours`.
    ///
    /// # Errors
    /// Why there is none, for people.
    pub(super) fn ask(ours: &Cgroup) -> Result<Scope, String> {
        may_leave(ours.dir())?;
        let holder = Holder::start().map_err(|error| format!("no process for a scope: {error}"))?;
        let began = Process::open(holder.pid()).map_or(0, |process| process.start_time());
        let unit = format!("plimsoll-{}-{began}.scope", std::process::id());
        let pid = holder.pid().to_string();
        let slice = slice_of(ours.dir(), geteuid().is_root());
        let slice = slice.map(|slice| ["Slice", "s", slice]);
        let count = if slice.is_some() { "5" } else { "4" };
        let arguments = [
            "StartTransientUnit",
            "ssa(sv)a(sa(sv))",
            &unit,
            "fail",
            count,
        ];
        let properties = [
            ["Description", "s", "a program under plimsoll run"].as_slice(),
            &["CollectMode", "s", "inactive-or-failed"],
            &["Delegate", "b", "true"],
            &["PIDs", "au", "1", &pid],
            slice.as_ref().map_or(&[], |slice| slice.as_slice()),
            &["0"],
        ];
        let all = arguments.iter().chain(properties.iter().copied().flatten());
        call(all.copied())?;
        let dir = await_move(holder.pid(), &unit)?;
        let scope = Scope {
            unit,
            dir,
            _holder: holder,
        };
        scope.escapes_nothing(ours)?;
        Ok(scope)
    }

    /// Its cgroup.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Moves a process to a cgroup below that of the scope.
    ///
    /// # Errors
    /// Why it was not moved.
    pub(super) fn attach(&self, below: &Path, pid: i32) -> Result<(), String> {
        let below = Path::new("/").join(below).display().to_string();
        let pid = pid.to_string();
        call(
            [
                "AttachProcessesToUnit",
                "ssau",
                &self.unit,
                &below,
                "1",
                &pid,
            ]
            .into_iter(),
        )
    }

    /// Refuses a scope in which a limit of our own cgroup, or of one above it, would not bind the programs
    /// any more.
    fn escapes_nothing(&self, own: &Cgroup) -> Result<(), String> {
        match escaped(own.dir(), &self.dir) {
            None => Ok(()),
            Some(limit) => Err(format!(
                "in a scope of its own {} would not bind the program any more; with `Delegate=yes` in the \
                 unit that has this limit, the program gets a cgroup within it",
                limit.display()
            )),
        }
    }
}

/// A limit that binds who is in `from`, and neither it nor one that is as tight in `to`.
fn escaped(from: &Path, to: &Path) -> Option<PathBuf> {
    fn only<'a>(of: &'a Path, other: &'a Path) -> impl Iterator<Item = &'a Path> {
        of.ancestors().take_while(|above| !other.starts_with(above))
    }
    let limits = only(from, to).flat_map(limits_of);
    let is_lost = |limit: &PathBuf| {
        let file = limit.file_name().unwrap_or_default();
        let here = std::fs::read_to_string(limit).unwrap_or_default();
        let there = |dir: &Path| std::fs::read_to_string(dir.join(file));
        !only(to, from).any(|dir| there(dir).is_ok_and(|there| is_as_tight(&there, &here)))
    };
    limits.into_iter().find(is_lost)
}

/// Whether one limit allows no more than another one of its kind: numbers, a part of a processor's time, or
/// the same words.
fn is_as_tight(limit: &str, other: &str) -> bool {
    let part = |text: &str| {
        let mut words = text.split_whitespace().map(str::parse::<u64>);
        let amount = words.next()?.ok()?;
        let period = words.next().map_or(Some(1), Result::ok)?;
        let whole = words.next().is_none() && period > 0;
        whole.then_some((u128::from(amount), u128::from(period)))
    };
    match (part(limit), part(other)) {
        (Some((amount, period)), Some((other, others))) => amount * others <= other * period,
        _ => !limit.trim().is_empty() && limit.trim() == other.trim(),
    }
}

/// The innermost slice that a process is in, of those that its service manager divides: the system's, or,
/// for `root` false, the user's. A scope begins in another one if none is named, and so beside the limits of
/// the slice. `None` where the manager may choose.
fn slice_of(own: &Path, root: bool) -> Option<&str> {
    let names = own.iter().filter_map(OsStr::to_str);
    let is_slice = |name: &&str| name.ends_with(".slice");
    let is_users = |name: &&str| name.starts_with("user@") && name.ends_with(".service");
    if root {
        let ours = names.skip_while(|name| !is_slice(name));
        return ours.take_while(is_slice).last();
    }
    let ours = names.skip_while(|name| !is_users(name)).skip(1);
    ours.take_while(is_slice).last()
}

/// Refuses to take programs out of a service: its manager ends what is in it, by its cgroup. The service of a
/// user's manager is not meant, which is the one that is asked.
fn may_leave(own: &Path) -> Result<(), String> {
    let is_service = |name: &str| name.ends_with(".service") && !name.starts_with("user@");
    let mut names = own.iter().filter_map(OsStr::to_str);
    match names.find(|name| is_service(name)) {
        None => Ok(()),
        Some(name) => Err(format!(
            "programs belong to the service {name}; with `Delegate=yes` in its unit each gets a cgroup \
             of its own within it"
        )),
    }
}

/// The limits that are set for a cgroup itself. The bound of a program under another `plimsoll run` is none:
/// it comes and goes, and each program within has a part of its own of what the outer one may have.
fn limits_of(dir: &Path) -> Vec<PathBuf> {
    let is_bound = |file: &str| file == "memory.high" && sweep::is_one(dir);
    let is_set = |(file, unset): &(&str, &str)| {
        if is_bound(file) {
            return false;
        }
        let says = std::fs::read_to_string(dir.join(file));
        says.is_ok_and(|says| says.trim() != *unset)
    };
    let set = LIMITS.iter().filter(|limit| is_set(limit));
    set.map(|(file, _)| dir.join(file)).collect()
}

/// Waits until a process is in the cgroup of a unit.
fn await_move(pid: i32, unit: &str) -> Result<PathBuf, String> {
    let until = Instant::now() + MOVE;
    loop {
        let place = locate(pid).map_err(|error| error.to_string())?;
        let place = place.filter(|place| place.exact && place.dir.ends_with(unit));
        if let Some(place) = place {
            return Ok(place.dir);
        }
        if Instant::now() > until {
            return Err(format!(
                "systemd has agreed to the scope {unit} and moved nothing there within {} s",
                MOVE.as_secs()
            ));
        }
        std::thread::sleep(PACE);
    }
}

/// Calls the service manager: the system's as root, else the user's.
fn call<'a>(arguments: impl Iterator<Item = &'a str>) -> Result<(), String> {
    if SILENT.load(Ordering::Relaxed) {
        return Err("systemd did not answer before (busctl)".into());
    }
    let user = geteuid();
    let mut command = Command::new("busctl");
    if !user.is_root() {
        command.arg("--user");
        let runtime = format!("/run/user/{}", user.as_raw());
        if std::env::var_os("XDG_RUNTIME_DIR").is_none() && Path::new(&runtime).is_dir() {
            command.env("XDG_RUNTIME_DIR", runtime);
        }
    }
    command
        .args([ANSWER, "--quiet", "call"])
        .args(["org.freedesktop.systemd1", "/org/freedesktop/systemd1"])
        .arg("org.freedesktop.systemd1.Manager")
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = command
        .spawn()
        .map_err(|error| format!("systemd cannot be asked for a scope: busctl: {error}"))?;
    let status = answer_of(&mut child)?;
    if status.success() {
        return Ok(());
    }
    let output = child.wait_with_output().map(|output| output.stderr);
    let said = String::from_utf8_lossy(&output.unwrap_or_default())
        .trim()
        .to_owned();
    Err(format!("systemd refuses a scope: {said}"))
}

/// Waits for the end of a call, and says so if that takes long.
fn answer_of(call: &mut Child) -> Result<ExitStatus, String> {
    let (began, mut told) = (Instant::now(), false);
    loop {
        match call.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) if began.elapsed() < CALL => std::thread::sleep(PACE),
            Ok(None) => {
                let _ = call.kill();
                let _ = call.wait();
                SILENT.store(true, Ordering::Relaxed);
                return Err(format!(
                    "systemd did not answer within {} s (busctl)",
                    CALL.as_secs()
                ));
            }
            Err(error) => return Err(format!("busctl: {error}")),
        }
        if !told && began.elapsed() >= TELL {
            told = true;
            let (waited, left) = (TELL.as_secs(), (CALL - TELL).as_secs());
            warn!(
                "systemd has not answered for {waited} s; if it does not within {left} s more, the program \
                 starts without a cgroup of its own"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_not_taken_out_of_a_service() {
        let service = may_leave(Path::new("/sys/fs/cgroup/system.slice/web.service"));
        assert!(
            service.is_err_and(|why| why.contains("web.service") && why.contains("Delegate=yes"))
        );
        let below = may_leave(Path::new("/system.slice/web.service/plimsoll-run-1"));
        assert!(below.is_err_and(|why| why.contains("web.service")));
        for free in [
            "user.slice/user-0.slice/session-1.scope",
            "user.slice/user-7.slice/user@7.service/app.slice/run-1.scope",
            "init.scope",
            "",
        ] {
            assert_eq!(may_leave(&Path::new("/sys/fs/cgroup").join(free)), Ok(()));
        }
    }

    #[test]
    fn limits_that_are_set_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| std::fs::write(dir.path().join(file), text).unwrap();
        write("memory.max", "max\n");
        write("cpu.max", "max 100000\n");
        write("io.max", "");
        assert!(limits_of(dir.path()).is_empty());
        write("memory.high", "1048576\n");
        write("cpu.max", "50000 100000\n");
        let found = limits_of(dir.path());
        assert_eq!(
            found,
            [dir.path().join("memory.high"), dir.path().join("cpu.max")]
        );
    }

    #[test]
    fn who_moves_keeps_each_limit_or_gets_one_that_is_as_tight() {
        let root = tempfile::tempdir().unwrap();
        let (from, to) = (root.path().join("a/session"), root.path().join("b/scope"));
        std::fs::create_dir_all(&from).unwrap();
        std::fs::create_dir_all(&to).unwrap();
        let write = |file: &str, text: &str| std::fs::write(root.path().join(file), text).unwrap();
        let lost = || escaped(&from, &to);
        write("pids.max", "7\n");
        assert_eq!(lost(), None, "it binds both");
        for (file, limit, looser, tighter) in [
            ("pids.max", "100\n", "101\n", "100\n"),
            ("memory.max", "4096\n", "max\n", "0\n"),
            (
                "cpu.max",
                "50000 100000\n",
                "60000 100000\n",
                "10000 20000\n",
            ),
            ("cpuset.cpus", "0-1\n", "0-2\n", "0-1\n"),
            ("io.max", "8:0 rbps=1\n", "\n", "8:0 rbps=1\n"),
        ] {
            let limited = format!("a/{file}");
            write(&limited, limit);
            assert_eq!(lost(), Some(root.path().join(&limited)));
            write(&format!("b/scope/{file}"), looser);
            assert_eq!(lost(), Some(root.path().join(&limited)));
            write(&format!("b/{file}"), tighter);
            assert_eq!(lost(), None, "{file}");
        }
        // The bound of a program around this one is no limit; its user's is.
        let inner = root.path().join("a/plimsoll-run-1-2-3");
        std::fs::create_dir(&inner).unwrap();
        let set = |file: &str| std::fs::write(inner.join(file), "4096\n").unwrap();
        set("memory.high");
        assert_eq!(escaped(&inner, &to), None);
        set("memory.swap.max");
        assert!(escaped(&inner, &to).is_some());
    }

    #[test]
    fn the_slice_is_that_of_the_manager_who_is_asked() {
        for (own, system, users) in [
            (
                "user.slice/user-7.slice/session-1.scope",
                Some("user-7.slice"),
                None,
            ),
            (
                "user.slice/user-7.slice/user@7.service/app.slice/app-x.slice/run-1.scope",
                Some("user-7.slice"),
                Some("app-x.slice"),
            ),
            ("init.scope", None, None),
            (
                "machine.slice/box.scope/app.slice",
                Some("machine.slice"),
                None,
            ),
        ] {
            let own = Path::new("/sys/fs/cgroup").join(own);
            assert_eq!(
                (slice_of(&own, true), slice_of(&own, false)),
                (system, users)
            );
        }
    }
}
