//! The table of places: what `plimsoll map` tells of a program on this library is what the library
//! itself says.

#[path = "support/library.rs"]
mod library;

use plimsoll_map::{Kind, Look, Options, look};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Ends a program when the test ends.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn bytes_of(look: &Look, kind: Kind) -> u64 {
    let areas = look.areas.iter().filter(|area| area.kind == kind);
    areas.map(|area| area.states.size).sum()
}

#[test]
fn heap_and_free_heap_are_what_the_library_says() {
    let script = "(define held (iota 3000000))
        (define large (map (lambda (_) (make-vector 131072 0)) (iota 50)))
        (set! large (list-head large 25))
        (gc) (gc)
        (define says (gc-stats))
        (define (says-of name) (assq-ref says name))
        (format #t \"~a ~a\\n\" (says-of 'heap-size) (says-of 'heap-free-size))
        (force-output) (read-char) (display (+ (length held) (length large)))";
    if Command::new("guile").arg("--version").output().is_err() {
        plimsoll_testbed::skip("there is no Guile");
        return;
    }
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("map");
    library::link(&directory);
    let child = Command::new("guile")
        .args(["--no-auto-compile", "-c", script])
        .env("LD_LIBRARY_PATH", &directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let mut child = Ended(child.expect("it starts"));
    let mut line = String::new();
    let out = child.0.stdout.take().expect("piped");
    BufReader::new(out).read_line(&mut line).expect("a line");
    let said: Vec<u64> = line.split_whitespace().flat_map(str::parse).collect();
    let [heap, free] = said[..] else {
        panic!("it says {line:?}");
    };
    let look = look(child.0.id() as i32, &Options::default()).expect("it runs");
    assert_eq!(look.runtime.as_deref(), Some("libgc"));
    let (seen, seen_free) = (bytes_of(&look, Kind::Heap), bytes_of(&look, Kind::FreeHeap));
    let all = format!("{heap} {free}: {seen} {seen_free}, {:?}", look.notes);
    // The library's own size of the heap is how far it may grow before it collects.
    let used = heap - free;
    assert!(used > 70 << 20, "{all}");
    assert!(seen.abs_diff(used) <= used / 20, "{all}");
    assert!(seen_free > 20 << 20 && seen + seen_free <= heap, "{all}");
    assert!(bytes_of(&look, Kind::Collector) > 0, "{all}");
}
