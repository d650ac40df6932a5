//! The rights given by the systemd unit, tried on real programs. The broker is a user of its own,
//! with the unit's capabilities and system call filter. It sees another user's program and pages
//! out what that program owes.

use crate::common::{Broker, Client, PATIENCE, Swap, as_user, swap, until};
use crate::ladder::begin;
use plimsoll_testbed::{Child, TestCgroup, allow_only, skip};
use plimsoll_unit::{Bytes, MIB};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The broker's user, and the owner of the program.
const BROKER: u32 = 64_200;
const OWNER: u32 = 64_203;
/// Numbers of the system calls that [`filtered`] allows.
const ALLOWED: &str = "PLIMSOLL_TEST_ALLOWED";
/// The group that a filter always has.
const ALWAYS: &str = "@default";

fn checkout() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    root.expect("the crate is inside the checkout").to_owned()
}

/// The words of a setting in the unit.
fn setting(name: &str) -> Vec<String> {
    let unit = checkout().join("packaging/systemd/plimsolld.service");
    let unit = std::fs::read_to_string(unit).expect("a unit");
    let lines = unit.lines().filter_map(|line| {
        let (key, value) = line.split_once('=')?;
        (key == name).then_some(value)
    });
    lines
        .flat_map(str::split_whitespace)
        .map(str::to_owned)
        .collect()
}

/// Adds the system calls of a group, which systemd knows.
fn expand(group: &str, names: &mut BTreeSet<String>) -> Option<()> {
    let told = Command::new("systemd-analyze")
        .args(["syscall-filter", group])
        .output()
        .ok()
        .filter(|told| told.status.success())?;
    for line in String::from_utf8_lossy(&told.stdout).lines().map(str::trim) {
        match line.chars().next() {
            None | Some('#') => {}
            Some('@') if line != group => expand(line, names)?,
            Some('@') => {}
            Some(_) => {
                names.insert(line.to_owned());
            }
        }
    }
    Some(())
}

/// The numbers of this machine's system calls, from the kernel's headers.
fn numbers() -> BTreeMap<String, u32> {
    let headers = [
        "/usr/include/asm/unistd_64.h",
        "/usr/include/x86_64-linux-gnu/asm/unistd_64.h",
    ];
    let text = headers
        .iter()
        .find_map(|path| std::fs::read_to_string(path).ok())
        .unwrap_or_default();
    let number = |line: &str| {
        let (name, number) = line.strip_prefix("#define __NR_")?.split_once(' ')?;
        Some((name.to_owned(), number.trim().parse().ok()?))
    };
    text.lines().filter_map(number).collect()
}

/// Numbers of the system calls that the unit's filter allows here; `None` when they cannot be
/// determined.
fn allowed() -> Option<String> {
    let mut names = BTreeSet::new();
    expand(ALWAYS, &mut names)?;
    for word in setting("SystemCallFilter") {
        if word.starts_with('@') {
            expand(&word, &mut names)?;
        } else {
            names.insert(word);
        }
    }
    let numbers = numbers();
    let known: Vec<String> = names
        .iter()
        .filter_map(|name| Some(numbers.get(name)?.to_string()))
        .collect();
    (!numbers.is_empty()).then(|| known.join(","))
}

/// No test by itself: with [`ALLOWED`] set, this binary confines itself and then executes the
/// command after `--`.
#[test]
fn filtered() {
    let Ok(allowed) = std::env::var(ALLOWED) else {
        return;
    };
    let calls: Vec<u32> = allowed
        .split(',')
        .map(|number| number.parse().expect("a number"))
        .collect();
    let line: Vec<String> = std::env::args().skip_while(|word| word != "--").collect();
    let mut command = Command::new(&line[1]);
    command.args(&line[2..]).env_remove(ALLOWED);
    allow_only(&mut command, &calls);
    panic!("it is not started: {}", command.exec());
}

