//! Machines of another user, and in another mount and pid namespace.

use crate::machine::{Sums, library};
use crate::steered::steered;
use crate::support::{eventually, jdks};
use plimsoll_kernel::clock::ahead_ns;
use plimsoll_kernel::stalls::Tier;
use plimsoll_runtimes::Ended;
use plimsoll_runtimes::hotspot::agent::{AgentError, Page, PageError};
use plimsoll_testbed::skip;
use plimsoll_unit::{Bytes, MIB};
use plimsoll_wire::collections::{Signal, Wish};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::Ordering;

/// Starts a machine by the way of `before`; `None` with a message where that cannot be.
fn started(before: &[&str], tried: &[&str]) -> Option<Sums> {
    let (_, home) = jdks().pop()?;
    let java = home.join("bin/java");
    let reach = Command::new(tried[0])
        .args(&tried[1..])
        .args(["test", "-x"])
        .arg(java)
        .output();
    match reach {
        Ok(reach) if reach.status.success() => {}
        _ => {
            skip(format_args!("{tried:?} cannot start a program here"));
            return None;
        }
    }
    let flags = ["-XX:+UseSerialGC", "-Xmx80m"];
    Some(Sums::start(&home, before, &flags, ["5", "1"]))
}

/// The agent works, and no copy of its library is left.
fn works(sums: Sums) {
    let before = copies(&sums);
    let page = sums.load().unwrap();
    sums.wishes(&page, Some(Wish::stay(Bytes::ZERO)));
    let told = sums.collects(&page, 3);
    assert!(told.given_back > MIB, "{told:?}");
    // Those of other tests that load it right now go, too.
    eventually("no copy is left", || copies(&sums).is_subset(&before));
    sums.quit();
}

/// The copies of the library where the machine would find one.
fn copies(sums: &Sums) -> BTreeSet<PathBuf> {
    let is_ours = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let tag = name.strip_prefix(".plimsoll-");
        tag.is_some_and(|tag| tag.len() == 16)
    };
    let directories = ["tmp", "var/tmp", "dev/shm"];
    let paths = directories.map(|directory| sums.process.path("root").join(directory));
    let found = paths
        .into_iter()
        .filter_map(|path| std::fs::read_dir(path).ok());
    let found = found.flatten().flatten().map(|entry| entry.path());
    found.filter(is_ours).collect()
}

const NOBODY: [&str; 4] = [
    "setpriv",
    "--reuid=65534",
    "--regid=65534",
    "--clear-groups",
];

#[test]
fn another_users_machine_is_reached_by_root() {
    if let Some(sums) = started(&NOBODY, &NOBODY) {
        assert_eq!(sums.process.status().unwrap().euid, 65534);
        works(sums);
    }
}

#[test]
fn a_machine_without_rights_takes_the_next_signal_and_says_so() {
    let Some(sums) = started(&NOBODY, &NOBODY) else {
        return;
    };
    let page = sums.load().unwrap();
    let about = page.view().unwrap().about();
    let without_rights = [Signal::Pressure, Signal::MajorFaults];
    let text = &about.signal_text;
    assert!(without_rights.contains(&about.signal), "{text}");
    let tier = Tier::from_number(about.signal as u8).unwrap();
    assert!(text.starts_with(tier.name()), "{text}");
    // The page has room for the first reasons only.
    let best = Tier::DelayAccounting.name();
    assert!(text.contains(&format!("; no {best}: ")), "{text}");
    let told = sums.collects(&page, 3);
    assert_eq!(told.missed, 0);
    sums.quit();
}

/// Runs a script in new namespaces, then the program.
fn namespaces(script: &str) -> Vec<String> {
    let unshare = [
        "unshare",
        "--pid",
        "--fork",
        "--mount",
        "--kill-child",
        "sh",
        "-c",
    ];
    let script = format!("{script} && exec \"$0\" \"$@\"");
    unshare
        .into_iter()
        .map(str::to_owned)
        .chain([script])
        .collect()
}

