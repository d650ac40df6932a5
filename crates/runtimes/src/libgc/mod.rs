//! Programs on the Boehm collector. They are steered from inside, by a library that replaces their
//! libgc or is loaded beside it.
//!
//! The *drop-in* is our own `libgc.so.1`. The *adapter* steers the system's libgc. Both are loaded
//! through variables of the loader, the only way to reach an unmodified program.
//!
//! The drop-in is found by `LD_LIBRARY_PATH`, in a directory that holds nothing else. So every
//! program that needs `libgc.so.1` gets it, including children, and no other program is affected.
//! If it was preloaded, it would be in every child, and its symbols would come before those of a
//! collector that a library carries itself. In two cases the loader does not find it by that
//! variable: if an executable has a `DT_RPATH` (not `DT_RUNPATH`), which is searched first, and in
//! a build tree, where the file has another name. Then it is preloaded. Its soname is `libgc.so.1`,
//! so the loader takes the need as met.
//!
//! Rooms inside: `libraries` (which library a program gets), `stock` (the
//! system's libgc).

mod libraries;
mod stock;
#[cfg(test)]
mod tests;

pub use libraries::Libraries;
pub use plimsoll_programs::libgc::LibGc;
pub use stock::{system, version};

use crate::lever_options::Choice;
use crate::runtime::{Addition, Runtime, Start, Steered};
use libraries::Wish;
use plimsoll_programs::privileges;

/// The name of the adapter and the value of `--adapter`.
const NAME: &str = "libgc";
const STOCK: &str = "libgc-stock";

impl Runtime for LibGc {
    fn choices(&self) -> &'static [Choice] {
        &[
            Choice {
                name: NAME,
                help: "A program on the Boehm-Demers-Weiser collector (Guile, say): it gets our libgc.so.1",
            },
            Choice {
                name: STOCK,
                help: "The same on the system's libgc.so.1, which an adapter in it steers",
            },
        ]
    }

    /// Build tools such as make are extended in Guile, so they use libgc without being the program
    /// that matters.
    fn gives_way(&self) -> bool {
        true
    }

    fn prepare(&self, start: &Start<'_>) -> Addition {
        let own = start.plan.own.as_deref();
        prepare(start, &own.map_or_else(Libraries::default, Libraries::of))
    }

    fn steered(&self) -> Steered {
        Steered::Inside
    }
}

fn prepare(start: &Start<'_>, libraries: &Libraries) -> Addition {
    let executable = start.command.executable();
    if let Some(why) = executable.and_then(privileges::privileges) {
        let note = format!(
            "libgc: the program {why}, so the loader takes no library from us: it is passive"
        );
        return Addition {
            notes: vec![note],
            ..Addition::default()
        };
    }
    let wish = match start.plan.said {
        Some(NAME) => Wish::DropIn,
        Some(STOCK) => Wish::Stock,
        _ => Wish::Any,
    };
    let put = libraries.put(wish, executable, start.command.setting);
    Addition {
        environment: put.environment,
        steered: put.steered,
        notes: vec![put.note],
        ..Addition::default()
    }
}
