//! `make install`: every file is where it belongs, and programs run with the drop-in libgc.

mod common;

use common::{Place, stderr};
use plimsoll_testbed::skip;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A C++ program on the system's libgccpp: objects with clean-up functions, and operators that libgccpp
/// replaces.
const PROGRAM: &str = r#"
#include <dlfcn.h>
#include <gc/gc_cpp.h>
#include <cstdio>
struct Node : public gc_cleanup {
    static int cleaned;
    ~Node() { cleaned++; }
};
int Node::cleaned = 0;
int main()
{
    Dl_info from = {};
    GC_INIT();
    for (int i = 0; i < 20000; i++) new Node;
    int *array = new int[100];
    delete[] array;
    GC_gcollect();
    GC_invoke_finalizers();
    dladdr((void *)GC_malloc, &from);
    std::printf("%s\n%s\n", Node::cleaned > 10000 ? "cleaned" : "kept", from.dli_fname);
}
"#;

const FILES: [(&str, u32); 22] = [
    ("bin/plimsoll", 0o755),
    ("bin/plimsoll-lab", 0o755),
    ("bin/plimsolld", 0o755),
    ("include/plimsoll.h", 0o644),
    ("lib/libplimsoll.so.0", 0o755),
    ("lib/libplimsoll.so", 0o755),
    ("lib/pkgconfig/plimsoll.pc", 0o644),
    ("lib/pkgconfig/plimsoll-gc.pc", 0o644),
    ("lib/plimsoll/gc/libgc.so.1", 0o755),
    ("lib/plimsoll/libplimsoll_jvm.so", 0o755),
    ("lib/plimsoll/libplimsoll_libgc.so", 0o755),
    ("lib/plimsoll/libplimsoll_tracer.so", 0o755),
    ("lib/systemd/system/plimsolld.service", 0o644),
    ("lib/sysusers.d/plimsoll.conf", 0o644),
    ("lib/systemd/user/plimsolld.service", 0o644),
    ("share/man/man1/plimsoll.1", 0o644),
    ("share/man/man1/plimsoll-run.1", 0o644),
    ("share/man/man8/plimsolld.8", 0o644),
    ("share/bash-completion/completions/plimsoll", 0o644),
    ("share/doc/plimsoll/README.md", 0o644),
    ("share/doc/plimsoll/plimsoll.json", 0o644),
    ("share/doc/plimsoll/plimsoll.toml", 0o644),
];

/// The variables that tests and the libraries of tests read; of some, the beginning that they share.
const FOR_TESTS: [&str; 10] = [
    "PLIMSOLL_CHURN_SECONDS",
    "PLIMSOLL_GC_FAIL",
    "PLIMSOLL_GC_SEED",
    "PLIMSOLL_GC_STRESS",
    "PLIMSOLL_LOCKABLE_INSIDE",
    "PLIMSOLL_SHOW",
    "PLIMSOLL_SIMULATION",
    "PLIMSOLL_TEST",
    "PLIMSOLL_TRACE_ALIVE",
    "PLIMSOLL_WRITE_DOCS",
];

/// Debian's packages, and in each a file that tells it from the others.
const PACKAGES: [(&str, &str); 5] = [
    ("plimsoll", "./usr/bin/plimsolld"),
    ("plimsoll-lab", "./usr/lib/plimsoll/libplimsoll_tracer.so"),
    ("plimsoll-libgc", "./usr/lib/plimsoll/gc/libgc.so.1"),
    ("libplimsoll0", "/libplimsoll.so.0"),
    ("libplimsoll-dev", "./usr/include/plimsoll.h"),
];

fn checkout() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    root.unwrap().to_owned()
}

/// A directory like that of `make build`. In place of files that the tests of this crate do not build, it has
/// links to other files.
fn binaries(place: &Place) -> PathBuf {
    let binaries = place.path("binaries");
    fs::create_dir(&binaries).unwrap();
    let own = PathBuf::from(env!("CARGO_BIN_EXE_plimsoll"));
    let put = |from: &Path, name: &str| {
        std::os::unix::fs::symlink(from, binaries.join(name)).unwrap();
    };
    put(&own, "plimsoll");
    put(&own, "plimsolld");
    // That of the lab's own package; here it writes no pages.
    let lab = place.write("binaries/plimsoll-lab", "#!/bin/sh\n");
    fs::set_permissions(lab, fs::Permissions::from_mode(0o755)).unwrap();
    for name in [
        "libplimsoll_gc.so",
        "libplimsoll_libgc.so",
        "libplimsoll_jvm.so",
        "libplimsoll_tracer.so",
    ] {
        put(&common::library(name), name);
    }
    put(&common::library("libplimsoll_libgc.so"), "libplimsoll.so");
    binaries
}

