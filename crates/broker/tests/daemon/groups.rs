//! Groups with a cgroup, automatic groups, and shared memory.

use crate::common::{Broker, Client, Program, until};
use crate::ladder::{begin, start};
use plimsoll_kernel::cgroup::{Cgroup, Version};
use plimsoll_testbed::{Child, TestCgroup, skip};
use plimsoll_unit::{Bytes, MIB};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

fn group(name: &str, limit: u64) -> Option<TestCgroup> {
    let made = TestCgroup::new(name, Some(Bytes(limit)));
    if made.is_err() {
        skip("no cgroup of our own here");
    }
    made.ok()
}

#[test]
fn a_group_is_bounded_by_its_cgroup_and_by_strangers_in_it() {
    let Some(cgroup) = group("broker-group", 256 * MIB) else {
        return;
    };
    let broker = Broker::start();
    let mut control = broker.connect();
    let directory = cgroup.cgroup().dir().display().to_string();
    let registered = control
        .call(
            "Register",
            json!({"name": "g", "kind": "group", "cgroup": directory}),
        )
        .expect("a group");
    let id = registered["id"].as_u64().expect("a number");
    let member = start("hog --bytes 16M", &cgroup);
    let mut life = broker.connect();
    let inside = json!({"name": "member", "pid": member.pid(), "parent": id, "adapter": "self"});
    let inside = life.call("Register", inside).expect("it is registered")["id"]
        .as_u64()
        .expect("a number");
    life.call("Report", json!({"id": inside, "demand": 1u64 << 34}))
        .expect("it may");
    let mut share = |of: u64| {
        control.find(of).expect("listed")["share"]
            .as_u64()
            .expect("a number")
    };
    // At first its memory counts as an outsider's, and as growth.
    until("its share is most of the group's limit", || {
        (200 * MIB..=256 * MIB).contains(&share(inside))
    });
    let _stranger = start("hog --bytes 96M", &cgroup);
    until("the stranger's memory is the member's no more", || {
        share(inside) <= (256 - 90) * MIB
    });
    Program::register(&broker, "outside", json!({})).assert_unharmed();
}

fn name_of(group: &TestCgroup) -> String {
    let name = group.cgroup().dir().file_name().expect("a name");
    name.to_string_lossy().into_owned()
}

/// Registers a group with a cgroup; returns the connection that keeps it, and the reply.
fn register_group(broker: &Broker, cgroup: &TestCgroup) -> (Client, Value) {
    let mut control = broker.connect();
    let directory = cgroup.cgroup().dir().display().to_string();
    let budget = json!({"name": "budget", "kind": "group", "cgroup": directory});
    let id = control.call("Register", budget).expect("a group")["id"].clone();
    (control, id)
}

/// A program that started in the cgroup made for it by the broker.
struct Inside {
    /// Connection on which it lives.
    _life: Client,
    program: Child,
    home: Cgroup,
}

impl Inside {
    fn start(broker: &Broker, group: &Value, elsewhere: &TestCgroup) -> Inside {
        let mut life = broker.connect();
        let inside = life
            .call("Register", json!({"name": "inside", "parent": group}))
            .expect("it is registered");
        let home = inside["cgroup"].as_str().expect("a cgroup to start in");
        let program = begin("hog --bytes 16M", elsewhere);
        let cgroup = Cgroup::at(Path::new(home)).expect("it is there");
        cgroup.add(program.pid()).expect("it may enter");
        life.call("Attach", json!({"id": inside["id"], "pid": program.pid()}))
            .expect("it is its process");
        until("it is written", || {
            let state = std::fs::read_to_string(broker.directory().join("state.json"));
            let holds =
                |state: String| state.contains(home) && state.contains(&program.pid().to_string());
            state.is_ok_and(holds)
        });
        Inside {
            _life: life,
            program,
            home: cgroup,
        }
    }

    fn is_at_home(&self) -> bool {
        let location = plimsoll_kernel::cgroup::locate(self.program.pid()).expect("it runs");
        location.is_some_and(|location| location.dir == self.home.dir())
    }
}

/// Registers a process; returns its connection and the cgroup that it was given.
fn cgroup_for(broker: &Broker, pid: i32, group: &Value) -> (Client, Option<PathBuf>) {
    let mut life = broker.connect();
    let again = life
        .call(
            "Register",
            json!({"name": "again", "pid": pid, "parent": group}),
        )
        .expect("it is back");
    (life, again["cgroup"].as_str().map(PathBuf::from))
}

