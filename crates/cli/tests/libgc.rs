//! Programs on libgc under `plimsoll run`: which collector they get. Nothing else may change for them,
//! and none is killed for want of memory that lives without us.

mod common;

use common::ground::{enter, group, without_swap};
use common::{Place, library, stderr};
use plimsoll_testbed::children::copy_program;
use plimsoll_testbed::skip;
use plimsoll_unit::MIB;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Computes something and makes garbage; then prints which collectors and adapters are mapped.
const SCRIPT: &str = r#"
(use-modules (ice-9 rdelim) (srfi srfi-1))
(define (tree depth) (if (zero? depth) '() (cons (tree (- depth 1)) (tree (- depth 1)))))
(define (count t) (if (null? t) 1 (+ (count (car t)) (count (cdr t)))))
(let loop ((n 0) (sum 0))
  (if (< n 40) (loop (+ n 1) (+ sum (count (tree 12)))) (format #t "nodes ~a~%" sum)))
(define (mapped port)
  (let loop ((line (read-line port)) (found '()))
    (if (eof-object? line)
        (delete-duplicates found)
        (loop (read-line port)
              (let ((at (string-index line #\/)))
                (if (and at (or (string-contains line "libgc.so") (string-contains line "libplimsoll")))
                    (cons (substring line at) found)
                    found))))))
(for-each (lambda (file) (format #t "mapped ~a~%" file)) (call-with-input-file "/proc/self/maps" mapped))
"#;

/// Prints the library that provides GC_malloc, and its version.
const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <gc/gc.h>
#include <stdio.h>
int main(void)
{
    Dl_info from = {0};
    GC_INIT();
    dladdr((void *)GC_malloc, &from);
    printf("%x\nmapped %s\n", GC_get_version(), from.dli_fname ? from.dli_fname : "");
    return GC_MALLOC(10) == NULL;
}
"#;

/// The folders of our program and libraries: as installed, or as built.
enum Layout {
    Installed,
    Built,
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    if fs::hard_link(from, to).is_err() {
        copy_program(from, to).unwrap();
    }
}

/// Puts our program and libraries into this layout below the place, and returns the path of the program.
fn laid_out(place: &Place, layout: &Layout) -> PathBuf {
    let own = place.path("prefix/bin/plimsoll");
    copy(Path::new(env!("CARGO_BIN_EXE_plimsoll")), &own);
    let (drop_in, adapter) = match layout {
        Layout::Installed => ("lib/plimsoll/gc/libgc.so.1", "lib/plimsoll/"),
        Layout::Built => ("bin/libplimsoll_gc.so", "bin/"),
    };
    let prefix = place.path("prefix");
    copy(&library("libplimsoll_gc.so"), &prefix.join(drop_in));
    let name = "libplimsoll_libgc.so";
    copy(&library(name), &prefix.join(format!("{adapter}{name}")));
    own
}

/// A command that takes its collector from nothing in our own environment.
fn plain(place: &Place, program: &Path, args: &[&str]) -> Command {
    let mut command = place.program(program.to_str().unwrap(), args);
    for name in ["LD_PRELOAD", "LD_LIBRARY_PATH", "PLIMSOLL_LIBGC"] {
        command.env_remove(name);
    }
    command
}

fn run(place: &Place, own: &Path, args: &[&str]) -> Output {
    let output = plain(place, own, args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    output
}

/// The program's own output, and the libraries that it printed.
fn told(output: &Output) -> (String, Vec<String>) {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (libraries, rest): (Vec<&str>, _) =
        text.lines().partition(|line| line.starts_with("mapped "));
    let mut libraries: Vec<String> = libraries
        .iter()
        .map(|line| line.trim_start_matches("mapped ").to_owned())
        .collect();
    libraries.sort();
    (rest.join("\n"), libraries)
}

/// Whether there is exactly one library, with this ending.
fn only(libraries: &[String], end: &str) -> bool {
    libraries.len() == 1 && libraries[0].ends_with(end)
}

/// The output of Guile without `plimsoll run`. Without Guile, says so and returns `None`.
fn bare(place: &Place, script: &str) -> Option<(String, Vec<String>)> {
    match place
        .program("guile", &["--no-auto-compile", script])
        .output()
    {
        Ok(output) => Some(told(&output)),
        Err(_) => {
            skip("there is no guile (Debian: guile-3.0)");
            None
        }
    }
}

/// Compiles [`PROGRAM`]. If that fails, says so and returns `None`.
fn compiled(place: &Place, name: &str, flags: &[&str]) -> Option<PathBuf> {
    let source = place.write("program.c", PROGRAM);
    compiled_from(place, &source, name, flags)
}

/// Compiles this source likewise.
fn compiled_from(place: &Place, source: &Path, name: &str, flags: &[&str]) -> Option<PathBuf> {
    let program = place.path(name);
    let done = Command::new("cc")
        .arg(source)
        .arg("-o")
        .arg(&program)
        .args(flags)
        .output();
    if done.is_ok_and(|output| output.status.success()) {
        return Some(program);
    }
    skip(format_args!("cc and libgc-dev are needed, for {flags:?}"));
    None
}

#[test]
fn guile_gets_the_drop_in_and_prints_the_same() {
    let place = Place::new();
    let script = place.write("trees.scm", SCRIPT).display().to_string();
    let Some((printed, theirs)) = bare(&place, &script) else {
        return;
    };
    assert!(
        printed.contains("nodes 163840") && theirs.len() == 1,
        "{printed} {theirs:?}"
    );
    for (layout, variable, library) in [
        (Layout::Installed, "LD_LIBRARY_PATH=", "/gc/libgc.so.1"),
        (Layout::Built, "LD_PRELOAD=", "/libplimsoll_gc.so"),
    ] {
        let place = Place::new();
        let own = laid_out(&place, &layout);
        let args = ["run", "-v", "guile", "--no-auto-compile", &script];
        let output = run(&place, &own, &args);
        let (ours, libraries) = told(&output);
        assert_eq!(ours, printed);
        assert!(only(&libraries, library), "{libraries:?}");
        let said = stderr(&output);
        assert!(
            said.contains("libgc: the drop-in") && said.contains(variable),
            "{said}"
        );
        let sleeping = ["run", "-n", "sleeper", "guile", "-c", "(sleep 600)"];
        let mut command = place.program(own.to_str().unwrap(), &sleeping);
        let sleeper = common::Started(command.spawn().unwrap());
        assert_eq!(place.attached("sleeper").adapter.as_deref(), Some("libgc"));
        drop(sleeper);
    }
}

#[test]
fn the_systems_with_the_adapter_is_there_on_demand_also_inside_of_the_other() {
    let place = Place::new();
    let script = place.write("trees.scm", SCRIPT).display().to_string();
    let Some((printed, theirs)) = bare(&place, &script) else {
        return;
    };
    let own = laid_out(&place, &Layout::Installed);
    let own_name = own.to_str().unwrap();
    let stock = ["run", "-v", "-a", "libgc-stock"];
    let guile = ["guile", "--no-auto-compile", &script];
    let inside = ["run", "-a", "libgc", own_name];
    for args in [
        [&stock[..], &guile].concat(),
        [&inside[..], &stock, &guile].concat(),
    ] {
        let output = run(&place, &own, &args);
        let (ours, mut libraries) = told(&output);
        assert_eq!(ours, printed);
        libraries.retain(|library| !library.ends_with("libplimsoll_libgc.so"));
        assert_eq!(libraries, theirs, "{args:?}");
        let said = stderr(&output);
        assert!(
            said.contains("libgc: the system's, with the adapter"),
            "{said}"
        );
    }
    // And with the drop-in inside a program on the system's libgc, if that is asked for.
    let outside = ["run", "-a", "libgc-stock", own_name, "run", "-a", "libgc"];
    let (_, libraries) = told(&run(&place, &own, &[&outside[..], &guile].concat()));
    assert!(only(&libraries, "/gc/libgc.so.1"), "{libraries:?}");
}

#[test]
fn what_a_script_starts_gets_it_when_that_is_said() {
    let place = Place::new();
    let script = place.write("trees.scm", SCRIPT).display().to_string();
    let Some((printed, theirs)) = bare(&place, &script) else {
        return;
    };
    let own = laid_out(&place, &Layout::Installed);
    let line = format!("exec guile --no-auto-compile {script}");
    let said = ["run", "-a", "libgc", "sh", "-c", &line];
    let (ours, libraries) = told(&run(&place, &own, &said));
    assert_eq!(ours, printed);
    assert!(only(&libraries, "/gc/libgc.so.1"), "{libraries:?}");
    let (ours, libraries) = told(&run(&place, &own, &["run", "sh", "-c", &line]));
    assert_eq!((ours, libraries), (printed, theirs));
}

#[test]
fn a_program_that_names_its_own_places_gets_it_too() {
    let place = Place::new();
    let own = laid_out(&place, &Layout::Installed);
    let places =
        "-Wl,-rpath,/usr/lib/x86_64-linux-gnu:/usr/lib/aarch64-linux-gnu:/usr/lib64:/usr/lib";
    for (name, tags, variable) in [
        ("runpath", "-Wl,--enable-new-dtags", "LD_LIBRARY_PATH="),
        ("rpath", "-Wl,--disable-new-dtags", "LD_PRELOAD="),
    ] {
        let Some(program) = compiled(&place, name, &[tags, places, "-lgc"]) else {
            return;
        };
        let output = run(&place, &own, &["run", "-v", program.to_str().unwrap()]);
        let (_, libraries) = told(&output);
        assert!(only(&libraries, "/gc/libgc.so.1"), "{name}: {libraries:?}");
        assert!(
            stderr(&output).contains(variable),
            "{name}: {}",
            stderr(&output)
        );
    }
}

#[test]
fn a_static_program_keeps_its_own() {
    let place = Place::new();
    let own = laid_out(&place, &Layout::Installed);
    let Some(program) = compiled(&place, "static", &["-static", "-lgc"]) else {
        return;
    };
    let program = program.to_str().unwrap();
    for args in [
        vec!["run", "-v", program],
        vec!["run", "-v", "-a", "libgc", program],
    ] {
        let (_, libraries) = told(&run(&place, &own, &args));
        assert!(
            !libraries.iter().any(|path| path.contains("libgc.so")),
            "{libraries:?}"
        );
    }
    let said = stderr(&run(&place, &own, &["run", "-v", program]));
    assert!(said.contains("nothing is added"), "{said}");
}

#[test]
fn a_set_user_id_program_keeps_the_systems() {
    let place = Place::new();
    let own = laid_out(&place, &Layout::Installed);
    let Some(program) = compiled(&place, "another", &["-lgc"]) else {
        return;
    };
    if std::os::unix::fs::chown(&program, Some(65534), None).is_err() {
        skip("only root may give a program to another user");
        return;
    }
    fs::set_permissions(&program, PermissionsExt::from_mode(0o4755)).unwrap();
    let output = run(&place, &own, &["run", "-v", program.to_str().unwrap()]);
    let (_, libraries) = told(&output);
    assert!(!only(&libraries, "/gc/libgc.so.1"), "{libraries:?}");
    assert!(
        stderr(&output).contains("set-user-ID"),
        "{}",
        stderr(&output)
    );
}

/// In groups without swap, of this many MiB, with 40 MB alive.
#[test]
fn no_program_is_killed_under_the_broker_that_lives_without_it() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../libgc/tests/c-alone/cliff.c");
    for limit in [128, 200] {
        let place = Place::new();
        let own = laid_out(&place, &Layout::Installed);
        let flags = ["-O1", "-pthread", "-Wno-deprecated-declarations", "-lgc"];
        let Some(program) = compiled_from(&place, &source, "cliff", &flags) else {
            return;
        };
        let in_a_group = |name: &str, mut command: Command| {
            let group = group(name, limit * MIB)?;
            if !without_swap(&group, limit * MIB) {
                return None;
            }
            enter(&mut command, &group);
            let output = command.output().unwrap();
            Some((output, group.killed()))
        };
        let work = ["nodes", "40", "1000000"];
        let Some((theirs, _)) = in_a_group("alone", plain(&place, &program, &work)) else {
            return;
        };
        if !theirs.status.success() {
            skip(format_args!("libgc's own is killed in {limit} MiB"));
            continue;
        }
        let words = ["run", "-v", "-n", "cliff", "--", program.to_str().unwrap()];
        let words = [&words[..], &work].concat();
        let (ours, killed) = in_a_group("broker", plain(&place, &own, &words)).unwrap();
        let said = stderr(&ours);
        assert!(said.contains("libgc: the drop-in"), "{said}");
        assert!(ours.status.success(), "{limit} MiB: {} {said}", ours.status);
        assert!(ours.stdout.ends_with(b"sound\n"), "{limit} MiB: {said}");
        assert_eq!(killed, 0, "in {limit} MiB");
    }
}

#[test]
fn doctor_finds_the_drop_in_and_loads_it() {
    let place = Place::new();
    let own = laid_out(&place, &Layout::Installed);
    let output = run(&place, &own, &["doctor"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // A long path stands in a line of its own, and its end has no room there; the JSON has all of it.
    let is_of_it = |line: &&str| line.contains(" drop-in ") && line.contains("8.2.2");
    let lines = text.lines().skip_while(|line| !is_of_it(line)).take(2);
    let told = lines.collect::<Vec<&str>>().join(" ");
    assert!(
        told.starts_with("ok ") && told.contains("8.2.2, ") && told.contains("/plimsoll/gc/"),
        "{text}"
    );
    let output = run(&place, &own, &["doctor", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["libgc"]["drop_in"]["version"], "8.2.2");
    let path = json["libgc"]["drop_in"]["path"]
        .as_str()
        .unwrap_or_default();
    assert!(path.ends_with("gc/libgc.so.1"), "{path}");
    assert_eq!(json["libgc"]["tiers"].as_array().unwrap().len(), 4);
}

#[test]
fn what_a_collector_tells_is_shown() {
    let place = Place::new();
    let own = laid_out(&place, &Layout::Installed);
    let churn = "(let loop () (make-vector 1000 0) (loop))";
    let args = [
        "run",
        "-a",
        "libgc-stock",
        "-m",
        "64M",
        "-n",
        "churn",
        "guile",
        "-c",
        churn,
    ];
    if Command::new("guile").arg("--version").output().is_err() {
        return skip("there is no guile (Debian: guile-3.0)");
    }
    let mut command = place.program(own.to_str().unwrap(), &args);
    let _churn = common::Started(command.spawn().unwrap());
    let known = || {
        let told = place.principal("churn")?.collector?;
        (told.last_pause_us? > 0).then_some(told)
    };
    let told = common::wait_for("it tells of a pause", known);
    assert!(told.longest_pause_us >= told.last_pause_us, "{told:?}");
    assert!(told.heap.is_some_and(|bytes| bytes > 1 << 20), "{told:?}");
    assert_eq!(
        (told.summaries, told.absent),
        (None, None),
        "it cannot know"
    );
    let page = place.text(&["top", "--once", "-g", "churn"]);
    let line = |name: &str| page.lines().find(|line| line.starts_with(name)).unwrap();
    assert!(line(" churn ").contains("libgc"), "{page}");
    assert!(line(" LAST PAUSE").contains(" ms  the program"), "{page}");
    assert!(!page.contains("SUMMARIES"), "it cannot know: {page}");
    let json: serde_json::Value = serde_json::from_str(&place.text(&["ps", "--json"])).unwrap();
    let shown = &json["principals"][0]["collector"];
    assert!(
        shown["longest_pause_us"].is_u64() && shown["retained"].is_null(),
        "{shown}"
    );
    let nobody = place.call(&["top", "--once", "-g", "nobody"]);
    assert_eq!(nobody.status.code(), Some(1), "{}", stderr(&nobody));
}
