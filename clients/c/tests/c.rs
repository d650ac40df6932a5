//! The C library as C programs see it: compiled with the system's compiler, linked both ways, and
//! run against a scripted broker with real pages and against the real broker.

#[path = "../../../crates/client/tests/fake/mod.rs"]
mod fake;
#[path = "../../../crates/client/tests/neighbour/mod.rs"]
mod neighbour;

use fake::{Fake, Script, numbers};
use plimsoll_testbed::cargo::{self, profile};
use plimsoll_testbed::skip;
use plimsoll_unit::{Bytes, MIB};
use plimsoll_wire::messages::{Max, Priority, Weight};
use plimsoll_wire::page::Numbers;
use rustix::fs::{StatVfsMountFlags, XattrFlags};
use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Once;

/// Builds the library, the broker and `plimsoll` in this test's profile, because cargo makes no shared
/// library for a package's own tests. It asks for the libraries and programs of all packages, and for this
/// test, because cargo unites the features that one command needs: like this they are the features of `cargo
/// test --workspace`, so that nothing is built again.
fn build() {
    static ONCE: Once = Once::new();
    ONCE.call_once_force(|_| {
        let what = ["--workspace", "--lib", "--bins", "--test", "c"];
        cargo::build(Path::new(env!("CARGO_MANIFEST_DIR")), &what);
    });
}

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Compiles a C file and links it with the library: the shared one, found by its run path, or the static one.
fn compile(source: &str, into: &Path, shared: bool) -> PathBuf {
    build();
    let program = into.join("program");
    let mut compiler = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
    compiler.args(["-std=c99", "-D_POSIX_C_SOURCE=200809L", "-O2"]);
    compiler.args(["-Wall", "-Wextra", "-Werror", "-pedantic"]);
    compiler
        .arg("-I")
        .arg(here("include"))
        .arg(here(source))
        .arg("-o")
        .arg(&program);
    if shared {
        std::fs::copy(
            profile().join("libplimsoll.so"),
            into.join("libplimsoll.so.0"),
        )
        .unwrap();
        compiler.arg(into.join("libplimsoll.so.0"));
        compiler.arg(format!("-Wl,-rpath,{}", into.display()));
    } else {
        compiler.arg(profile().join("libplimsoll.a"));
        compiler.args(["-lgcc_s", "-lpthread", "-lm", "-ldl"]);
    }
    assert!(
        compiler.status().unwrap().success(),
        "{source} does not compile"
    );
    program
}

/// A child that does not outlive its test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn follows(shared: bool) {
    let directory = fake::directory();
    let program = compile("tests/check.c", directory.path(), shared);
    let fake = Fake::start(directory.path(), Script::Good);
    let mut command = Command::new(program);
    command.arg(fake.socket()).stdout(Stdio::piped());
    let mut child = Running(command.spawn().unwrap());
    let mut lines = BufReader::new(child.0.stdout.take().unwrap()).lines();
    let mut line = || lines.next().unwrap().unwrap();
    assert_eq!(line(), format!("joined {} 0 0", 100 * MIB));
    assert_eq!(line(), format!("read {} 0 0", 100 * MIB));
    fake.until("it reports", |state| {
        state.released == 456
            && state.sets.len() >= 2
            && state.reports.iter().any(|report| report.live == Some(123))
    });
    // If it tried to join several times, its principal is that of the last try.
    let id = fake.state(|state| state.registered.len() as u64);
    fake.state(|state| {
        let asked = &state.registered[0];
        assert_eq!(
            (asked.weight, asked.priority, asked.max.bytes()),
            (
                Weight::new(20).ok(),
                Priority::new(-3).ok(),
                Some(Bytes(1 << 40))
            )
        );
        assert_eq!(asked.adapter.as_deref(), Some("self"));
        assert!(state.reports.iter().all(|report| report.floor.is_none()));
        assert_eq!(
            (state.sets[0].max, state.sets[1].priority),
            (Some(Max::NONE), Priority::new(1).ok())
        );
    });
    fake.publish(
        id,
        Numbers {
            owed: MIB,
            deadline: 5,
            ..numbers(60 * MIB)
        },
    );
    assert_eq!(line(), format!("owed {} {MIB} 0", 60 * MIB));
    fake.publish(id, numbers(70 * MIB));
    assert_eq!(line(), format!("relief {} 0 0", 70 * MIB));
    fake.kill();
    let lost = line();
    assert!(lost.starts_with("lost ") && lost.ends_with(" 2"), "{lost}");
    assert_eq!(
        std::iter::repeat_with(line)
            .find(|line| !line.starts_with("changed"))
            .unwrap(),
        "done"
    );
    assert!(child.0.wait().unwrap().success());
}

