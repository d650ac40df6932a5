//! Ctrl-C and SIGTERM end a measurement in good order: programs are ended, and cgroup and swap file removed,
//! before this process exits.

use crate::{Error, Result};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::iterator::Signals;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Signals within this time of the first one are the same wish: `timeout` sends its signal to the process,
/// and then to the process's group.
const SAME: Duration = Duration::from_secs(1);

static TOLD: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// From now on the first of these signals is noted, instead of ending this process at once. A later one ends
/// it at once.
///
/// # Errors
/// When the system refuses the handlers or a thread.
pub fn listen() -> std::io::Result<()> {
    let told = TOLD.get_or_init(Arc::default);
    let ends = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        flag::register_conditional_default(signal, Arc::clone(&ends))?;
        flag::register(signal, Arc::clone(told))?;
    }
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    std::thread::Builder::new()
        .name("interrupt".to_owned())
        .spawn(move || {
            if signals.forever().next().is_some() {
                std::thread::sleep(SAME);
                ends.store(true, Ordering::Relaxed);
            }
        })?;
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