/// Installs below `root`, for `/opt/plimsoll`, as a user whose umask gives others no rights.
fn install(place: &Place) -> PathBuf {
    let root = place.path("root");
    // With `-o`, make does not build the binaries again.
    let output = Command::new("sh")
        .args(["-c", "umask 077 && exec make \"$@\"", "sh"])
        .args(["-s", "-o", "build", "install", "PREFIX=/opt/plimsoll"])
        .arg(format!("DESTDIR={}", root.display()))
        .env("BINARIES", binaries(place))
        .current_dir(checkout())
        .output()
        .expect("make runs");
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(
        !stderr(&output).contains("plimsoll_gc"),
        "{}",
        stderr(&output)
    );
    root.join("opt/plimsoll")
}

#[test]
fn every_file_is_where_it_belongs() {
    let place = Place::new();
    let prefix = install(&place);
    for (name, mode) in FILES {
        let file = fs::metadata(prefix.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(file.permissions().mode() & 0o7777, mode, "{name}");
        let folder = fs::metadata(prefix.join(name).parent().unwrap()).unwrap();
        assert_eq!(folder.permissions().mode() & 0o777, 0o755, "above {name}");
    }
    let gc: Vec<_> = fs::read_dir(prefix.join("lib/plimsoll/gc"))
        .unwrap()
        .collect();
    assert_eq!(
        gc.len(),
        1,
        "who is pointed there finds nothing else: {gc:?}"
    );
    let described = fs::read_to_string(prefix.join("lib/pkgconfig/plimsoll-gc.pc")).unwrap();
    assert!(
        described.starts_with("prefix=/opt/plimsoll\n"),
        "{described}"
    );
    assert!(!described.contains('@'), "{described}");
    // Installs once more, over the existing files.
    let place = Place::new();
    install(&place);
}

/// Every file below a folder.
fn files_below(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files_below(&path, files);
        } else {
            files.push(path);
        }
    }
}

#[test]
fn no_installed_file_reads_a_variable_that_is_for_tests() {
    let place = Place::new();
    let prefix = install(&place);
    let mut files = Vec::new();
    files_below(&prefix, &mut files);
    assert!(files.len() >= FILES.len());
    // The list of changes tells of variables that are no longer read.
    files.retain(|file| !file.starts_with(prefix.join("share/doc")));
    for file in files {
        let text = fs::read(&file).unwrap();
        // Most places of a file begin no name, so only those that do are compared with each.
        let begins = |at: &usize| text[*at..].starts_with(b"PLIMSOLL_");
        for at in (0..text.len()).filter(begins) {
            let is = |name: &&&str| text[at..].starts_with(name.as_bytes());
            if let Some(name) = FOR_TESTS.iter().find(is) {
                panic!("{} names {name}, which is for tests", file.display());
            }
        }
    }
}

#[test]
fn an_installed_plimsoll_finds_its_drop_in() {
    let place = Place::new();
    let own = install(&place).join("bin/plimsoll");
    let output = place
        .program(own.to_str().unwrap(), &["doctor", "--json"])
        .output()
        .unwrap();
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let found = json["libgc"]["drop_in"]["path"].as_str().unwrap();
    assert!(
        found.ends_with("/opt/plimsoll/lib/plimsoll/gc/libgc.so.1"),
        "{found}"
    );
    assert_eq!(json["libgc"]["drop_in"]["version"], "8.2.2");
}

#[test]
fn programs_are_linked_with_it_by_pkg_config_and_use_the_systems_libgccpp() {
    let place = Place::new();
    let prefix = install(&place);
    let described = Command::new("pkg-config")
        .args(["--cflags", "--libs", "plimsoll-gc"])
        .arg(format!("--define-variable=prefix={}", prefix.display()))
        .env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"))
        .output();
    let described = match described {
        Ok(output) if output.status.success() => output,
        _ => return skip("pkg-config and libgc-dev are needed"),
    };
    let flags = String::from_utf8_lossy(&described.stdout).into_owned();
    assert!(
        !flags.contains("-lgc"),
        "the system's is not linked: {flags}"
    );
    let source = place.write("program.cc", PROGRAM);
    let program = place.path("program");
    let output = Command::new("c++")
        .arg(&source)
        .arg("-o")
        .arg(&program)
        .arg("-lgccpp")
        .args(flags.split_whitespace())
        .output();
    let Ok(output) = output else {
        return skip("there is no C++ compiler (c++)");
    };
    assert!(output.status.success(), "{}", stderr(&output));
    let output = Command::new(&program)
        .env_remove("LD_LIBRARY_PATH")
        .env_remove("LD_PRELOAD")
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let (cleaned, from) = told.split_once('\n').unwrap();
    assert_eq!(cleaned, "cleaned");
    assert_eq!(
        Path::new(from.trim_end()),
        prefix.join("lib/plimsoll/gc/libgc.so.1")
    );
}

