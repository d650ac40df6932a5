//! What cannot be recorded, or not to its end.

use crate::common::{stderr, wait_for};
use crate::{Stage, java, recorded};
use plimsoll_testbed::java::jdks;
use plimsoll_testbed::skip;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

#[test]
fn what_is_no_java_that_can_be_recorded_is_refused() {
    let Some(stage) = Stage::new() else { return };
    let refused = |args: &[&str], program: &[&str], status: i32, needle: &str| {
        let output = stage.record(args, program);
        let told = stderr(&output);
        assert_eq!(output.status.code(), Some(status), "{told}");
        assert!(told.contains(needle), "{needle}: {told}");
        assert!(!stage.place.path("t.recording").exists());
    };
    refused(
        &["-o", "t"],
        &["true"],
        2,
        "only Java programs can be recorded",
    );
    refused(&["-o", "t"], &["none-such"], 127, "not found");
    refused(&["-o", "none/t"], &["java"], 125, "none/t.recording");
    refused(&[], &["java"], 2, "say what to record and where to");
    if let Some(old) = jdks().into_iter().find(|jdk| jdk.version == 11) {
        let java = old.java().display().to_string();
        refused(
            &["-o", "t"],
            &[&java, "-cp", ".", "Lives"],
            2,
            "starts Java 11, and Java 17 or later",
        );
    }
    if let Some(java) = java() {
        // The machine refuses its own arguments, before the recorder is loaded.
        refused(
            &["-o", "t"],
            &[&java, "-XX:NoSuchFlag=1"],
            2,
            "nothing was recorded",
        );
        let status = stage
            .record(&["-o", "t"], &[&java, "-cp", ".", "NoSuchClass"])
            .status;
        assert_eq!(status.code(), Some(1), "the program's own status");
    }
}

#[test]
fn a_recorder_that_is_loaded_twice_records_once() {
    let (Some(stage), Some(java)) = (Stage::new(), java()) else {
        return;
    };
    let agent = format!(
        "-agentpath:{}=exact:0:.",
        stage.place.path("bin/libplimsoll_tracer.so").display()
    );
    let output = stage.record(&["-o", "t"], &[&java, &agent, "-cp", ".", "Lives", "10"]);
    let told = stderr(&output);
    assert!(
        output.status.success() && told.contains("loaded twice"),
        "{told}"
    );
    assert!(stage.text(&["verify", "t"]).contains("makes sense"));
    // By hand it is refused, and says how it is started.
    let mut by_hand = Command::new(&java);
    let output = by_hand
        .arg(agent.replace("=exact:0:.", ""))
        .arg("-version")
        .output()
        .unwrap();
    assert!(!output.status.success() && stderr(&output).contains("started by `plimsoll trace`"));
}

#[test]
fn what_was_written_before_a_machine_was_killed_is_a_trace() {
    let (Some(stage), Some(java)) = (Stage::new(), java()) else {
        return;
    };
    let mut command = stage.command(&["-o", "t"], &[&java, "-cp", ".", "Lives", "100000000"]);
    let child = command
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = child.id();
    let long = |path: PathBuf| path.metadata().is_ok_and(|it| it.len() > 64 << 10);
    wait_for("something is written", || {
        let folder = std::fs::read_dir(stage.place.path("t.recording")).ok()?;
        folder.flatten().any(|it| long(it.path())).then_some(())
    });
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    let machine: i32 = children.split_whitespace().next().unwrap().parse().unwrap();
    // SAFETY: `kill` only sends a signal; the process is our child's.
    unsafe { libc::kill(machine, libc::SIGKILL) };
    let output = child.wait_with_output().unwrap();
    let told = stderr(&output);
    assert_eq!(output.status.code(), Some(128 + libc::SIGKILL), "{told}");
    assert!(told.contains("ended before the recorder could"), "{told}");
    let verified = stage.text(&["verify", "t"]);
    assert!(verified.contains("makes sense"), "{verified}");
    assert!(!stage.place.path("t.recording").exists());
}

