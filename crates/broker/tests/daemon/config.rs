//! Configuration, reload, and error messages of a broker that cannot start.

use crate::common::{Broker, Program, refused_start, until};
use serde_json::json;

#[test]
fn a_bad_configuration_keeps_the_broker_from_starting_and_names_the_line() {
    let own = tempfile::tempdir().expect("a directory");
    let path = own.path().join("plimsoll.toml");
    std::fs::write(&path, "reserve = \"64M\"\nbuget = \"1G\"\n").expect("it can");
    let (code, said) = refused_start(&[
        "--config",
        &path.display().to_string(),
        "--directory",
        &own.path().join("run").display().to_string(),
    ]);
    assert_eq!(code, Some(1));
    assert!(
        said.contains("plimsoll.toml:2:") && said.contains("known are budget"),
        "{said}"
    );
    let (code, said) = refused_start(&["--config", "/nonexistent.toml", "--check"]);
    assert_eq!(code, Some(1));
    assert!(
        said.contains("/nonexistent.toml") && said.contains("check the path"),
        "{said}"
    );
}

#[test]
fn rules_come_before_what_is_asked_for_and_a_reload_applies_them() {
    let broker = Broker::with_config(
        "[[rule]]\nexecutable = \"*/sleep\"\nweight = 7\npriority = 3\nadapter = \"self\"\n",
    );
    let mut program = Program::register(&broker, "p", json!({"weight": 50}));
    let id = program.id;
    let shown = program.client.find(id).expect("listed");
    assert_eq!(
        (&shown["weight"], &shown["priority"], &shown["adapter"]),
        (&json!(7), &json!(3), &json!("self"))
    );
    std::fs::write(
        broker.config(),
        "[[rule]]\nexecutable = \"*/sleep\"\nweight = 9\n",
    )
    .expect("it can");
    broker.signal(libc::SIGHUP);
    until("the new rule holds", || {
        program
            .client
            .find(id)
            .is_some_and(|shown| shown["weight"] == json!(9))
    });
    std::fs::write(broker.config(), "weight = 9\n").expect("it can");
    program
        .client
        .refuses("Reload", json!({}), "Failed", "plimsoll.toml:1:");
    assert!(broker.log().contains("stays as it was"));
    assert_eq!(program.client.find(id).expect("listed")["weight"], json!(9));
    program.assert_unharmed();
}

#[test]
fn a_budget_is_kept() {
    let broker = Broker::with_config("budget = \"100M\"\n");
    let mut program = Program::register(&broker, "p", json!({}));
    let listing = program.client.list();
    assert_eq!(listing["budget"], json!(100 << 20));
    assert!(program.read_page().expect("numbers").numbers.limit <= 100 << 20);
    std::fs::write(broker.config(), "budget = \"1%\"\n").expect("it can");
    program.client.call("Reload", json!({})).expect("it may");
    until("the new budget holds", || {
        let listing = program.client.list();
        listing["budget"].as_u64().unwrap_or(u64::MAX)
            <= listing["capacity"].as_u64().unwrap_or(0) / 100
    });
}
