//! Other users, fewer rights, more rights, and variables of a service manager. A program gets the variables
//! that are meant for it, and no others.

mod common;

use common::ground::{alone, classes, java, printed};
use common::nobody::{AS_NOBODY, folder, open};
use common::{Place, Started, alive, library, signal_to, stderr, until_known, wait_for};
use plimsoll_testbed::children::copy_program;
use plimsoll_testbed::skip;
use rustix::fs::XattrFlags;
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

const NOBODY: u32 = 65534;
/// `cap_net_bind_service=ep`, as the kernel keeps it (linux/capability.h).
const CAPABLE: [u8; 20] = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// Gives a program a capability. If files cannot have any here, says so and returns `false`.
fn make_capable(program: &Path) -> bool {
    let volume = rustix::fs::statvfs(program).unwrap();
    let may = !volume
        .f_flag
        .contains(rustix::fs::StatVfsMountFlags::NOSUID);
    let made = rustix::fs::setxattr(
        program,
        "security.capability",
        &CAPABLE,
        XattrFlags::empty(),
    );
    let made = may && made.is_ok();
    if !made {
        skip("files have no capabilities here");
    }
    made
}

/// A command that runs our program as this user, with the broker's socket of `place`.
fn nobodys(place: &Place, own: &Path, words: &[&str]) -> Command {
    let own = own.display().to_string();
    let words = [&AS_NOBODY[1..], &[own.as_str()][..], words].concat();
    place.program(AS_NOBODY[0], &words)
}

/// Runs our program as this user, with the broker's socket of `place`.
fn as_nobody(place: &Place, own: &Path, words: &[&str], variables: &[(&str, &Path)]) -> Output {
    let mut command = nobodys(place, own, words);
    command.envs(variables.iter().copied()).output().unwrap()
}

/// Runs our program by this command and with this `XDG_RUNTIME_DIR`, where `/tmp` and `/run` are empty, so
/// that no other broker is found. Sees that its program is known to a broker. If that cannot be tried, says
/// so and returns `None`.
fn in_directory(by: &[&str], own: &Path, runtime: &Path) -> Option<Output> {
    let script = "mount -t tmpfs tmpfs /tmp && mount -t tmpfs tmpfs /run && exec \"$@\"";
    let apart = |words: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", script, "sh"]).args(words);
        for name in ["PLIMSOLL_SOCKET", "PLIMSOLL_ID", "PLIMSOLL_PAGE"] {
            command.env_remove(name);
        }
        command.env("XDG_RUNTIME_DIR", runtime).env("HOME", "/");
        command.current_dir("/").stdin(Stdio::null());
        command
    };
    if !apart(&["true"]).output().unwrap().status.success() {
        skip("no mounts of our own here");
        return None;
    }
    let own = own.display().to_string();
    let words = [
        own.as_str(),
        "run",
        "-n",
        "guest",
        "--",
        own.as_str(),
        "ps",
        "--json",
    ];
    let output = until_known(|| apart(&[by, &words[..]].concat()));
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    // It would wait for other programs for a while.
    if let Some(broker) = told["pid"].as_u64().map(|pid| pid as u32) {
        signal_to(broker, libc::SIGTERM);
        wait_for("the broker ends", || (!alive(broker)).then_some(()));
    }
    assert_eq!(
        told["principals"][0]["name"],
        "guest",
        "{}",
        stderr(&output)
    );
    Some(output)
}