#[test]
fn a_limit_that_a_killed_broker_left_is_lifted_and_its_cgroup_used_again() {
    let (Some(cgroup), Some(elsewhere)) = (
        group("broker-left", 256 * MIB),
        group("broker-start", 256 * MIB),
    ) else {
        return;
    };
    let mut broker = Broker::start();
    let (_control, id) = register_group(&broker, &cgroup);
    let inside = Inside::start(&broker, &id, &elsewhere);
    let home = inside.home.dir();
    assert!(home.starts_with(cgroup.cgroup().dir()), "{home:?}");
    let stranger = begin("hog --bytes 4M", &elsewhere);
    inside.home.add(stranger.pid()).expect("it may enter");
    inside
        .home
        .set_limit(Some(Bytes::mib(64)))
        .expect("it can be limited");
    broker.crash_and_restart();
    until("it is lifted, before anybody is back", || {
        inside.home.limit().expect("readable").is_none()
    });
    let (_control, id) = register_group(&broker, &cgroup);
    // The cgroup stays that of one principal, whichever other process runs in it and rejoins first.
    let (_life, given) = cgroup_for(&broker, stranger.pid(), &id);
    assert_eq!(given, None);
    let (_life, given) = cgroup_for(&broker, inside.program.pid(), &id);
    assert_eq!(given.as_deref(), Some(home));
}

#[test]
fn a_broker_that_leaves_moves_no_program_and_the_next_one_finds_it() {
    let (Some(cgroup), Some(elsewhere)) = (
        group("broker-leaves", 256 * MIB),
        group("broker-begin", 256 * MIB),
    ) else {
        return;
    };
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let mut broker = Broker::start_in(place.path(), Vec::new());
    let (_control, id) = register_group(&broker, &cgroup);
    let inside = Inside::start(&broker, &id, &elsewhere);
    inside
        .home
        .set_limit(Some(Bytes::mib(64)))
        .expect("it can be limited");
    assert!(broker.leave());
    assert!(inside.is_at_home());
    assert_eq!(inside.home.limit().expect("readable"), None);
    let broker = Broker::start_in(place.path(), Vec::new());
    let (_control, id) = register_group(&broker, &cgroup);
    let (_life, given) = cgroup_for(&broker, inside.program.pid(), &id);
    assert_eq!(given.as_deref(), Some(inside.home.dir()));
    assert!(inside.is_at_home());
}

/// No limit binds it in either, and it is in a group that somebody named: nothing else tells the broker.
#[test]
fn a_cgroup_that_its_process_has_left_is_let_go() {
    let (Some(cgroup), Some(elsewhere)) = (
        group("broker-home", 256 * MIB),
        group("broker-away", 1 << 40),
    ) else {
        return;
    };
    let broker = Broker::start();
    let (_control, id) = register_group(&broker, &cgroup);
    let inside = Inside::start(&broker, &id, &elsewhere);
    elsewhere
        .cgroup()
        .add(inside.program.pid())
        .expect("it may leave");
    until("its cgroup is removed", || !inside.home.dir().exists());
    until("it is noted no more", || {
        let state = std::fs::read_to_string(broker.directory().join("state.json"));
        let name = inside.home.dir().display().to_string();
        state.is_ok_and(|state| !state.contains(&name))
    });
}