#[test]
fn a_full_stack_and_a_full_heap_are_what_they_are_without_a_recorder() {
    let Some(stage) = Stage::new() else { return };
    for jdk in recorded() {
        let java = jdk.java().display().to_string();
        for mode in [&["-o", "t"][..], &["--sampled", "-o", "t"]] {
            let program = [&java, "-Xss512k", "-Xmx128m", "-cp", ".", "Deep"];
            let output = stage.record(mode, &program);
            let told = stderr(&output);
            let version = jdk.version;
            assert!(output.status.success(), "{version} {mode:?}: {told}");
            assert_eq!(
                String::from_utf8_lossy(&output.stdout),
                "deep\n",
                "{version}"
            );
            assert!(!told.contains("warning"), "{version} {mode:?}: {told}");
            let verified = stage.text(&["verify", "t"]);
            assert!(
                verified.contains("makes sense"),
                "{version} {mode:?}: {verified}"
            );
        }
    }
}

/// A small file system, which is gone when this is dropped.
struct Small(PathBuf);

impl Small {
    fn mount(at: &Path) -> Option<Small> {
        std::fs::create_dir(at).unwrap();
        let mut mount = Command::new("mount");
        mount
            .args(["-t", "tmpfs", "-o", "size=256k", "tmpfs"])
            .arg(at);
        let mounted = mount.output().is_ok_and(|output| output.status.success());
        if !mounted {
            skip(format_args!("no right to mount a small file system"));
        }
        mounted.then(|| Small(at.to_owned()))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        // A test that fails shows it; nothing else can be done.
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_ends_the_recording_and_not_the_program() {
    let (Some(stage), Some(java)) = (Stage::new(), java()) else {
        return;
    };
    let Some(_small) = Small::mount(&stage.place.path("small")) else {
        return;
    };
    let output = stage.record(&["-o", "small/t"], &[&java, "-cp", ".", "Shapes", "3000"]);
    let told = stderr(&output);
    assert!(
        String::from_utf8_lossy(&output.stdout).starts_with("sum "),
        "the program goes on: {told}"
    );
    assert!(
        told.contains("not recorded any further") && told.contains("No space left"),
        "{told}"
    );
    assert_eq!(output.status.code(), Some(125), "{told}");
    assert!(
        told.contains("is left in") && told.contains("trace deaths"),
        "{told}"
    );
    // Elsewhere what was recorded becomes a trace.
    stage.text(&["deaths", "small/t.recording", "-o", "t"]);
    assert!(stage.text(&["verify", "t"]).contains("makes sense"));
}

#[test]
fn classes_of_a_signed_jar_are_recorded() {
    let (Some(stage), Some(java)) = (Stage::new(), java()) else {
        return;
    };
    let tools = Path::new(&java).parent().unwrap();
    let run = |tool: &str, args: &[&str]| {
        let mut command = Command::new(tools.join(tool));
        let ran = command
            .args(args)
            .current_dir(stage.place.path(""))
            .output();
        ran.is_ok_and(|output| output.status.success())
    };
    let store = [
        "-keystore",
        "store",
        "-storepass",
        "secret",
        "-keypass",
        "secret",
    ];
    let key = [
        &[
            "-genkeypair",
            "-alias",
            "us",
            "-keyalg",
            "EC",
            "-dname",
            "CN=us",
        ],
        &store[..],
    ]
    .concat();
    let signed = run("jar", &["cfe", "lives.jar", "Lives", "Lives.class"])
        && run("keytool", &key)
        && run("jarsigner", &[&store[..], &["lives.jar", "us"]].concat());
    if !signed {
        skip(format_args!("no jar, keytool or jarsigner beside {java}"));
        return;
    }
    let output = stage.record(&["-o", "t"], &[&java, "-jar", "lives.jar", "100"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stage.text(&["convert", "t"]).contains(" enter monitor="));
}
