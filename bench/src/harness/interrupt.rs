//! Ctrl-C and SIGTERM end a measurement in good order: programs are ended, and cgroup and swap file removed,
//! before this process exits.

use crate::{Error, Result};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

static TOLD: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// From now on the first of these signals is noted, instead of ending this process at once.
///
/// # Errors
/// When the kernel refuses the handlers.
pub fn listen() -> std::io::Result<()> {
    let told = TOLD.get_or_init(Arc::default);
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        // The second one ends this process at once.
        signal_hook::flag::register_conditional_default(signal, Arc::clone(told))?;
        signal_hook::flag::register(signal, Arc::clone(told))?;
    }
    Ok(())
}

/// Returns an error once a signal came, so that loops end.
///
/// # Errors
/// When a signal came.
pub fn check() -> Result<()> {
    match TOLD.get() {
        Some(told) if told.load(Ordering::Relaxed) => Err(Error::Interrupted),
        _ => Ok(()),
    }
}