#[test]
fn a_process_in_a_tighter_cgroup_gets_a_group_by_itself() {
    let Some(cgroup) = group("broker-auto", 96 * MIB) else {
        return;
    };
    // The bound counts registered principals only, not the automatic group.
    let broker = Broker::with_config("max_principals = 2\n");
    let mut control = broker.connect();
    let mut members: Vec<_> = (0..2).map(|_| begin("hog --bytes 8M", &cgroup)).collect();
    let lives: Vec<_> = members
        .iter()
        .map(|member| {
            let mut life = broker.connect();
            let words = json!({"name": "m", "pid": member.pid(), "weight": 60, "adapter": "self"});
            let id = life.call("Register", words).expect("it is registered")["id"].clone();
            life.call("Report", json!({"id": id, "demand": 1u64 << 34}))
                .expect("it may");
            life
        })
        .collect();
    let name = name_of(&cgroup);
    let mut group_shown = || -> Option<Value> {
        let listing = control.list();
        listing["principals"]
            .as_array()?
            .iter()
            .find(|shown| shown["name"] == json!(name))
            .cloned()
    };
    let shown = group_shown().expect("the group is there");
    assert_eq!(shown["children"].as_array().map(Vec::len), Some(2));
    assert_eq!(shown["weight"], json!(120));
    // They want more than there is, so they share out what the reserve leaves.
    for (limit, least) in [(96, 48), (64, 32), (128, 72)] {
        let bytes = Some(limit * MIB);
        cgroup
            .cgroup()
            .set_limit(bytes.map(Bytes))
            .expect("it can be limited");
        until(&format!("the limit of {limit} MiB binds"), || {
            let shown = group_shown().expect("the group is there");
            let children = shown["children"].as_array().expect("children");
            let limits = children
                .iter()
                .map(|child| child["limit"].as_u64().unwrap_or(u64::MAX));
            let sum = limits.fold(0u64, u64::saturating_add);
            (least * MIB..=limit * MIB).contains(&sum)
        });
    }
    drop(lives);
    members.clear();
    until("the group goes with its last member", || {
        group_shown().is_none()
    });
}

/// The name of the group that a principal is in; `None` if it is at the top.
fn group_of(control: &mut Client, id: &Value) -> Option<String> {
    let listing = control.list();
    let top = listing["principals"].as_array().expect("principals");
    let holds = |group: &&Value| {
        let mut children = group["children"].as_array().expect("children").iter();
        children.any(|child| child["id"] == *id)
    };
    let Some(group) = top.iter().find(holds) else {
        assert!(top.iter().any(|shown| shown["id"] == *id), "{listing}");
        return None;
    };
    Some(group["name"].as_str().expect("a name").to_owned())
}

#[test]
fn who_is_moved_to_another_cgroup_is_bounded_by_that_one() {
    let (Some(first), Some(second)) = (
        group("broker-first", 96 * MIB),
        group("broker-second", 128 * MIB),
    ) else {
        return;
    };
    let broker = Broker::start();
    let mut control = broker.connect();
    let member = begin("hog --bytes 8M", &first);
    let mut life = broker.connect();
    let words = json!({"name": "m", "pid": member.pid()});
    let id = life.call("Register", words).expect("it is registered")["id"].clone();
    assert_eq!(group_of(&mut control, &id), Some(name_of(&first)));
    second.cgroup().add(member.pid()).expect("it may enter");
    until("it is in the group of the second", || {
        group_of(&mut control, &id) == Some(name_of(&second))
    });
    until("the group of the first one is gone", || {
        control.list()["principals"].as_array().map(Vec::len) == Some(1)
    });
    second.cgroup().set_limit(None).expect("it can be lifted");
    until("nothing bounds it", || {
        group_of(&mut control, &id).is_none()
    });
    let bytes = Some(128 * MIB);
    second
        .cgroup()
        .set_limit(bytes.map(Bytes))
        .expect("it can be limited");
    until("the second one bounds it again", || {
        group_of(&mut control, &id) == Some(name_of(&second))
    });
}

#[test]
fn memory_that_two_principals_map_is_charged_once() {
    let broker = Broker::start();
    let mut control = broker.connect();
    let Some(cgroup) = group("broker-share", 1 << 40) else {
        return;
    };
    let shared = tempfile::NamedTempFile::new_in("/dev/shm").expect("shared memory");
    let path = shared.path().display();
    let line = format!("share --path {path} --bytes 64M --rate 2");
    let programs = [begin(&line, &cgroup), begin(&line, &cgroup)];
    let mut lives = Vec::new();
    for program in &programs {
        let mut life = broker.connect();
        let id = life
            .call("Register", json!({"name": "s", "pid": program.pid()}))
            .expect("it is registered")["id"]
            .as_u64();
        lives.push((id.expect("a number"), life));
    }
    let mut uses = || -> Vec<u64> {
        lives
            .iter()
            .map(|(id, _)| {
                control.find(*id).expect("listed")["uses"]
                    .as_u64()
                    .expect("a number")
            })
            .collect()
    };
    until("each maps all of it", || {
        uses().iter().all(|&uses| uses >= 60 * MIB)
    });
    until("it is charged once", || {
        let uses = uses();
        uses.iter().sum::<u64>() <= 96 * MIB && uses.iter().all(|&uses| uses >= 16 * MIB)
    });
}

