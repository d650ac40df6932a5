//! Class files that are not as they should be: nothing makes the rewriter panic, and what it writes is read
//! again. The fuzz target `classes` does the same for longer, led by coverage.

use plimsoll_testbed::java::javac;
use plimsoll_testbed::skip;
use plimsoll_tracer::classfile::file::rewrite;
use plimsoll_tracer::classfile::instructions::parameters;
use plimsoll_tracer::classfile::method::Woven;
use plimsoll_tracer::recorder_class;
use plimsoll_tracer::weave::{What, weave};
use proptest::prelude::*;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

/// The class of the recorder, and those of the tests' programs if there is a compiler.
fn classes() -> &'static [Vec<u8>] {
    static CLASSES: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    CLASSES.get_or_init(|| {
        let mut classes = vec![recorder_class::class_file().unwrap()];
        let Some(javac) = javac() else {
            skip(format_args!("no javac"));
            return classes;
        };
        let folder = tempfile::tempdir().unwrap();
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/java");
        let mut command = Command::new(javac);
        command.args(["--release", "11", "-d"]).arg(folder.path());
        command.args(["Shapes.java", "Deep.java"].map(|source| sources.join(source)));
        assert!(command.status().unwrap().success());
        for entry in std::fs::read_dir(folder.path()).unwrap() {
            classes.push(std::fs::read(entry.unwrap().path()).unwrap());
        }
        classes
    })
}

/// Rewrites a class in both ways. Returns how many methods stay as they are, and whether anything changed;
/// `None` if it is no class.
fn rewritten(bytes: &[u8]) -> Option<(u64, bool)> {
    let mut sums = (0, false);
    for what in [What::All, What::Waits] {
        let mut key = |_: &[u8], _: &[u8], _: &[u8]| 7;
        let written = rewrite(bytes, &mut |about, code, pool| {
            weave(about, code, pool, what, &mut key)
        });
        let written = written.ok()?;
        sums.0 += written.left;
        let Some(new) = written.bytes else { continue };
        sums.1 = true;
        let again = rewrite(&new, &mut |_, code, _| {
            Ok(Woven::nothing(code.instructions.len()))
        });
        assert!(
            again.unwrap().left <= written.left,
            "what was written is not read"
        );
    }
    Some(sums)
}

#[test]
fn whole_classes_are_rewritten_whole() {
    let all: Vec<_> = classes().iter().map(|class| rewritten(class)).collect();
    assert!(all.iter().all(|it| matches!(it, Some((0, _)))), "{all:?}");
    assert!(all.len() == 1 || all.contains(&Some((0, true))));
}

#[test]
fn cut_classes_are_refused() {
    for class in classes() {
        // Bytes after the methods are not read.
        for length in 0..(class.len() / 2).min(512) {
            assert_eq!(rewritten(&class[..length]), None, "{length}");
        }
    }
}

#[test]
fn methods_have_no_more_parameters_than_they_can_have() {
    let of = |count: usize| format!("({})V", "J".repeat(count));
    assert_eq!(
        parameters(of(255).as_bytes()).map(|all| all.len()),
        Some(255)
    );
    assert_eq!(parameters(of(256).as_bytes()), None);
    assert_eq!(parameters(b""), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn damaged_classes_harm_nothing(
        which in any::<prop::sample::Index>(),
        damage in prop::collection::vec(
            (any::<prop::sample::Index>(), any::<[u8; 2]>(), any::<bool>()),
            1..6,
        ),
    ) {
        let mut class = which.get(classes()).clone();
        for (place, bytes, both) in damage {
            let place = place.index(class.len() - 1);
            class[place] = bytes[0];
            if both {
                class[place + 1] = bytes[1];
            }
        }
        rewritten(&class);
    }
}
