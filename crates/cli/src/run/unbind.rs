//! Lifts the bound of a program whose broker was killed and not started again: nobody else would.

use plimsoll_client::Principal;
use plimsoll_kernel::cgroup::Cgroup;
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tracing::{debug, info, warn};

/// The pause between two looks.
const PACE: Duration = Duration::from_secs(5);
/// So many looks in a row find no broker before the bound is lifted. One that was restarted has come back by
/// then.
const LOOKS: u32 = 2;

/// Begins to watch, until the principal is dropped.
pub(super) fn watch(principal: &Arc<Principal>, dir: &Path) {
    let (principal, dir) = (Arc::downgrade(principal), dir.to_path_buf());
    let thread = std::thread::Builder::new().name("unbind".into());
    if let Err(error) = thread.spawn(move || run(&principal, &dir)) {
        warn!("no thread to lift the program's bound if its broker is killed: {error}");
    }
}

fn run(principal: &Weak<Principal>, dir: &Path) {
    let mut alone = 0;
    while let Some(principal) = principal.upgrade() {
        alone = if principal.id().is_some() {
            0
        } else {
            alone + 1
        };
        drop(principal);
        if alone == LOOKS {
            match Cgroup::at(dir).and_then(|cgroup| cgroup.set_high(None)) {
                Ok(()) => info!("no broker any more: the program is not bounded"),
                Err(error) => debug!("its bound is not lifted: {error}"),
            }
        }
        std::thread::sleep(PACE);
    }
}
