//! Reads any bytes as a principal's page.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| plimsoll_wire::fuzz::fuzz_page(bytes));
