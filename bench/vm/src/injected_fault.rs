//! A machine that dies or hangs while its threads are stopped for a collection. For tests of what that
//! does to others.

use crate::world;
use std::sync::OnceLock;
use std::time::Duration;

/// A fault of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// It ends at once, in this collection; the first is 0.
    Dies(u64),
    /// This collection never ends.
    Hangs(u64),
}

static EXPECTED: OnceLock<Trouble> = OnceLock::new();

/// Sets the fault that is to happen. Called once, before the heap is built.
pub(crate) fn expect(trouble: Trouble) {
    let _ = EXPECTED.set(trouble);
}

/// The program's threads were stopped for a collection.
pub(crate) fn stopped() {
    match EXPECTED.get() {
        Some(Trouble::Dies(at)) if *at == world::pauses() => {
            // No handler and no destructor of the library runs, as if the kernel had killed it.
            std::process::abort();
        }
        Some(Trouble::Hangs(at)) if *at == world::pauses() => {
            println!("hangs");
            loop {
                std::thread::sleep(Duration::from_secs(3600));
            }
        }
        _ => {}
    }
}
