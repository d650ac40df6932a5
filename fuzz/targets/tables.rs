//! Reads any bytes as the tables in which a Java virtual machine tells debuggers of its heap, as the agent in
//! it does.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| plimsoll_jvm::fuzz::fuzz_tables(bytes));
