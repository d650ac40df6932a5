//! Toggle references: before each collection the program decides for each object whether it stays
//! alive. For runtimes whose objects have a native half.

use crate::abi::variables::toggleref_func;
use libc::c_void;

const DROP: u32 = 0;
const STRONG: u32 = 1;

/// The objects, and whether each is kept. Guarded by the collector's lock.
#[derive(Default)]
pub(crate) struct Toggles {
    all: Vec<(usize, bool)>,
}

impl Toggles {
    /// Adds an object.
    pub(crate) fn add(&mut self, object: usize, strong: bool) {
        self.all.push((object, strong));
    }

    /// Calls the program's function for each object. The world runs.
    pub(crate) fn decide(&mut self) {
        let Some(ask) = toggleref_func.get() else {
            return;
        };
        self.all
            .retain_mut(|(object, strong)| match ask(*object as *mut c_void) {
                DROP => false,
                said => {
                    *strong = said == STRONG;
                    true
                }
            });
    }

    /// Calls `root` with each object that is kept.
    pub(crate) fn each_root(&self, mut root: impl FnMut(usize)) {
        self.all
            .iter()
            .filter(|(_, strong)| *strong)
            .for_each(|&(object, _)| root(object));
    }

    /// Removes dead objects.
    pub(crate) fn forget_dead(&mut self, dead: &impl Fn(usize) -> bool) {
        self.all.retain(|&(object, strong)| strong || !dead(object));
    }
}