#[test]
fn a_cgroup_that_its_user_made_is_lifted_and_never_removed() {
    let Some(cgroup) = group("broker-contain", 256 * MIB) else {
        return;
    };
    let mut broker = Broker::start();
    let program = begin("hog --bytes 16M", &cgroup);
    let path = cgroup.cgroup().dir().display().to_string();
    let register = |broker: &Broker| {
        let mut life = broker.connect();
        let words = json!({"name": "m", "pid": program.pid()});
        let id = life.call("Register", words).expect("it is registered")["id"].clone();
        (life, id)
    };
    let (mut life, id) = register(&broker);
    let contain = |life: &mut Client, id: &Value, cgroup: &str| {
        life.call("Contain", json!({"id": id, "cgroup": cgroup}))
    };
    let elsewhere = contain(&mut life, &id, "/nowhere").expect_err("there is none");
    assert_eq!(elsewhere.error, "io.plimsoll.BadCgroup");
    if cgroup.cgroup().version() == Version::V1 {
        let refused = contain(&mut life, &id, &path).expect_err("the broker makes them itself");
        assert_eq!(refused.error, "io.plimsoll.BadCgroup");
        return;
    }
    let lifted = || cgroup.cgroup().high().expect("readable").is_none();
    let bound = || {
        cgroup
            .cgroup()
            .set_high(Some(Bytes::mib(64)))
            .expect("as root")
    };
    contain(&mut life, &id, &path).expect("it is its own");
    until("it is written", || {
        let state = std::fs::read_to_string(broker.directory().join("state.json"));
        state.is_ok_and(|state| state.contains(&path))
    });
    bound();
    broker.crash_and_restart();
    until("it is lifted, before anybody is back", lifted);
    let (mut life, id) = register(&broker);
    contain(&mut life, &id, &path).expect("it is its own");
    bound();
    let elsewhere = group("broker-left-it", 1 << 40).expect("another one");
    elsewhere.cgroup().add(program.pid()).expect("it may leave");
    until("it is lifted when its process has left it", lifted);
    cgroup
        .cgroup()
        .add(program.pid())
        .expect("it may come back");
    contain(&mut life, &id, &path).expect("it is its own again");
    bound();
    drop(life);
    until("it is lifted when its principal has left", lifted);
    let found = plimsoll_kernel::cgroup::locate(program.pid()).expect("it runs");
    assert_eq!(found.expect("a cgroup").dir, cgroup.cgroup().dir());
    // The top of the tree holds other processes: a cgroup with one more is not this program's alone.
    let (mut life, id) = register(&broker);
    let top = cgroup
        .cgroup()
        .dir()
        .parent()
        .expect("one above")
        .display()
        .to_string();
    let refused = contain(&mut life, &id, &top).expect_err("its process is not in it");
    assert_eq!(refused.error, "io.plimsoll.BadCgroup");
}

#[test]
fn a_cgroup_that_takes_the_place_of_another_leaves_nothing_behind() {
    let (Some(one), Some(other)) = (group("broker-one", 1 << 40), group("broker-other", 1 << 40))
    else {
        return;
    };
    // Under version 1 the broker makes the cgroups itself.
    if one.cgroup().version() == Version::V1 {
        return;
    }
    let broker = Broker::start();
    let program = begin("hog --bytes 4M", &one);
    let mut life = broker.connect();
    let words = json!({"name": "m", "pid": program.pid()});
    let id = life.call("Register", words).expect("it is registered")["id"].clone();
    let open = || {
        let open = std::fs::read_dir(format!("/proc/{}/fd", broker.pid()));
        open.expect("it runs").count()
    };
    let mut most = 0;
    for round in 0..400 {
        let (here, before) = if round % 2 == 0 {
            (&one, &other)
        } else {
            (&other, &one)
        };
        before
            .cgroup()
            .set_high(Some(Bytes::mib(512)))
            .expect("as root");
        here.cgroup().add(program.pid()).expect("it may enter");
        let directory = here.cgroup().dir().display().to_string();
        life.call("Contain", json!({"id": id, "cgroup": directory}))
            .expect("it is its own");
        if round == 0 {
            // Other threads open files for a moment. One that is left in each round would be far more.
            most = open() + 16;
        } else {
            assert_eq!(before.cgroup().high().expect("readable"), None, "{round}");
            assert!(open() <= most, "{} of {most} in round {round}", open());
        }
    }
}
