//! Programs on the Boehm collector: what is put in the place of their libgc, or loaded beside it. They are
//! steered from inside.
//!
//! The *drop-in* is our own `libgc.so.1`; the *adapter* steers the system's from inside. Both go
//! through the loader's variables, because a program that is to stay as it is can be reached in no
//! other way.
//!
//! The drop-in is found by `LD_LIBRARY_PATH`, in a directory that holds nothing else: whoever needs
//! `libgc.so.1` gets it, the program's children too, and nobody else ever sees it. Preloaded it
//! would be in every child, and its names would come before those of a collector that a library
//! carries itself. Two things make the loader pass over that variable: an executable with a
//! `DT_RPATH` (not `DT_RUNPATH`) is searched for there first, and in a build tree the file has
//! another name. There it is preloaded: its soname is `libgc.so.1`, so for the loader the need is
//! met already.
//!
//! Rooms inside: `names` (of its files), `libraries` (which of them a program gets), `stock` (the system's).

mod libraries;
mod names;
mod stock;
#[cfg(test)]
mod tests;

pub use libraries::Libraries;
pub use stock::{system, version};

use crate::detect::{Candidate, Command};
use crate::runtime::{Addition, Choice, Runtime, Start, Steered};
use crate::{elf, privileges};
use libraries::Wish;
use names::{NEEDED, is_libgc};

/// What is given as `--adapter`.
const NAME: &str = "libgc";
const STOCK: &str = "libgc-stock";

/// Programs that use the Boehm-Demers-Weiser collector as a library, `libgc.so.1`.
#[derive(Clone, Copy, Debug)]
pub struct LibGc;

impl Runtime for LibGc {
    fn name(&self) -> &'static str {
        NAME
    }

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

    fn starts(&self, command: &Command<'_>) -> bool {
        let needs = |executable| elf::needs(executable, NEEDED.as_bytes());
        command.executable().is_some_and(needs)
    }

    /// Build tools are extended in Guile.
    fn gives_way(&self) -> bool {
        true
    }

    fn prepare(&self, start: &Start<'_>) -> Addition {
        let own = start.plan.own.as_deref();
        prepare(start, &own.map_or_else(Libraries::default, Libraries::of))
    }

    fn runs(&self, process: &Candidate) -> bool {
        process.names().any(is_libgc)
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
