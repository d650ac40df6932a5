//! The machine under every plan, with every kind of heap; the traps of a heap whose limit moves; a
//! broker; memory pressure. MMTk allows one heap a process, so each case is a process of its own.
//!
//! | module | tests |
//! |---|---|
//! | `plans` | that programs compute the same under every plan and heap |
//! | `traps` | each trap of MMTk 0.33 that a trigger can step into |
//! | `broker` | that the heap follows a broker's limit |
//! | `daemon` | a real broker: stalls that are told to it, programs that die or hang, too small a limit |
//! | `pressure` | that the kernel's stalls shrink it; that memory is given back |

mod broker;
mod daemon;
mod plans;
mod pressure;
mod traps;

use serde_json::Value;
use std::process::{Command, Output, Stdio};

/// Every plan that collects; PageProtect takes a mapping for each object.
const PLANS: [&str; 9] = [
    "SemiSpace",
    "GenCopy",
    "GenImmix",
    "MarkSweep",
    "Immix",
    "MarkCompact",
    "Compressor",
    "StickyImmix",
    "ConcurrentImmix",
];

/// The machine with these arguments, words separated by spaces. No longer than five minutes: a
/// program that waits for ever is the worst that a trigger can do.
fn machine(arguments: &str) -> Command {
    let mut command = Command::new("timeout");
    command.args(["300", env!("CARGO_BIN_EXE_plimsoll-bench-vm")]);
    command.args(arguments.split_whitespace());
    for name in ["PLIMSOLL_PAGE", "PLIMSOLL_ID", "PLIMSOLL_SOCKET"] {
        command.env_remove(name);
    }
    command.stdin(Stdio::null());
    command
}

fn output(mut command: Command) -> Output {
    command.output().expect("the machine starts")
}

/// Runs it to its end, and returns what it told.
fn run(arguments: &str) -> Value {
    told(&output(machine(arguments)), arguments)
}

fn told(output: &Output, what: &str) -> Value {
    let said = String::from_utf8_lossy(&output.stdout);
    let erred = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{what}: {}\n{erred}",
        output.status
    );
    let line = said.lines().last().unwrap_or_default();
    serde_json::from_str(line).unwrap_or_else(|e| panic!("{what}: {e}: {line}"))
}

/// A number at a path such as `/figures/limit`.
fn number(told: &Value, path: &str) -> u64 {
    told.pointer(path)
        .and_then(Value::as_u64)
        .unwrap_or_else(|| panic!("no number {path} in {told}"))
}
