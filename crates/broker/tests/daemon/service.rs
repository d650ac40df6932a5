//! The behaviour of a service: `sd_notify`, socket activation, a small footprint.

use crate::common::{Broker, Client, PATIENCE, Program, until};
use plimsoll_unit::Bytes;
use serde_json::json;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::process::{Command, Stdio};

#[test]
fn it_takes_its_socket_from_the_service_manager_and_tells_how_it_does() {
    let own = tempfile::tempdir().expect("a directory");
    let run = own.path().join("run");
    std::fs::create_dir(&run).expect("it can");
    std::fs::set_permissions(&run, std::os::unix::fs::PermissionsExt::from_mode(0o700))
        .expect("it can");
    let socket = run.join("broker.sock");
    let listener = UnixListener::bind(&socket).expect("it can");
    let manager = UnixDatagram::bind(own.path().join("notify")).expect("it can");
    manager.set_read_timeout(Some(PATIENCE)).expect("it can");
    let config = own.path().join("plimsoll.toml");
    std::fs::write(&config, "").expect("it can");
    // The manager passes the socket as descriptor 3 and names the process for which it is meant.
    let mut child = Command::new("sh")
        .args([
            "-c",
            "export LISTEN_PID=$$; exec \"$@\" 3<&0 </dev/null",
            "sh",
            env!("CARGO_BIN_EXE_plimsolld"),
            "--directory",
        ])
        .arg(&run)
        .arg("--config")
        .arg(&config)
        .env("LISTEN_FDS", "1")
        .env("NOTIFY_SOCKET", own.path().join("notify"))
        .env("WATCHDOG_USEC", "400000")
        .stdin(Stdio::from(std::os::fd::OwnedFd::from(listener)))
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let mut said = String::new();
    let mut hear = |wanted: &str| {
        let mut buffer = [0; 4096];
        while !said.contains(wanted) {
            let count = manager.recv(&mut buffer).expect("it tells");
            said.push_str(&String::from_utf8_lossy(&buffer[..count]));
        }
        said.clear();
    };
    hear("READY=1");
    assert!(Client::connect(&socket).list()["budget"].is_u64());
    hear("WATCHDOG=1");
    hear("WATCHDOG=1");
    let pid = rustix::process::Pid::from_raw(child.id() as i32).expect("a number");
    rustix::process::kill_process(pid, rustix::process::Signal::HUP).expect("it can");
    hear("RELOADING=1");
    hear("READY=1");
    std::fs::write(&config, "nonsense").expect("it can");
    rustix::process::kill_process(pid, rustix::process::Signal::HUP).expect("it can");
    hear("old configuration in force");
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it can");
    hear("STOPPING=1");
    assert!(child.wait().expect("it ended").success());
    assert!(socket.exists(), "the socket is the manager's to remove");
}

#[test]
fn a_hundred_principals_leave_it_small() {
    let broker = Broker::start();
    let programs: Vec<Program> = (0..100)
        .map(|n| Program::register(&broker, &format!("p{n}"), json!({})))
        .collect();
    let mut control = broker.connect();
    assert_eq!(
        control.list()["principals"].as_array().map(Vec::len),
        Some(100)
    );
    let process = plimsoll_kernel::process::Process::open(broker.pid() as i32).expect("it runs");
    let memory = || process.memory().expect("its memory");
    println!("with {} principals: {:?}", programs.len(), memory());
    // How much code is resident depends on the build and on the page cache. A release build takes at most
    // 6 MiB with its code (`make bench-broker-cost`).
    until("it is small", || memory().anon <= Bytes(3 << 20));
}
