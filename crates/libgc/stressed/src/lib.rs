//! `libgc.so.1` for tests: the same library as the installed one, with variables by which tests put
//! programs under stress. It is a crate of its own, not a feature: with a feature, cargo would rebuild the
//! real library under the same name, and `make install` could install that one.
//!
//! `PLIMSOLL_GC_STRESS=n` collects at every n-th allocation that takes the lock; `PLIMSOLL_GC_SEED`
//! selects what is absent. `PLIMSOLL_GC_FAIL=n` refuses every n-th call of the kernel that may be
//! refused.

use plimsoll_gc::stress::{Asked, ask};
use plimsoll_kernel::environment::variable;

/// The loader calls this before anything of the program can use the collector.
#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;

extern "C" fn begin() {
    ask(Asked {
        every: number("PLIMSOLL_GC_STRESS"),
        seed: number("PLIMSOLL_GC_SEED"),
        refuse: number("PLIMSOLL_GC_FAIL"),
    });
}

/// The number in a variable, 0 if it is not set. Another value ends the program, so that no test runs
/// without stress unnoticed.
fn number(name: &str) -> usize {
    let Some(said) = variable(name) else { return 0 };
    let number = said.to_str().and_then(|said| said.trim().parse().ok());
    number.unwrap_or_else(|| {
        eprintln!("libplimsoll_gc_stressed: {name} is no number: {said:?}");
        std::process::abort()
    })
}
