//! Reads any bytes as the page of collections of a Java virtual machine.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| plimsoll_wire::fuzz::fuzz_collections(bytes));
