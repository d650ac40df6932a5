//! Toggle references: before each collection the program decides for each object whether it stays
//! alive. For runtimes whose objects have a native half.

use crate::settings::toggleref_func;
use crate::state;
use libc::{c_int, c_void};

const SUCCESS: c_int = 0;
const DROP: u32 = 0;
const STRONG: u32 = 1;

/// The objects, and whether each is kept. Guarded by the collector's lock.
#[derive(Default)]
pub(crate) struct Toggles {
    all: Vec<(usize, bool)>,
}

impl Toggles {
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

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_toggleref_add(object: *mut c_void, strong: c_int) -> c_int {
    if toggleref_func.get().is_some() {
        let entry = (object as usize, strong != 0);
        state::lock().program.toggles.all.push(entry);
    }
    SUCCESS
}
