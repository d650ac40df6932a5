//! Reads bytes as files of the kernel that `map` and `pin` parse.

#![no_main]

use plimsoll_kernel::disk::Reads;
use plimsoll_kernel::mounts::{Mounts, parse_hides};
use plimsoll_kernel::process::{parse_stack_limit, parse_stack_pointer, parse_stat, parse_statm, parse_status};
use plimsoll_kernel::smaps::{parse_areas, parse_rollup};
use std::path::Path;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let areas = parse_areas(bytes, 100);
    assert!(areas.len() <= 100);
    assert!(areas.iter().all(|area| area.size() > 0 && area.shared() <= area.rss));
    let _ = (parse_rollup(bytes), parse_hides(bytes), Reads::parse(bytes));
    let _ = (parse_stat(bytes), parse_statm(bytes, plimsoll_unit::Bytes(4096)), parse_status(bytes));
    let mounts = Mounts::parse(bytes);
    let _ = (mounts.kind((0, 50)), mounts.check_device((0, 50)), mounts.check_path(Path::new("/a/b")));
    let _ = (parse_stack_limit(bytes), parse_stack_pointer(bytes));
});