#[test]
fn what_was_installed_is_removed_again_and_nothing_else() {
    let place = Place::new();
    let prefix = install(&place);
    let kept = prefix.join("lib/of-somebody-else");
    fs::write(&kept, "kept").unwrap();
    let uninstall = || {
        Command::new(checkout().join("tools/install.sh"))
            .args(["--uninstall", "/opt/plimsoll"])
            .env("DESTDIR", place.path("root"))
            .output()
            .unwrap()
    };
    let output = uninstall();
    assert!(output.status.success(), "{}", stderr(&output));
    let mut left = Vec::new();
    files_below(&place.path("root"), &mut left);
    assert_eq!(left, [kept]);
    assert!(!prefix.join("lib/plimsoll").exists());
    let again = uninstall();
    assert!(!again.status.success() && stderr(&again).contains("nothing to remove"));
}

/// The packages of Debian, by `packaging/dist.sh`, from these binaries.
fn packages(place: &Place, binaries: &Path, out: &str) -> PathBuf {
    let out = place.path(out);
    let output = Command::new(checkout().join("packaging/dist.sh"))
        .arg("deb")
        .env("BINARIES", binaries)
        .env("OUT", &out)
        .env("COMPRESSION", "0")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    out
}

/// The answer of `dpkg-deb` about a package in a folder.
fn told(option: &str, folder: &Path, name: &str) -> String {
    let is_it = |path: &PathBuf| {
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        file.starts_with(&format!("{name}_"))
    };
    let mut files = fs::read_dir(folder).unwrap().map(|it| it.unwrap().path());
    let package = files.find(is_it).unwrap();
    let output = Command::new("dpkg-deb").arg(option).arg(package).output();
    String::from_utf8(output.unwrap().stdout).unwrap()
}

#[test]
fn packages_share_the_files_out_and_are_the_same_each_time() {
    if Command::new("dpkg-deb").arg("--version").output().is_err() {
        return skip("there is no dpkg-deb");
    }
    let place = Place::new();
    let binaries = binaries(&place);
    // Symbols for debuggers would take most of the time, and are in no package.
    for entry in fs::read_dir(&binaries).unwrap() {
        let file = entry.unwrap().path();
        if file.is_symlink() {
            let whole = fs::canonicalize(&file).unwrap();
            fs::remove_file(&file).unwrap();
            let stripped = Command::new("strip")
                .arg("-o")
                .args([&file, &whole])
                .status();
            assert!(stripped.unwrap().success());
        }
    }
    place.write("binaries/libplimsoll.a", "");
    let out = packages(&place, &binaries, "one");
    for (name, file) in PACKAGES {
        let files = told("-c", &out, name);
        assert!(files.lines().any(|line| line.ends_with(file)), "{files}");
        let licence = format!("./usr/share/doc/{name}/copyright");
        assert!(files.contains(&licence), "{files}");
        let control = told("-f", &out, name);
        assert!(
            control.contains("libc6 (>= 2.34)") || name.ends_with("-dev"),
            "{control}"
        );
    }
    let about = told("-I", &out, "plimsoll");
    assert!(
        about.contains("conffiles") && about.contains("postinst"),
        "{about}"
    );
    let again = packages(&place, &binaries, "two");
    let sums = |out: &Path| fs::read_to_string(out.join("SHA256SUMS")).unwrap();
    assert_eq!(sums(&out), sums(&again));
}

#[test]
fn programs_and_libraries_run_on_the_oldest_c_library_that_packages_are_for() {
    let place = Place::new();
    let binaries = binaries(&place);
    let files = fs::read_dir(&binaries)
        .unwrap()
        .map(|it| it.unwrap().path());
    let output = Command::new(checkout().join("packaging/check.sh"))
        .arg("--elf")
        .args(files.filter(|file| file.is_symlink()))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
}
