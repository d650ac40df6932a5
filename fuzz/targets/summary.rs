//! Reads any bytes as a summary, and puts any numbers into one.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| plimsoll_heap::fuzz::fuzz_summary(bytes));
