//! Programs that cannot be recorded, or not to their ends.

use crate::common::{alive, limit_open_files, signal_to, stderr, wait_for};
use crate::{Stage, java, recorded};
use plimsoll_testbed::java::jdks;
use plimsoll_testbed::{cases, skip};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

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

/// Starts a recording that goes on, and waits until something of it is written. Returns it, and the number of
/// the machine.
fn started(stage: &Stage, args: &[&str], java: &str) -> (Child, i32) {
    let program = [java, "-cp", ".", "Lives", "100000000"];
    let mut command = stage.command(args, &program);
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
    let machine = children.split_whitespace().next().unwrap().parse().unwrap();
    (child, machine)
}

/// Each mode, into one file.
const MODES: [&[&str]; 2] = [&["-o", "t"], &["--sampled", "-o", "t"]];

#[test]
fn what_was_written_before_a_machine_was_killed_is_a_trace() {
    let (Some(stage), Some(java)) = (Stage::new(), java()) else {
        return;
    };
    for mode in MODES {
        let (child, machine) = started(&stage, mode, &java);
        signal_to(machine as u32, libc::SIGKILL);
        let output = child.wait_with_output().unwrap();
        let told = stderr(&output);
        assert_eq!(output.status.code(), Some(128 + libc::SIGKILL), "{told}");
        assert!(told.contains("ended before the recorder could"), "{told}");
        let verified = stage.text(&["verify", "t"]);
        assert!(verified.contains("makes sense"), "{verified}");
        assert!(!stage.place.path("t.recording").exists());
    }
}

#[test]
fn a_program_that_is_asked_to_end_is_recorded_to_its_end() {
    let (Some(stage), Some(java)) = (Stage::new(), java()) else {
        return;
    };
    for signal in [libc::SIGTERM, libc::SIGINT] {
        let (child, _) = started(&stage, MODES[0], &java);
        signal_to(child.id(), signal);
        let output = child.wait_with_output().unwrap();
        let told = stderr(&output);
        assert_eq!(output.status.code(), Some(128 + signal), "{told}");
        assert!(!told.contains("ended before"), "{told}");
        assert!(told.contains("machine counts"), "{told}");
        assert!(stage.text(&["verify", "t"]).contains("makes sense"));
        assert!(!stage.place.path("t.recording").exists());
    }
}

#[test]
fn if_we_are_killed_what_was_written_is_readable() {
    let (Some(stage), Some(java)) = (Stage::new(), java()) else {
        return;
    };
    let (mut child, machine) = started(&stage, MODES[0], &java);
    child.kill().unwrap();
    child.wait().unwrap();
    // The program goes on, until the test has seen that.
    assert!(alive(machine as u32));
    signal_to(machine as u32, libc::SIGKILL);
    wait_for("it is gone", || (!alive(machine as u32)).then_some(()));
    let again = stage.record(MODES[0], &[&java, "-cp", ".", "Lives", "10"]);
    let told = stderr(&again);
    assert_eq!(again.status.code(), Some(2), "{told}");
    assert!(told.contains("is there already"), "{told}");
    let deaths = ["trace", "deaths", "t.recording", "-o", "t"];
    let output = stage.place.call(&deaths);
    let told = stderr(&output);
    assert!(output.status.success(), "{told}");
    assert!(told.contains("ended before the recorder could"), "{told}");
    assert!(stage.text(&["verify", "t"]).contains("makes sense"));
    // The command is known, though we were killed.
    assert!(
        stage
            .text(&["info", "t", "--json"])
            .contains("Lives 100000000")
    );
}

