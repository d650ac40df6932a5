//! Who may do what to whom.

use crate::common::{Broker, Client, Program, Sleeper, as_user, until};
use plimsoll_testbed::skip;
use serde_json::json;

#[test]
fn others_programs_are_not_for_everybody_to_register_or_set() {
    if !rustix::process::geteuid().is_root() {
        skip("only root can become another user for this test");
        return;
    }
    let own = tempfile::tempdir().expect("a directory");
    std::fs::set_permissions(
        own.path(),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .expect("it can");
    let mut broker = Broker::start_in(&own.path().join("run"), vec!["--system".into()]);
    let mut program = Program::register(&broker, "root's", json!({}));
    let sleeper = Sleeper::start();
    let socket = broker.socket();
    let as_nobody = |call: String| {
        as_user(65534, || {
            let mut client = Client::connect(&socket);
            client.send(format!("{call}\0").as_bytes());
            client.reply().expect("an answer").to_string()
        })
    };
    let id = program.id;
    for call in [
        format!("{{\"method\":\"io.plimsoll.Set\",\"parameters\":{{\"id\":{id},\"weight\":1}}}}"),
        format!(
            "{{\"method\":\"io.plimsoll.Report\",\"parameters\":{{\"id\":{id},\"demand\":1}}}}"
        ),
        format!(
            "{{\"method\":\"io.plimsoll.Register\",\"parameters\":{{\"name\":\"mine\",\"parent\":{id}}}}}"
        ),
        format!(
            "{{\"method\":\"io.plimsoll.Register\",\"parameters\":{{\"name\":\"mine\",\"pid\":{}}}}}",
            sleeper.pid()
        ),
        "{\"method\":\"io.plimsoll.Reload\"}".to_owned(),
    ] {
        let reply = as_nobody(call);
        assert!(
            reply.contains("io.plimsoll.NotPermitted") && reply.contains("only"),
            "{reply}"
        );
    }
    assert!(as_nobody("{\"method\":\"io.plimsoll.List\"}".into()).contains("budget"));
    program.assert_unharmed();
    let mine = |more: String| {
        format!(
            "{{\"method\":\"io.plimsoll.Register\",\"parameters\":{{\"name\":\"mine\",{more}}}}}"
        )
    };
    // Only the owner of a cgroup may share it out.
    if let Ok(Some(cgroup)) = plimsoll_kernel::cgroup::Cgroup::of_self() {
        let cgroup = cgroup.dir().display();
        let reply = as_nobody(mine(format!("\"kind\":\"group\",\"cgroup\":\"{cgroup}\"")));
        assert!(reply.contains("NotPermitted"), "{reply}");
    }
    // Another user cannot place a principal under one that has not rejoined yet.
    until("it is written", || {
        let state = std::fs::read_to_string(broker.directory().join("state.json"));
        state.is_ok_and(|state| state.contains("root's"))
    });
    broker.crash_and_restart();
    let reply = as_nobody(mine(format!("\"parent\":{id}")));
    assert!(reply.contains("NotPermitted"), "{reply}");
    let mut root = broker.connect();
    root.call("Register", json!({"name": "child", "parent": id}))
        .expect("root may");
}