#[test]
fn a_machine_in_other_namespaces_is_reached() {
    // Its /tmp is new; this checkout keeps its path, even if that is below /tmp.
    let tree = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let script = format!(
        "mount --bind {tree} /mnt && mount -t tmpfs tmp /tmp && mkdir -p {tree} && mount --move /mnt {tree}"
    );
    let before = namespaces(&script);
    let before: Vec<&str> = before.iter().map(String::as_str).collect();
    if let Some(sums) = started(&before, &["unshare", "--mount"]) {
        assert_ne!(sums.process.status().unwrap().inner_pid, sums.process.pid);
        works(sums);
    }
}

#[test]
fn a_machine_in_a_user_namespace_is_reached_by_root() {
    let spaces = [
        "unshare",
        "--user",
        "--map-root-user",
        "--mount",
        "--fork",
        "--kill-child",
    ];
    let before = [&NOBODY[..], &spaces].concat();
    let shell = ["sh", "-c", "mount -t tmpfs none /tmp && exec \"$0\" \"$@\""];
    // Counters are looked for below the machine's own /tmp; a checkout may be below ours.
    let is_below = env!("CARGO_MANIFEST_DIR").starts_with("/tmp");
    let own = if is_below {
        before.clone()
    } else {
        [&before[..], &shell].concat()
    };
    if let Some(sums) = started(&own, &before) {
        let ours = std::fs::read_link("/proc/self/ns/user").unwrap();
        assert_ne!(
            std::fs::read_link(sums.process.path("ns/user")).unwrap(),
            ours
        );
        assert_eq!(sums.process.status().unwrap().euid, 65534);
        works(sums);
    }
}

#[test]
fn a_machine_with_a_clock_of_its_own_is_reached() {
    let before = [
        "unshare",
        "--time",
        "--monotonic",
        "100000",
        "--boottime",
        "100000",
        "--fork",
    ];
    let before = [&before[..], &["--kill-child"]].concat();
    if let Some(sums) = started(&before, &before) {
        assert!(ahead_ns(sums.process.pid) > 0);
        works(sums);
    }
}

#[test]
fn a_machine_that_may_execute_nothing_from_where_we_can_write_is_told() {
    // Counters and classes stay reachable: only what is new there is not executable.
    let script = "for d in /tmp /var/tmp /dev/shm; do \
                  mount --bind $d $d && mount -o remount,bind,noexec $d; done";
    let before = namespaces(script);
    let before: Vec<&str> = before.iter().map(String::as_str).collect();
    if let Some(sums) = started(&before, &["unshare", "--mount"]) {
        let refused = sums.load_from(&library());
        assert!(
            matches!(refused, Err(AgentError::NoExec { .. })),
            "{refused:?}"
        );
        sums.goes_on();
        sums.quit();
    }
}

#[test]
fn a_machine_whose_directories_are_full_gets_the_agent_when_there_is_room() {
    // Room for a socket, and none for a library.
    let script = "mount --bind /var/tmp /var/tmp && mount -o remount,bind,ro /var/tmp && \
                  mount -t tmpfs -o size=256k small /tmp && mount -t tmpfs -o size=256k small /dev/shm";
    let before = namespaces(script);
    let before: Vec<&str> = before.iter().map(String::as_str).collect();
    let Some(sums) = started(&before, &["unshare", "--mount"]) else {
        return;
    };
    let (script, steering) = steered(&sums);
    script.limit.store(600 * MIB, Ordering::Relaxed);
    let collections = || script.report.lock().unwrap().collections;
    eventually("it is steered from outside", || {
        collections().is_some_and(|n| n > 0)
    });
    let absent = Page::of(&sums.process);
    assert!(
        matches!(absent, Err(PageError::Absent { .. })),
        "{absent:?}"
    );
    let pid = sums.process.pid.to_string();
    let grown = Command::new("nsenter")
        .args([
            "-t",
            &pid,
            "-m",
            "mount",
            "-o",
            "remount,size=100m",
            "/dev/shm",
        ])
        .status();
    assert!(grown.is_ok_and(|status| status.success()));
    eventually("it has the agent", || Page::of(&sums.process).is_ok());
    sums.goes_on();
    eventually("no copy is left", || copies(&sums).is_empty());
    sums.quit();
    assert_eq!(steering.join().unwrap(), Ended::ProgramGone);
}
