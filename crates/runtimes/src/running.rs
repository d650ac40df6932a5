//! Which runtime a running process has, also where we may not look into it.

use crate::detect::{self, Runtime};
use crate::hotspot::hsperfdata;
use crate::process::{self, Process};
use std::io::ErrorKind;

/// By what it has mapped; where its map is closed to us (it has capabilities that we have not), by the
/// counters that it publishes.
pub fn runtime(pid: u32) -> Runtime {
    let closed = || process::maps(pid).is_err_and(|e| e.kind() == ErrorKind::PermissionDenied);
    match detect::of_process(pid) {
        Runtime::Other if closed() => match Process::new(pid) {
            Ok(process) if hsperfdata::is_machine(&process) => Runtime::HotSpot,
            _ => Runtime::Other,
        },
        found => found,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_without_a_runtime_has_none() {
        assert_ne!(runtime(std::process::id()), Runtime::HotSpot);
        assert_eq!(runtime(0), Runtime::Other);
    }
}