#[test]
fn a_program_that_links_the_shared_library_follows_its_page() {
    follows(true);
}

#[test]
fn a_program_that_links_the_static_library_follows_its_page() {
    follows(false);
}

#[test]
fn the_header_is_good_c_plus_plus_too() {
    let compiler = std::env::var_os("CXX").unwrap_or_else(|| "c++".into());
    let mut command = Command::new(compiler);
    command.args([
        "-std=c++11",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-pedantic",
        "-fsyntax-only",
    ]);
    command.args(["-x", "c++"]).arg(here("include/plimsoll.h"));
    match command.status() {
        Ok(status) => assert!(status.success()),
        Err(error) => println!("skipped: no C++ compiler ({error}); install g++"),
    }
}

#[test]
fn the_header_declares_what_the_library_exports() {
    let header = std::fs::read_to_string(here("include/plimsoll.h")).unwrap();
    let read = |name: &str| std::fs::read_to_string(here(name)).unwrap();
    let source = read("src/lib.rs") + &read("src/ghost.rs");
    let mut exported: Vec<_> = source
        .split("extern \"C\" fn ")
        .skip(1)
        .map(|rest| rest.split('(').next().unwrap())
        .collect();
    exported.sort_unstable();
    let code = header
        .split("*/")
        .map(|part| part.split("/*").next().unwrap())
        .collect::<String>();
    let mut declared: Vec<_> = code
        .split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '('))
        .filter_map(|word| word.split_once('(').map(|(name, _)| name))
        .filter(|name| name.starts_with("plimsoll_"))
        .collect();
    declared.sort_unstable();
    declared.dedup();
    assert_eq!(exported, declared);
}

#[test]
fn the_package_file_names_what_is_built() {
    let text = std::fs::read_to_string(here("plimsoll.pc.in")).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let filled = text
        .replace("@PREFIX@", "/opt/p")
        .replace("@LIBDIR@", "lib")
        .replace("@VERSION@", env!("CARGO_PKG_VERSION"));
    assert!(!filled.contains('@'));
    std::fs::write(directory.path().join("plimsoll.pc"), filled).unwrap();
    let mut command = Command::new("pkg-config");
    command
        .env("PKG_CONFIG_PATH", directory.path())
        .args(["--cflags", "--libs", "plimsoll"]);
    match command.output() {
        Ok(out) => {
            let flags = String::from_utf8(out.stdout).unwrap();
            assert_eq!(flags.trim(), "-I/opt/p/include -L/opt/p/lib -lplimsoll");
        }
        Err(error) => println!("skipped: no pkg-config ({error}); install pkg-config"),
    }
}

/// A broker that shares out 256 MiB, and its socket.
fn real_broker(directory: &Path) -> (Running, PathBuf) {
    build();
    let mut broker = Command::new(profile().join("plimsolld"));
    broker
        .arg("--directory")
        .arg(directory)
        .args(["--budget", "256M"]);
    let broker = Running(broker.spawn().unwrap());
    let socket = directory.join("broker.sock");
    fake::eventually("the broker serves", || UnixStream::connect(&socket).is_ok());
    (broker, socket)
}

/// A program that registers finds the principal that `plimsoll run` made for it, whichever of the two is
/// faster.
#[test]
fn the_example_steers_itself_under_plimsoll_run() {
    let directory = fake::directory();
    let program = compile("examples/cache.c", directory.path(), true);
    let (_broker, socket) = real_broker(directory.path());
    let plimsoll = || {
        let mut plimsoll = Command::new(profile().join("plimsoll"));
        plimsoll.arg("--socket").arg(&socket);
        plimsoll
    };
    let principals = || -> Vec<serde_json::Value> {
        let ps = plimsoll().args(["ps", "--json"]).output().unwrap();
        let listing: serde_json::Value = serde_json::from_slice(&ps.stdout).unwrap();
        listing["principals"].as_array().unwrap().clone()
    };
    for _ in 0..5 {
        let mut run = plimsoll();
        run.args(["run", "--weight", "40", "--name", "run"]);
        run.arg(&program).arg("60").stdout(Stdio::null());
        let mut run = Running(run.spawn().unwrap());
        fake::eventually("it steers itself", || {
            principals()
                .iter()
                .any(|principal| principal["adapter"] == "self")
        });
        let all = principals();
        let known = all
            .iter()
            .map(|p| (p["name"].as_str(), p["weight"].as_u64()));
        assert!(known.eq([(Some("run"), Some(40))]), "{all:?}");
        // SAFETY: a child of ours that was not waited for yet; the program gets the signal from it.
        unsafe { libc::kill(run.0.id() as i32, libc::SIGTERM) };
        run.0.wait().unwrap();
        fake::eventually("it is gone", || principals().is_empty());
    }
}

