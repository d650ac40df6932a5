//! The balance of reclaim on real programs: what it does for a hot file beside cold anonymous memory,
//! what it does not do to hot anonymous memory beside a file that is streamed through, and what it
//! puts back.

use crate::common::{PATIENCE, until, within};
use crate::ground::{Ground, OFF};
use plimsoll_kernel::cgroup::Version;
use serde_json::json;
use std::time::{Duration, Instant};

const ON: &str = "revoke = false\n[balance]\nshift = true\n";

#[test]
fn a_hot_file_is_spared_and_what_was_changed_is_put_back() {
    // As on many servers, hardly anything is to be swapped: the file thrashes although nobody misses most of
    // the anonymous memory.
    let line = "mix --path FILE --bytes 120M --part 0.99999 --delay 1";
    let Some(mut ground) = Ground::inheriting(Some(5), "balance-hot-file", 60, line) else {
        return;
    };
    if ground.cgroup().version() == Version::V2 {
        return;
    }
    ground.measured();
    let usual = ground.swappiness();
    assert_eq!(usual, 5);
    let before = ground.refaults();
    assert_eq!(ground.swappiness(), usual, "nothing moves while it is off");
    ground.configure(ON);
    // A step of a walk lasts 4 s, so what lasts longer is kept. On a busy machine a walk that loses more by
    // chance is given up, and the next ones come after 5, 10, 20, 40 and 80 s.
    let mut last = (usual, Instant::now());
    within(
        PATIENCE * 2,
        "more is reclaimed from anonymous memory",
        || {
            let value = ground.swappiness();
            if value != last.0 {
                last = (value, Instant::now());
                println!("at {value}: {}", ground.shown());
            }
            value >= 180 || value > usual && last.1.elapsed() > Duration::from_secs(6)
        },
    );
    let after = ground.refaults();
    // On a quiet machine there are many thousand times as many before.
    assert!(after < before / 2.0, "{before} before, {after} after");
    let shown = ground.shown();
    assert!(
        shown["file_ns"].as_u64().is_some_and(|cost| cost > 0),
        "{shown}"
    );

    // A crash, after which nobody may change anything.
    std::fs::write(&ground.config, OFF).expect("a configuration");
    assert_ne!(ground.swappiness(), usual);
    ground.broker.crash_and_restart();
    // Its socket listens a moment earlier.
    until("it is put back by the next broker", || {
        ground.swappiness() == usual
    });
    ground.client = ground.broker.connect();
    let again = json!({"name": "again", "pid": ground.program.pid()});
    let registered = ground
        .client
        .call("Register", again)
        .expect("it comes back");
    ground.id = registered["id"].as_u64().expect("a number");
    ground.configure(ON);
    until("it is shifted again", || ground.swappiness() != usual);
    ground.configure(OFF);
    until("it is put back when that is off", || {
        ground.swappiness() == usual
    });
    ground.configure(ON);
    until("it is shifted again", || ground.swappiness() != usual);
    assert!(ground.broker.leave());
    assert_eq!(ground.swappiness(), usual, "put back at the end");
}

#[test]
fn hot_anonymous_memory_is_no_worse_off_beside_a_file_that_is_streamed() {
    let line = "mix --path FILE --bytes 96M --stream --delay 1";
    let Some(mut ground) = Ground::new("balance-stream", 200, line) else {
        return;
    };
    // The file is larger than the group, so it is read again without end.
    ground.measured();
    if ground.cgroup().version() == Version::V2 {
        assert_eq!(ground.shown()["swappiness"], json!(null));
        return;
    }
    let before = ground.refaults();
    ground.configure(ON);
    // Long enough for a walk in each direction.
    ground.wait(30);
    let after = ground.refaults();
    assert!(
        after <= before * 1.3 + 1.0,
        "{before} before, {after} after"
    );

    // A swappiness set by hand stays, also at the end.
    assert_ne!(ground.swappiness(), 77);
    ground.cgroup().set_swappiness(77).expect("as root");
    ground.wait(3);
    assert_eq!(ground.swappiness(), 77);
    assert!(ground.broker.leave());
    assert_eq!(ground.swappiness(), 77);
}
