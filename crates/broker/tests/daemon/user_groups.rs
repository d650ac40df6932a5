//! The groups of users: permissions, depth, and number.

use crate::common::{Client, until};
use crate::users::{
    Domain, FIRST_USER, Ground, HONEST_USER, SECOND_USER, assert_stands, group_of, number,
};
use serde_json::json;

#[test]
fn a_user_sets_what_is_its_own_and_nothing_else() {
    let Some(ground) = Ground::new(None, Domain::Machine, "") else {
        return;
    };
    let sleeper = ground.start(HONEST_USER, "hog --bytes 4K");
    let (mut honest, own) =
        ground.register(HONEST_USER, json!({"name": "own", "pid": sleeper.pid()}));
    let (mut hostile, other) = ground.register(FIRST_USER, json!({"name": "other"}));
    let group = group_of(&honest.list(), HONEST_USER);
    assert_eq!(group["children"][0]["id"], json!(own));
    let id = number(&group, "id");
    // A user can neither change its own group nor another user's principals, nor move anything
    // there.
    for set in [
        json!({"id": id, "weight": 10_000}),
        json!({"id": own, "weight": 1}),
        json!({"id": other, "parent": own}),
        json!({"id": other, "parent": id}),
    ] {
        hostile.refuses("Set", set, "NotPermitted", "only");
    }
    let set = json!({"id": id, "weight": 10_000});
    honest.refuses("Set", set, "NotPermitted", "only");
    for parent in [own, id] {
        let mut client = ground.client(FIRST_USER);
        let parameters = json!({"name": "in", "parent": parent});
        client.refuses("Register", parameters, "NotPermitted", "only");
    }
    // Within its own group it may change principals.
    let set = json!({"id": other, "priority": 100, "weight": 10_000});
    hostile.call("Set", set).expect("it is its own");
}

#[test]
fn root_and_rules_say_how_users_stand() {
    let config =
        format!("[[rule]]\nuser = \"{HONEST_USER}\"\nuser_weight = 300\nuser_priority = 2\n");
    let Some(ground) = Ground::new(None, Domain::Machine, &config) else {
        return;
    };
    let sleeper = ground.start(HONEST_USER, "hog --bytes 4K");
    let _honest = ground.register(HONEST_USER, json!({"name": "own", "pid": sleeper.pid()}));
    let _other = ground.register(FIRST_USER, json!({"name": "other"}));
    let mut root = ground.broker.connect();
    let ruled = group_of(&root.list(), HONEST_USER);
    assert_stands(&ruled, 300, 2);
    let foreign = number(&group_of(&root.list(), FIRST_USER), "id");
    root.call("Set", json!({"id": foreign, "weight": 40}))
        .expect("root may");
    assert_stands(&group_of(&root.list(), FIRST_USER), 40, 0);
    // Only the place of a user's group is fixed, even for root.
    let set = json!({"id": foreign, "parent": number(&ruled, "id")});
    root.refuses("Set", set, "NotPermitted", "stays at the top");
    // Rules that are read again take precedence over these settings.
    std::fs::write(ground.own.path().join("plimsoll.toml"), "").expect("it can");
    root.call("Reload", json!({})).expect("root may");
    for uid in [HONEST_USER, FIRST_USER] {
        assert_stands(&group_of(&root.list(), uid), 100, 0);
    }
}

#[test]
fn what_runs_as_a_user_is_that_users_whoever_registers_it() {
    let Some(ground) = Ground::new(None, Domain::Machine, "") else {
        return;
    };
    let adopted = ground.start(FIRST_USER, "hog --bytes 4K");
    let mut root = ground.broker.connect();
    let parameters = json!({"name": "adopted", "pid": adopted.pid()});
    let id = root.call("Register", parameters).expect("root may")["id"].clone();
    let children = group_of(&root.list(), FIRST_USER)["children"].clone();
    let children = children.as_array().expect("children");
    assert!(
        children.iter().any(|child| child["id"] == id),
        "{children:?}"
    );
}

#[test]
fn a_users_programs_may_be_as_deep_as_ever_and_come_back_after_a_crash() {
    let Some(mut ground) = Ground::new(None, Domain::Machine, "") else {
        return;
    };
    let sleeper = ground.start(HONEST_USER, "hog --bytes 4K");
    let pid = sleeper.pid();
    let (mut top, id) = ground.register(HONEST_USER, json!({"name": "top", "pid": pid}));
    top.call("Set", json!({"id": id, "weight": 40}))
        .expect("it may");
    let mut lives = Vec::new();
    let mut parent = id;
    for depth in 2..=8 {
        let (life, below) = ground.register(
            HONEST_USER,
            json!({"name": format!("d{depth}"), "parent": parent}),
        );
        lives.push(life);
        parent = below;
    }
    let mut client = ground.client(HONEST_USER);
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
    let (mut again, new) = ground.register(HONEST_USER, json!({"name": "top", "pid": pid}));
    assert!(new > parent, "numbers are not reused");
    let shown = again.find(new).expect("listed");
    assert_eq!(shown["weight"], json!(40));
    let listing = again.list();
    assert_eq!(
        listing["principals"][0]["name"],
        json!(format!("user {HONEST_USER}"))
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
    // A user with many principals must leave as much room, so a new user finds some.
    let mut many = Vec::new();
    loop {
        let mut life = ground.client(FIRST_USER);
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
    lives.push(ground.register(SECOND_USER, json!({"name": "late"})));
    assert_eq!(groups(), Some(152));
    drop((many, lives));
    until("nobody is left", || groups() == Some(0));
}

#[test]
fn a_name_that_is_hidden_is_told_to_its_user_alone() {
    let Some(ground) = Ground::new(None, Domain::Machine, "show_others = false\n") else {
        return;
    };
    let [own, adopted] = [(); 2].map(|()| ground.start(HONEST_USER, "hog --bytes 4K"));
    let (mut honest, secret) =
        ground.register(HONEST_USER, json!({"name": "secret", "pid": own.pid()}));
    let by_root = json!({"name": "adopted", "pid": adopted.pid()});
    let (_root, adopted) = ground.register(0, by_root);
    let group = number(&group_of(&honest.list(), HONEST_USER), "id");
    let mut other = ground.client(FIRST_USER);
    for (id, name) in [(secret, "secret"), (adopted, "adopted")] {
        assert_eq!(honest.find(id).expect("listed")["name"], json!(name));
    }
    for id in [secret, adopted, group] {
        let shown = other.find(id).expect("listed");
        assert_eq!(shown["name"], json!("another user's"));
        let refused = other.call("Set", json!({"id": id, "weight": 1}));
        let message = refused.expect_err("it is another's").message;
        assert!(
            message.starts_with(&format!("principal {id} belongs to")),
            "{message}"
        );
    }
}
