//! Stacks of Java threads, with the guard pages at their ends. Those of other threads are found by
//! their stack pointers, as in every program.

use super::fields::{Known, Machine, Name, Unknown};
use crate::area::Kind;
use crate::labels::Labels;
use plimsoll_kernel::smaps::Addresses;

/// Most Java threads that are labelled.
const MAX_THREADS: u64 = 1 << 16;
/// The largest stack that is believed, bytes. HotSpot allows 1 GiB (`-Xss`).
const MAX_STACK: u64 = 1 << 30;
const WHAT: &str = "the list of threads";
/// The list before JDK 17 (it exists since JDK 10, but is exported later).
const FIRST: Name = ("Threads", "_thread_list");
const NEXT: Name = ("JavaThread", "_next");

/// Labels the stacks.
pub(super) fn label(machine: &Machine<'_>, labels: &mut Labels) -> Known<()> {
    let threads = if machine.has(FIRST) {
        linked(machine)?
    } else {
        listed(machine)?
    };
    let all = threads.len();
    let mut unread = 0;
    for thread in threads {
        match stack(machine, thread) {
            Ok(stack) => labels.add(stack, Kind::Stacks),
            Err(_) => unread += 1,
        }
    }
    if unread > 0 {
        labels.note(format!(
            "where the stacks of {unread} of {all} Java threads are could not be read: the kernel's view \
             of them is used"
        ));
    }
    Ok(())
}

fn stack(machine: &Machine<'_>, thread: u64) -> Known<Addresses> {
    let base = machine.get(thread, ("JavaThread", "_stack_base"))?;
    let size = machine.get(thread, ("JavaThread", "_stack_size"))?;
    let start = base
        .checked_sub(size)
        .filter(|_| 0 < size && size <= MAX_STACK);
    // The kernel may have a hole there: a guard that was never mapped.
    let start = start.ok_or(Unknown::Odd(WHAT))?;
    machine.range(start, base, WHAT)
}

/// The threads of a list that the machine replaces as a whole when it changes.
fn listed(machine: &Machine<'_>) -> Known<Vec<u64>> {
    let list = machine.static_pointer(("ThreadsSMRSupport", "_java_thread_list"))?;
    let length = u64::from(machine.half(machine.at(list, ("ThreadsList", "_length"))?)?);
    let threads = machine.get(list, ("ThreadsList", "_threads"))?;
    if length > MAX_THREADS {
        return Err(Unknown::Odd(WHAT));
    }
    (0..length)
        .map(|index| {
            let at = threads.checked_add(index * 8);
            machine.word(at.ok_or(Unknown::Odd(WHAT))?)
        })
        .collect()
}

/// The threads of a linked list, which may change meanwhile.
fn linked(machine: &Machine<'_>) -> Known<Vec<u64>> {
    let mut threads = Vec::new();
    let mut thread = machine.get_static(FIRST)?;
    while thread != 0 && (threads.len() as u64) < MAX_THREADS {
        threads.push(thread);
        let Ok(next) = machine.get(thread, NEXT) else {
            break;
        };
        thread = next;
    }
    Ok(threads)
}