#[test]
fn the_example_lives_under_a_real_broker() {
    let directory = fake::directory();
    let program = compile("examples/cache.c", directory.path(), true);
    let (_broker, socket) = real_broker(directory.path());
    let run = Command::new(program)
        .arg("10")
        .env("PLIMSOLL_SOCKET", &socket)
        .output()
        .unwrap();
    let text = String::from_utf8(run.stdout).unwrap();
    assert!(
        run.status.success(),
        "{text}{}",
        String::from_utf8_lossy(&run.stderr)
    );
    let told = text
        .lines()
        .filter(|line| line.ends_with("from the broker"));
    let limits = told.map(|line| line.split(' ').nth(1).unwrap().parse::<u64>().unwrap());
    let highest = limits.max().expect("the broker told it something");
    assert!(highest > 0 && highest <= 256, "{text}");
}

#[test]
fn the_example_pays_a_debt_once_and_keeps_its_limit() {
    let directory = fake::directory();
    let program = compile("examples/cache.c", directory.path(), true);
    let (_broker, socket) = real_broker(directory.path());
    neighbour::keeps_its_limit(&program, &socket);
}

/// `cap_net_bind_service=ep`, as the kernel keeps it (linux/capability.h).
const CAPABLE: [u8; 20] = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

const JOINED: &str = "source 0\n";

/// The output of a program that another user starts with these variables.
fn said(
    program: &Path,
    tries: &str,
    variables: &[(&str, &OsStr)],
    socket: Option<&Path>,
) -> String {
    let user = ["--reuid=65534", "--regid=65534", "--clear-groups"];
    let mut command = Command::new("setpriv");
    command.args(user).arg("--inh-caps=-all").arg(program);
    command.arg(tries).args(socket);
    let output = command.envs(variables.iter().copied()).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_program_with_more_rights_than_who_started_it_believes_no_variable() {
    if !rustix::process::geteuid().is_root() {
        return skip("another user needs root");
    }
    let directory = fake::directory();
    let mode = |path: &Path, mode| {
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    };
    mode(directory.path(), 0o755);
    let program = compile("tests/secure.c", directory.path(), false);
    let fake = Fake::start(directory.path(), Script::Good);
    mode(&fake.socket(), 0o666);
    let life = fake::builder(&fake).open().unwrap();
    fake::eventually("there is a principal", || life.id().is_some());
    let page = fake.page(life.id().unwrap());
    let id = life.id().unwrap().to_string();
    let registered = || fake.state(|state| state.registered.len());
    let by_socket = [("PLIMSOLL_SOCKET", fake.socket().into_os_string())];
    let by_page = [
        ("PLIMSOLL_ID", id.into()),
        ("PLIMSOLL_PAGE", page.into_os_string()),
    ];
    let socket = || {
        by_socket
            .each_ref()
            .map(|(name, value)| (*name, value.as_os_str()))
    };
    let page = || {
        by_page
            .each_ref()
            .map(|(name, value)| (*name, value.as_os_str()))
    };
    // If the program trusted them, the first variable would name a broker and the others a principal there,
    // so that none would be registered.
    assert_eq!(said(&program, "300", &socket(), None), JOINED);
    assert_eq!(registered(), 2);
    assert_eq!(said(&program, "300", &page(), Some(&fake.socket())), JOINED);
    assert_eq!(registered(), 2);
    let volume = rustix::fs::statvfs(&program).unwrap();
    let made = rustix::fs::setxattr(
        &program,
        "security.capability",
        &CAPABLE,
        XattrFlags::empty(),
    );
    if made.is_err() || volume.f_flag.contains(StatVfsMountFlags::NOSUID) {
        return skip("files have no capabilities here");
    }
    said(&program, "10", &socket(), None);
    assert_eq!(registered(), 2);
    assert_eq!(said(&program, "300", &page(), Some(&fake.socket())), JOINED);
    assert_eq!(registered(), 3);
}