/// The command that becomes another user with the unit's capabilities and filter.
fn confined(allowed: &str) -> Vec<String> {
    let own = std::env::current_exe().expect("our path");
    let capabilities: Vec<String> = setting("AmbientCapabilities")
        .iter()
        .map(|name| format!("+{}", name.trim_start_matches("CAP_").to_lowercase()))
        .collect();
    assert_eq!(
        setting("CapabilityBoundingSet"),
        setting("AmbientCapabilities")
    );
    let capabilities = format!("-all,{}", capabilities.join(","));
    vec![
        "setpriv".into(),
        format!("--reuid={BROKER}"),
        format!("--regid={BROKER}"),
        "--clear-groups".into(),
        format!("--inh-caps={capabilities}"),
        format!("--ambient-caps={capabilities}"),
        format!("--bounding-set={capabilities}"),
        "--".into(),
        "env".into(),
        format!("{ALLOWED}={allowed}"),
        own.display().to_string(),
        "--exact".into(),
        "unit::filtered".into(),
        "--nocapture".into(),
        "--".into(),
    ]
}

/// Starts a program of the owner that holds the memory named in `line`.
fn hog(line: &str, group: &TestCgroup) -> Child {
    let own = std::env::current_exe()
        .expect("our path")
        .display()
        .to_string();
    let user = format!("--reuid={OWNER}");
    let program = format!("PLIMSOLL_TEST_PROGRAM={line}");
    let arguments = [
        user.as_str(),
        "--clear-groups",
        "--",
        "env",
        program.as_str(),
        own.as_str(),
        "--exact",
        "ladder::program",
        "--nocapture",
    ];
    let mut child =
        Child::start(Path::new("/usr/bin/setpriv"), &arguments, Some(group)).expect("it starts");
    child
        .until(PATIENCE, |progress| progress.holding)
        .expect("it gets its memory");
    child
}

/// The requirements of this test, or the reason to skip it.
fn ground() -> Result<(String, TestCgroup, Swap), &'static str> {
    if !rustix::process::geteuid().is_root() {
        return Err("only root can become other users for this test");
    }
    let own = std::env::current_exe().expect("our path");
    if !as_user(OWNER, || std::fs::File::open(own).is_ok()) {
        return Err("other users cannot read this checkout");
    }
    let allowed = allowed().ok_or("systemd-analyze and the kernel's headers are needed")?;
    let group = TestCgroup::new("broker-unit", Some(Bytes::mib(320)));
    let group = group.map_err(|_| "no cgroup of our own here")?;
    let swap = swap().ok_or("no swap of our own here")?;
    Ok((allowed, group, swap))
}

#[test]
fn a_user_of_its_own_with_the_units_rights_pages_out_what_anothers_program_owes() {
    let (allowed, group, _swap) = match ground() {
        Ok(ground) => ground,
        Err(why) => return skip(why),
    };
    let own = tempfile::tempdir().expect("a directory");
    std::fs::set_permissions(own.path(), PermissionsExt::from_mode(0o755)).expect("it can");
    std::os::unix::fs::chown(own.path(), Some(BROKER), Some(BROKER)).expect("we are root");
    let domain = group.cgroup().dir().display().to_string();
    let arguments = vec!["--system".into(), "--domain".into(), domain];
    let mut broker = Broker::start_by(&own.path().join("run"), arguments, confined(&allowed));
    let status = std::fs::read_to_string(format!("/proc/{}/status", broker.pid()));
    let status = status.expect("it runs");
    for confined in [format!("Uid:\t{BROKER}\t"), "Seccomp:\t2\n".into()] {
        assert!(status.contains(&confined), "{status}");
    }
    let victim = hog("hog --bytes 180M", &group);
    let socket = broker.socket();
    let (mut client, id) = as_user(OWNER, || {
        let mut client = Client::connect(&socket);
        let registered = client
            .call("Register", json!({"name": "victim", "pid": victim.pid()}))
            .expect("its owner may");
        (client, registered["id"].as_u64().expect("a number"))
    });
    until("what it holds is seen", || {
        client.find(id).expect("listed")["uses"].as_u64() >= Some(180 * MIB)
    });
    until("its working set is measured", || {
        !client.find(id).expect("listed")["working_set"].is_null()
    });
    // Another program takes the remaining memory and more.
    let _hog = begin("hog --bytes 160M --rate 10M", &group);
    until("it is paged out", || {
        let shown = client.find(id).expect("listed");
        shown["swapped"].as_u64().unwrap_or(0) >= 8 * MIB
    });
    broker
        .connect()
        .call("Reload", json!({}))
        .expect("root may");
    let log = broker.log();
    for lack in ["could not be taken", "memory is not locked"] {
        assert!(!log.contains(lack), "{log}");
    }
    assert!(broker.leave());
}
