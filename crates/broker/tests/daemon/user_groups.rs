//! The groups of users: who may set what, how deep they are, how many there may be.

use crate::common::{Client, until};
use crate::users::{Domain, FIRST, Ground, HONEST, SECOND, number};
use serde_json::json;

#[test]
fn a_user_sets_what_is_its_own_and_rules_say_how_users_stand() {
    let config = format!("[[rule]]\nuser = \"{HONEST}\"\nuser_weight = 300\nuser_priority = 2\n");
    let Some(ground) = Ground::new(None, Domain::Machine, &config) else {
        return;
    };
    let sleeper = ground.start(HONEST, "hog --bytes 4K");
    let (mut honest, own) = ground.register(HONEST, json!({"name": "own", "pid": sleeper.pid()}));
    let (mut hostile, other) = ground.register(FIRST, json!({"name": "other"}));
    let group_of = |client: &mut Client, uid: u32| {
        let name = json!(format!("user {uid}"));
        let listing = client.list();
        let groups = listing["principals"]
            .as_array()
            .expect("principals")
            .clone();
        groups
            .into_iter()
            .find(|group| group["name"] == name)
            .expect("it has a group")
    };
    let group = group_of(&mut honest, HONEST);
    assert_eq!(
        (&group["weight"], &group["priority"]),
        (&json!(300), &json!(2))
    );
    assert_eq!(group["children"][0]["id"], json!(own));
    let (id, foreign) = (
        number(&group, "id"),
        number(&group_of(&mut hostile, FIRST), "id"),
    );
    // Neither its own group nor anything of another's is for a user to set, nor a place to be in.
    for set in [
        json!({"id": id, "weight": 10_000}),
        json!({"id": own, "weight": 1}),
        json!({"id": other, "parent": own}),
        json!({"id": other, "parent": id}),
    ] {
        hostile.refuses("Set", set, "NotPermitted", "only");
    }
    honest.refuses(
        "Set",
        json!({"id": id, "weight": 10_000}),
        "NotPermitted",
        "only",
    );
    for parent in [own, id] {
        let mut client = ground.client(FIRST);
        client.refuses(
            "Register",
            json!({"name": "in", "parent": parent}),
            "NotPermitted",
            "only",
        );
    }
    // Within its own group it may.
    hostile
        .call(
            "Set",
            json!({"id": other, "priority": 100, "weight": 10_000}),
        )
        .expect("it is its own");
    // Root may, but for the place of a user's group.
    let mut root = ground.broker.connect();
    root.call("Set", json!({"id": foreign, "weight": 40}))
        .expect("root may");
    assert_eq!(group_of(&mut root, FIRST)["weight"], json!(40));
    root.refuses(
        "Set",
        json!({"id": foreign, "parent": id}),
        "NotPermitted",
        "stays at the top",
    );
    // What runs as a user is that user's, whoever registers it.
    let adopted = ground.start(FIRST, "hog --bytes 4K");
    let mut life = ground.broker.connect();
    let adopted = life
        .call("Register", json!({"name": "adopted", "pid": adopted.pid()}))
        .expect("root may")["id"]
        .clone();
    let children = group_of(&mut root, FIRST)["children"].clone();
    let ids = children
        .as_array()
        .expect("children")
        .iter()
        .map(|child| child["id"].clone());
    assert!(ids.collect::<Vec<_>>().contains(&adopted), "{children}");
    // Rules that are read anew come before all that.
    std::fs::write(ground.own.path().join("plimsoll.toml"), "").expect("it can");
    root.call("Reload", json!({})).expect("root may");
    for uid in [HONEST, FIRST] {
        let group = group_of(&mut root, uid);
        assert_eq!(
            (&group["weight"], &group["priority"]),
            (&json!(100), &json!(0))
        );
    }
}

#[test]
fn a_users_programs_may_be_as_deep_as_ever_and_come_back_after_a_crash() {
    let Some(mut ground) = Ground::new(None, Domain::Machine, "") else {
        return;
    };
    let sleeper = ground.start(HONEST, "hog --bytes 4K");
    let pid = sleeper.pid();
    let (mut top, id) = ground.register(HONEST, json!({"name": "top", "pid": pid}));
    top.call("Set", json!({"id": id, "weight": 40}))
        .expect("it may");
    let mut lives = Vec::new();
    let mut parent = id;
    for depth in 2..=8 {
        let (life, below) = ground.register(
            HONEST,
            json!({"name": format!("d{depth}"), "parent": parent}),
        );
        lives.push(life);
        parent = below;
    }
    let mut client = ground.client(HONEST);
    client.refuses(
        "Register",
        json!({"name": "deep", "parent": parent}),
        "TooDeep",
        "at most 8",
    );
    let path = ground.broker.directory().join("state.json");
    let state = || std::fs::read_to_string(&path).unwrap_or_default();
    until("it is written", || {
        state().contains("\"d8\"") && state().contains("\"weight\":40")
    });
    assert!(!state().contains("user 2"), "groups of users are made anew");
    ground.broker.crash_and_restart();
    let (mut again, new) = ground.register(HONEST, json!({"name": "top", "pid": pid}));
    assert!(new > parent, "numbers are not reused");
    let shown = again.find(new).expect("listed");
    assert_eq!(shown["weight"], json!(40));
    let listing = again.list();
    assert_eq!(
        listing["principals"][0]["name"],
        json!(format!("user {HONEST}"))
    );
    assert_eq!(listing["principals"][0]["children"][0]["id"], json!(new));
}

#[test]
fn very_many_users_have_a_group_each_as_long_as_they_are_there() {
    let Some(ground) = Ground::new(None, Domain::Machine, "max_principals = 300\n") else {
        return;
    };
    let mut lives: Vec<(Client, u64)> = (0..150)
        .map(|n| ground.register(30_000 + n, json!({"name": "one"})))
        .collect();
    let mut root = ground.broker.connect();
    let mut groups = || root.list()["principals"].as_array().map(Vec::len);
    assert_eq!(groups(), Some(150));
    // One who has many has no more than there is room left for; whoever comes finds some.
    let mut many = Vec::new();
    loop {
        let mut life = ground.client(FIRST);
        match life.call("Register", json!({"name": "many"})) {
            Ok(_) => many.push(life),
            Err(refused) => {
                assert!(refused.error.ends_with("TooMany"), "{refused:?}");
                assert!(refused.message.contains("for other users"), "{refused:?}");
                break;
            }
        }
    }
    assert_eq!(many.len(), 75);
    lives.push(ground.register(SECOND, json!({"name": "late"})));
    assert_eq!(groups(), Some(152));
    drop((many, lives));
    until("nobody is left", || groups() == Some(0));
}
