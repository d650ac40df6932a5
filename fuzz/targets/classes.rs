//! Reads bytes as a class file and inserts what a recording needs: nothing makes the rewriter panic, loop, or
//! take more memory than a class file can need; what it writes is read again, method by method, and each
//! method has the instructions that it had, in their order.

#![no_main]

use plimsoll_tracer::classfile::file::rewrite;
use plimsoll_tracer::classfile::method::Woven;
use plimsoll_tracer::weave::{self, What};

/// More bytes than a class file gets by what is inserted: those of the methods, times this.
const GROWTH: usize = 64;
/// Bytes that even a small class file may get: the added constants.
const CONSTANTS: usize = 64 << 10;

/// The instructions of each method whose code can be read: what each does. Calls are one kind, because some
/// are replaced by others.
fn methods(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut methods = Vec::new();
    let read = rewrite(bytes, &mut |_, code, _| {
        let kind = |opcode: u8| if (182..=184).contains(&opcode) { 182 } else { opcode };
        methods.push(code.instructions.iter().map(|it| kind(it.opcode)).collect());
        Ok(Woven::nothing(code.instructions.len()))
    });
    let read = read.expect("what was read once is read again");
    assert!(read.bytes.is_none(), "nothing was inserted");
    methods
}

fn inserted(bytes: &[u8], what: What) {
    let mut keys = 0;
    let mut key = |_: &[u8], _: &[u8], _: &[u8]| {
        keys += 1;
        // Small and large numbers are written differently.
        keys * 1000
    };
    let written = rewrite(bytes, &mut |about, code, pool| weave::weave(about, code, pool, what, &mut key));
    let Ok(Some(new)) = written.map(|written| written.bytes) else {
        return;
    };
    assert!(new.len() <= GROWTH * bytes.len() + CONSTANTS, "{} of {}", new.len(), bytes.len());
    let (old, new) = (methods(bytes), methods(&new));
    assert_eq!(old.len(), new.len(), "a method is lost");
    for (old, new) in old.iter().zip(&new) {
        let mut all = new.iter();
        assert!(old.iter().all(|it| all.any(|other| other == it)), "an instruction is lost");
    }
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    inserted(bytes, What::All);
    inserted(bytes, What::Waits);
});
