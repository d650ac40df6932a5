//! Toggle references: objects that the program keeps or lets go as it decides before each
//! collection, for runtimes whose objects have a native half.

use crate::collector;
use crate::settings::toggleref_func;
use libc::{c_int, c_void};

const SUCCESS: c_int = 0;
const DROP: u32 = 0;
const STRONG: u32 = 1;

/// Objects and whether they are kept.
#[derive(Default)]
pub(crate) struct Toggles {
    all: Vec<(usize, bool)>,
}

impl Toggles {
    /// Asks the program of each; the world runs.
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

    /// Objects that are kept.
    pub(crate) fn each_root(&self, mut root: impl FnMut(usize)) {
        self.all
            .iter()
            .filter(|(_, strong)| *strong)
            .for_each(|&(object, _)| root(object));
    }

    /// Forgets what died.
    pub(crate) fn forget_dead(&mut self, dead: &impl Fn(usize) -> bool) {
        self.all.retain(|&(object, strong)| strong || !dead(object));
    }
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_toggleref_add(object: *mut c_void, strong: c_int) -> c_int {
    if toggleref_func.get().is_some() {
        let entry = (object as usize, strong != 0);
        collector::lock().toggles.all.push(entry);
    }
    SUCCESS
}
