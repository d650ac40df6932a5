//! Containers in which our own memory cgroup is found below a mount that begins above it, or is not visible
//! at all.

mod common;

use common::{Place, stderr};
use plimsoll_kernel::cgroup::Version;
use plimsoll_testbed::children::enter;
use plimsoll_testbed::{TestCgroup, skip};
use plimsoll_unit::Bytes;
use std::process::{Command, Output};

const LIMIT: u64 = 400 << 20;

/// Runs our program in a group of [`LIMIT`], in a cgroup namespace and a mount namespace of its own, after
/// `before`. In that, `$GROUPS` is where the memory controller is mounted. If that cannot be tried, says so
/// and returns `None`.
fn inside(place: &Place, before: &str, words: &[&str]) -> Option<(TestCgroup, Output)> {
    let group = match TestCgroup::new("unseen", Some(Bytes(LIMIT))) {
        Ok(group) => group,
        Err(error) => {
            skip(format_args!("no cgroup of our own here: {error}"));
            return None;
        }
    };
    let tried = Command::new("unshare")
        .args(["--mount", "--cgroup", "true"])
        .status();
    if !tried.is_ok_and(|status| status.success()) {
        skip("no namespaces can be made here");
        return None;
    }
    let mount = match group.cgroup().version() {
        Version::V1 => "/sys/fs/cgroup/memory",
        Version::V2 => "/sys/fs/cgroup",
    };
    let script = format!("GROUPS_AT={mount}\n{before}\nexec \"$@\"");
    let own = env!("CARGO_BIN_EXE_plimsoll");
    let args = ["--mount", "--cgroup", "sh", "-ec", &script, "sh", own];
    let mut command = place.program("unshare", &[&args[..], words].concat());
    enter(&mut command, group.cgroup()).unwrap();
    let output = command.output().unwrap();
    assert!(output.status.success(), "{before}: {}", stderr(&output));
    Some((group, output))
}

/// The findings of `doctor` there: capacity, domain, and whether it does not see its own group.
fn found(before: &str) -> Option<(u64, String, bool)> {
    let (_group, output) = inside(&Place::new(), before, &["doctor", "--json"])?;
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    Some((
        value["capacity"].as_u64().unwrap(),
        value["domain"].as_str().unwrap().to_owned(),
        value["unseen"].as_bool().unwrap(),
    ))
}

#[test]
fn a_limit_is_found_below_a_mount_that_begins_above_our_namespace() {
    let Some((capacity, domain, unseen)) = found("") else {
        return;
    };
    assert!(capacity == LIMIT && !unseen, "{capacity} {domain}");
    assert!(domain.contains("unseen"), "{domain}");
}

#[test]
fn of_mounts_over_one_another_the_one_on_top_counts() {
    let again = "mount -t tmpfs tmpfs /sys/fs/cgroup; mkdir -p $GROUPS_AT\n\
                 case $GROUPS_AT in */memory) mount -t cgroup -o memory cgroup $GROUPS_AT;;\n\
                 *) mount -t cgroup2 cgroup2 $GROUPS_AT;; esac";
    let Some((capacity, domain, unseen)) = found(again) else {
        return;
    };
    assert!(capacity == LIMIT && !unseen, "{capacity} {domain}");
}

#[test]
fn a_group_that_is_hidden_or_not_mounted_is_not_taken_for_none() {
    for before in [
        "mount -t tmpfs tmpfs /sys/fs/cgroup",
        "mount -t tmpfs tmpfs $GROUPS_AT",
        "umount -l $GROUPS_AT",
        // Another part of the tree alone.
        "mkdir $GROUPS_AT/unseen-$$; mount --bind $GROUPS_AT/unseen-$$ $GROUPS_AT; \
         trap 'umount $GROUPS_AT; rmdir $GROUPS_AT/unseen-$$' EXIT; \"$@\"; exit",
    ] {
        let Some((capacity, domain, unseen)) = found(before) else {
            return;
        };
        assert!(
            capacity > LIMIT && unseen && domain == "machine",
            "{before}: {domain}"
        );
    }
}

#[test]
fn a_broker_that_does_not_see_its_group_serves_and_says_so() {
    let place = Place::new();
    let own = env!("CARGO_BIN_EXE_plimsoll");
    let words = ["run", "-v", "-n", "inner", "--", own, "ps"];
    let Some((_group, output)) = inside(&place, "umount -l $GROUPS_AT", &words) else {
        return;
    };
    let table = String::from_utf8_lossy(&output.stdout);
    assert!(
        table.contains("inner") && table.contains("not visible"),
        "{table}"
    );
}