#[test]
fn a_full_stack_and_a_full_heap_are_what_they_are_without_a_recorder() {
    let Some(stage) = Stage::new() else { return };
    for (row, jdk) in recorded().into_iter().enumerate() {
        let java = jdk.java().display().to_string();
        for mode in cases::of_column(MODES, row, 2) {
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
            // The program ends after few collections, and a sampled recording says that.
            let mut warnings = told.lines().filter(|line| line.contains("warning"));
            assert!(
                warnings.all(|line| line.contains("looked for dead objects")),
                "{version} {mode:?}: {told}"
            );
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
    fn mount(at: &Path, size: &str) -> Option<Small> {
        std::fs::create_dir(at).unwrap();
        let mut mount = Command::new("mount");
        mount
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"])
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
    for (place, mode, program, printed) in [
        ("one", &[] as &[&str], ["Shapes", "3000"], "sum "),
        ("two", &["--sampled"], ["Lives", "1000000"], "50 "),
    ] {
        let Some(_small) = Small::mount(&stage.place.path(place), "256k") else {
            return;
        };
        let into = format!("{place}/t");
        let args = [mode, &["-o", &into]].concat();
        let output = stage.record(
            &args,
            &[&[java.as_str(), "-cp", "."][..], &program].concat(),
        );
        let told = stderr(&output);
        assert!(
            String::from_utf8_lossy(&output.stdout).starts_with(printed),
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
        let folder = format!("{into}.recording");
        let output = stage.place.call(&["trace", "deaths", &folder, "-o", "t"]);
        let told = stderr(&output);
        assert!(output.status.success(), "{told}");
        assert!(told.contains("the recording is not whole"), "{told}");
        assert!(told.contains("the program took"), "{told}");
        assert!(stage.text(&["verify", "t"]).contains("makes sense"));
    }
}

/// The disk is full while the threads' traces are put into one, and while that with deaths is written.
#[test]
fn a_disk_that_is_full_while_deaths_are_found_loses_nothing() {
    let (Some(stage), Some(java)) = (Stage::new(), java()) else {
        return;
    };
    let (mut child, machine) = started(&stage, MODES[0], &java);
    // A part of it is larger than the small disk.
    let folder = stage.place.path("t.recording");
    wait_for("it is long", || {
        let files = std::fs::read_dir(&folder).ok()?.flatten();
        let sizes = files.filter_map(|it| it.metadata().ok());
        (sizes.map(|it| it.len()).sum::<u64>() > 256 << 10).then_some(())
    });
    child.kill().unwrap();
    child.wait().unwrap();
    signal_to(machine as u32, libc::SIGKILL);
    wait_for("it is gone", || (!alive(machine as u32)).then_some(()));
    let program = [java.as_str(), "-cp", ".", "Lives", "100000"];
    let output = stage.record(&["--raw", "-o", "raw"], &program);
    assert!(output.status.success(), "{}", stderr(&output));
    let Some(_small) = Small::mount(&stage.place.path("small"), "64k") else {
        return;
    };
    for from in ["t.recording", "raw"] {
        let deaths = ["trace", "deaths", from, "-o", "small/t"];
        let output = stage.place.call(&deaths);
        let told = stderr(&output);
        assert!(!output.status.success(), "{from}: {told}");
        assert!(told.contains("No space left"), "{from}: {told}");
        let left = std::fs::read_dir(stage.place.path("small")).unwrap();
        assert_eq!(left.count(), 0, "{from}: nothing is left there");
        stage.text(&["deaths", from, "-o", "whole"]);
        assert!(stage.text(&["verify", "whole"]).contains("makes sense"));
    }
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

#[test]
fn a_program_may_have_more_threads_than_files_may_be_open_at_first() {
    let (Some(stage), Some(java)) = (Stage::new(), java()) else {
        return;
    };
    let program = [&java, "-cp", ".", "Lives", "20", "100"];
    let mut command = stage.command(&["-o", "t"], &program);
    limit_open_files(&mut command);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let verified = stage.text(&["verify", "t"]);
    assert!(verified.contains("makes sense"), "{verified}");
    let info = stage.text(&["info", "t", "--json"]);
    let info: serde_json::Value = serde_json::from_str(&info).unwrap();
    assert!(info["threads"].as_array().unwrap().len() > 100);
}
