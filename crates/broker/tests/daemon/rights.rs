//! The rights of users over programs and cgroups.

use crate::common::{Broker, Client, Program, Sleeper, as_user, until};
use plimsoll_testbed::skip;
use serde_json::json;

/// A folder of this mode, for a test that becomes another user. `None` where it cannot.
fn open_folder(mode: u32) -> Option<tempfile::TempDir> {
    if !rustix::process::geteuid().is_root() {
        skip("only root can become another user for this test");
        return None;
    }
    let own = tempfile::tempdir().expect("a directory");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
    std::fs::set_permissions(own.path(), mode).expect("it can");
    Some(own)
}

#[test]
fn others_programs_are_not_for_everybody_to_register_or_set() {
    let Some(own) = open_folder(0o755) else {
        return;
    };
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

#[test]
fn a_users_broker_takes_no_process_of_another_user() {
    let Some(own) = open_folder(0o777) else {
        return;
    };
    let user = [
        "setpriv",
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
    ];
    let by = user.map(str::to_owned).into();
    let broker = Broker::start_by(&own.path().join("run"), Vec::new(), by);
    let sleeper = Sleeper::start();
    // Root may ask it, too: the programs are not that user's.
    for pid in [1, sleeper.pid()] {
        let mut client = broker.connect();
        let asked = json!({"name": "other", "pid": pid, "whole": true});
        client.refuses("Register", asked, "NotPermitted", "belongs to user 0");
        let registered = client.call("Register", json!({"name": "later"}));
        let id = &registered.expect("without a process")["id"];
        let asked = json!({"id": id, "pid": pid, "whole": true});
        client.refuses("Attach", asked, "NotPermitted", "belongs to user 0");
    }
    assert_eq!(broker.connect().list()["principals"], json!([]));
}

/// A shell of a process group of its own with this many children, that descends from nobody here.
struct Orphans(i32);

impl Orphans {
    fn start(children: usize) -> Orphans {
        let many = format!("for i in $(seq {children}); do sleep 600 & done; wait");
        let orphan = format!("setsid sh -c '{many}' >/dev/null 2>&1 & echo $!");
        let output = std::process::Command::new("sh")
            .args(["-c", &orphan])
            .output()
            .expect("sh starts");
        let pid = String::from_utf8_lossy(&output.stdout).trim().parse();
        let orphans = Orphans(pid.expect("a number"));
        until("they run", || {
            let mut found = Vec::new();
            let looked = plimsoll_kernel::process::descendants(orphans.0, 1000, &mut found);
            looked.is_ok() && found.len() >= children
        });
        orphans
    }
}

impl Drop for Orphans {
    fn drop(&mut self) {
        // SAFETY: a system call that takes numbers; the group is that of the shell started above.
        unsafe { libc::kill(-self.0, libc::SIGKILL) };
    }
}

#[test]
fn what_stands_for_more_than_a_program_is_taken_only_where_the_caller_knows() {
    let broker = Broker::start();
    let mut client = broker.connect();
    let first = json!({"name": "first", "pid": 1});
    client.refuses("Register", first, "NotPermitted", "is the first process of");
    if plimsoll_kernel::process::own::is_in_first_namespace() {
        let first = json!({"name": "first", "pid": 1, "whole": true});
        client.refuses("Register", first, "NotPermitted", "of this machine");
    }
    let (few, many) = (Orphans::start(3), Orphans::start(101));
    let asked = json!({"name": "many", "pid": many.0});
    client.refuses(
        "Register",
        asked,
        "NotPermitted",
        "more than 100 descendants",
    );
    let whole = json!({"name": "many", "pid": many.0, "whole": true});
    client.call("Register", whole).expect("the caller knows");
    let mut other = broker.connect();
    let asked = json!({"name": "few", "pid": few.0});
    other.call("Register", asked).expect("it is small");
}
