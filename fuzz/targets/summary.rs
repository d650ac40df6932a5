//! Any bytes as a summary, and any numbers in one.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| plimsoll_heap::fuzz::fuzz_summary(bytes));