#[test]
fn the_runtime_directory_of_another_user_is_left_alone() {
    let Some((folder, own)) = folder() else {
        return;
    };
    // As after `sudo -u` and `docker run -u`, then as after `sudo -E` and `su`.
    for (name, owner, by) in [("roots", 0, &AS_NOBODY[..]), ("users", NOBODY, &[][..])] {
        let runtime = folder.path().join(name);
        std::fs::create_dir(&runtime).unwrap();
        std::fs::set_permissions(&runtime, PermissionsExt::from_mode(0o700)).unwrap();
        chown(&runtime, Some(owner), Some(owner)).unwrap();
        let Some(output) = in_directory(by, &own, &runtime) else {
            return;
        };
        assert!(output.status.success(), "{}", stderr(&output));
        assert_eq!(stderr(&output), "");
        let left: Vec<_> = std::fs::read_dir(&runtime).unwrap().collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

#[test]
fn a_home_that_cannot_be_read_is_as_good_as_none() {
    let Some((folder, own)) = folder() else {
        return;
    };
    let place = Place::new();
    open(&place.path(""));
    chown(place.path(""), Some(NOBODY), Some(NOBODY)).unwrap();
    let home = folder.path().join("home");
    std::fs::create_dir(&home).unwrap();
    std::fs::set_permissions(&home, PermissionsExt::from_mode(0o700)).unwrap();
    let words = ["run", "-n", "guest", "true"];
    let output = until_known(|| {
        let mut command = nobodys(&place, &own, &words);
        command.env("HOME", &home);
        command
    });
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stderr(&output), "");
    assert!(place.listing().is_some());
}

#[test]
fn nothing_of_the_environment_is_believed_by_who_has_more_rights_than_who_started_it() {
    let Some((_folder, own)) = folder() else {
        return;
    };
    let place = Place::new();
    open(&place.path(""));
    let named = Path::new("/nonexistent/broker.sock");
    let ask = || as_nobody(&place, &own, &["ps"], &[("PLIMSOLL_SOCKET", named)]);
    let before = ask();
    assert!(
        stderr(&before).contains("/nonexistent/"),
        "{}",
        stderr(&before)
    );
    if !make_capable(&own) {
        return;
    }
    let after = ask();
    assert!(
        !stderr(&after).contains("/nonexistent/"),
        "{}",
        stderr(&after)
    );
}

#[test]
fn a_program_with_file_capabilities_is_passive_and_it_is_said_why() {
    let Some((folder, own)) = folder() else {
        return;
    };
    let found = ["/usr/bin/guile-3.0", "/usr/bin/guile"];
    let found = found.iter().find(|guile| Path::new(guile).exists());
    let Some(found) = found else {
        return skip("no guile");
    };
    let guile = folder.path().join("guile");
    copy_program(found, &guile).unwrap();
    let drop_in = "libplimsoll_gc.so";
    std::fs::copy(library(drop_in), folder.path().join(drop_in)).unwrap();
    let place = Place::new();
    open(&place.path(""));
    chown(place.path(""), Some(NOBODY), Some(NOBODY)).unwrap();
    let guile_words = guile.display().to_string();
    let words = ["run", "-v", "-n", "g", "--", &guile_words, "--version"];
    let home = place.path("");
    let say = || {
        stderr(&as_nobody(
            &place,
            &own,
            &words,
            &[("HOME", home.as_path())],
        ))
    };
    let adapter = |name: &str| {
        let words = ["run", "-n", name, "--", &guile_words, "-c", "(sleep 600)"];
        let mut command = nobodys(&place, &own, &words);
        let _guile = Started(command.env("HOME", &home).spawn().unwrap());
        place.attached(name).adapter
    };
    let before = say();
    assert!(before.contains("libgc: the drop-in"), "{before}");
    assert_eq!(adapter("plain").as_deref(), Some("libgc"));
    if make_capable(&guile) {
        let after = say();
        assert!(
            after.contains("libgc: the program has file capabilities"),
            "{after}"
        );
        assert_eq!(adapter("capable"), None);
    }
}

/// The variables of the memory pressure protocol that a program finds, given those of a service
/// manager.
fn pressure(place: &Place, said: &[(&str, &str)]) -> (String, String) {
    let script = "printf '%s\\n%s\\n' \"$MEMORY_PRESSURE_WATCH\" \"${MEMORY_PRESSURE_WRITE-none}\"";
    let output = until_known(|| {
        let mut command = place.command(&["run", "-n", "p", "sh", "-c", script]);
        for name in ["MEMORY_PRESSURE_WATCH", "MEMORY_PRESSURE_WRITE"] {
            command.env_remove(name);
        }
        command.envs(said.iter().copied());
        command
    });
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    let mut lines = text.lines().map(str::to_owned);
    let mut next = || {
        lines
            .next()
            .unwrap_or_else(|| panic!("{}", stderr(&output)))
    };
    (next(), next())
}

#[test]
fn who_is_told_not_to_watch_does_not_and_whom_we_tell_is_told_one_thing() {
    let place = Place::new();
    let (watch, write) = ("MEMORY_PRESSURE_WATCH", "MEMORY_PRESSURE_WRITE");
    let own = place.path("b/pressure").display().to_string();
    let (path, first) = pressure(&place, &[]);
    assert!(path.starts_with(&own), "{path}");
    assert_eq!(first, "none");
    let file = "/sys/fs/cgroup/x.service/memory.pressure";
    let (path, first) = pressure(&place, &[(watch, file), (write, "c29tZQ==")]);
    assert!(path.starts_with(&own), "{path}");
    assert_eq!(first, "none");
    for said in [
        vec![(watch, "/dev/null")],
        vec![(watch, "/dev/null"), (write, "c29tZQ==")],
    ] {
        let (path, first) = pressure(&place, &said);
        assert_eq!(path, "/dev/null");
        assert_eq!(first == "none", said.len() == 1);
    }
}

/// A client of the protocol waits for bytes, and takes the end of the connection for that of the service.
#[test]
fn who_listens_for_pressure_and_says_nothing_stays_connected() {
    let place = Place::new();
    let _sleeper = place.start(&["run", "-n", "p", "sleep", "600"]);
    let id = place.attached("p").id;
    let socket = place.path(&format!("b/pressure/{id}.sock"));
    let mut listener = UnixStream::connect(socket).unwrap();
    let wait = Some(Duration::from_secs(1));
    listener.set_read_timeout(wait).unwrap();
    let got = listener.read(&mut [0; 64]);
    assert!(!matches!(got, Ok(0)), "it is closed");
}

#[test]
fn a_machine_that_lets_nobody_attach_is_shown_as_passive_and_told_of_once() {
    let _alone = alone();
    let place = Place::new();
    let Some(classes) = classes(&place, &["crates/runtimes/tests/java/Churn.java"]) else {
        return;
    };
    let log = place.path("log").display().to_string();
    let mut words = vec!["run", "-n", "hard", "--log", &log, "--"];
    let java = java();
    words.extend([java.as_str(), "-XX:+DisableAttachMechanism", "-Xmx200m"]);
    words.extend(["-cp", &classes, "Churn", "20", "20"]);
    let mut command = place.command(&words);
    let output = std::fs::File::create(place.path("hard.out")).unwrap();
    command.stdin(Stdio::piped()).stdout(output);
    let mut run = Started(command.spawn().unwrap());
    let told = || {
        let log = std::fs::read_to_string(&log).unwrap_or_default();
        log.matches("lets nobody attach").count()
    };
    wait_for("it is said", || (told() > 0).then_some(()));
    let passive = || place.principal("hard").filter(|p| p.adapter.is_none());
    let shown = wait_for("it is passive", passive);
    assert_eq!(shown.owed, 0);
    let table = place.text(&["ps"]);
    let row = table.lines().find(|line| line.contains("hard")).unwrap();
    assert!(row.split_whitespace().any(|word| word == "-"), "{row}");
    // Long enough for it to be asked again.
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(told(), 1);
    drop(run.0.stdin.take());
    assert!(run.wait().success());
    assert!(!printed(&place, "hard").contains("thread dump"));
}
