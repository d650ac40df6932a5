//! Ctrl-C and SIGTERM end a measurement in good order: programs, cgroup and swap file go first.

use crate::{Error, Result};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

static TOLD: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// From now on the signals are noted instead of ending us at once.
///
/// # Errors
/// When the kernel refuses the handlers.
pub fn listen() -> std::io::Result<()> {
    let told = TOLD.get_or_init(Arc::default);
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        // The second one ends us at once.
        signal_hook::flag::register_conditional_default(signal, Arc::clone(told))?;
        signal_hook::flag::register(signal, Arc::clone(told))?;
    }
    Ok(())
}

/// Whether to go on.
///
/// # Errors
/// When a signal came.
pub fn check() -> Result<()> {
    match TOLD.get() {
        Some(told) if told.load(Ordering::Relaxed) => Err(Error::Interrupted),
        _ => Ok(()),
    }
}
