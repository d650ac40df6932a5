//! With the recorder, a machine refuses and takes the same classes as without it. Classes are damaged
//! where they say how much room they need and what they refer to, and real machines load each of them as it
//! is and as the recorder would rewrite it.

use plimsoll_testbed::java::{javac, jdks};
use plimsoll_testbed::skip;
use plimsoll_tracer::classfile::file::rewrite;
use plimsoll_tracer::weave::{What, weave};
use std::io::Write;
use std::path::Path;
use std::process::Command;

/// Damaged classes that are tried.
const TRIES: usize = 6000;
/// Bytes before a method's instructions that say how many there are, and of their room.
const HEAD: usize = 12;
/// Bytes after them that are damaged, too: handlers, frames, lines and variables.
const TAIL: usize = 160;

/// Numbers that look drawn, the same each time.
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) as usize % bound.max(1)
    }
}

/// A class as the recorder would rewrite it; `None` if it would leave it. `found` is told where each method's
/// instructions are.
fn rewritten(class: &[u8], found: &mut dyn FnMut(usize, usize)) -> Option<Vec<u8>> {
    let begin = class.as_ptr() as usize;
    let mut key = |_: &[u8], _: &[u8], _: &[u8]| 7;
    let written = rewrite(class, &mut |about, code, pool| {
        found(code.bytes.as_ptr() as usize - begin, code.bytes.len());
        weave(about, code, pool, What::All, &mut key)
    });
    written.ok()?.bytes
}

/// Damages a byte or two of one method.
fn damaged(class: &[u8], methods: &[(usize, usize)], draw: &mut Draw) -> Vec<u8> {
    let mut class = class.to_vec();
    let (at, length) = methods[draw.below(methods.len())];
    for _ in 0..=draw.below(2) {
        let from = at - HEAD;
        // Half of it in the numbers before the instructions.
        let place = match draw.below(2) {
            0 => from + draw.below(HEAD),
            _ => from + draw.below(HEAD + length + TAIL),
        };
        let Some(byte) = class.get_mut(place) else {
            continue;
        };
        *byte = match draw.below(3) {
            0 => byte.wrapping_add(1),
            1 => byte.wrapping_sub(1),
            _ => draw.below(256) as u8,
        };
    }
    class
}

/// Compiles the programs of tests with all that a compiler writes for debuggers.
fn compile(javac: &Path, into: &Path) -> Vec<Vec<u8>> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/java");
    let sources =
        ["Shapes.java", "Deep.java", "Lives.java", "Loads.java"].map(|it| sources.join(it));
    let mut command = Command::new(javac);
    command
        .args(["-g", "--release", "11", "-d"])
        .arg(into)
        .args(sources);
    assert!(command.status().unwrap().success());
    let files = std::fs::read_dir(into).unwrap();
    let mut files: Vec<_> = files.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
        .iter()
        .map(|file| std::fs::read(file).unwrap())
        .collect()
}

#[test]
fn what_a_machine_refuses_is_refused_when_it_is_recorded_and_nothing_else_is() {
    let Some(javac) = javac() else {
        return skip("no javac");
    };
    let folder = tempfile::tempdir().unwrap();
    let classes = compile(&javac, folder.path());
    let mut draw = Draw(1);
    let mut pairs = Vec::new();
    let of_methods = |class: &[u8]| {
        let mut methods = Vec::new();
        rewritten(class, &mut |at, length| methods.push((at, length)));
        methods
    };
    let known: Vec<_> = classes.iter().map(|class| of_methods(class)).collect();
    for _ in 0..TRIES {
        let which = draw.below(classes.len());
        if known[which].is_empty() {
            continue;
        }
        let class = damaged(&classes[which], &known[which], &mut draw);
        pairs.extend(rewritten(&class, &mut |_, _| {}).map(|new| (class, new)));
    }
    let list = folder.path().join("list");
    let mut out = std::io::BufWriter::new(std::fs::File::create(&list).unwrap());
    for class in pairs.iter().flat_map(|(class, new)| [class, new]) {
        out.write_all(&(class.len() as u32).to_be_bytes()).unwrap();
        out.write_all(class).unwrap();
    }
    drop(out);
    for jdk in jdks() {
        let said = loaded(&jdk.java(), &list, folder.path());
        assert_eq!(said.len(), 2 * pairs.len());
        let (mut refused, mut faults) = (0, Vec::new());
        for (index, both) in said.chunks(2).enumerate() {
            refused += usize::from(!both[0].is_empty());
            if both[0] != both[1] {
                faults.push((index, &both[0], &both[1]));
            }
        }
        let (version, all) = (jdk.version, pairs.len());
        assert!(
            faults.is_empty(),
            "{version}: {} of {all}: {faults:?}",
            faults.len()
        );
        // There are enough of both kinds to tell.
        assert!(refused > 100 && refused < all - 100, "{refused} of {all}");
    }
}

/// The output of a virtual machine for each class of a list.
fn loaded(java: &Path, list: &Path, folder: &Path) -> Vec<String> {
    let mut command = Command::new(java);
    command
        .args(["-Xmx600m", "-XX:+UseSerialGC", "-cp"])
        .arg(folder);
    let output = command.arg("Loads").arg(list).arg(folder).output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let said = String::from_utf8(output.stdout).unwrap();
    said.lines().map(str::to_owned).collect()
}
