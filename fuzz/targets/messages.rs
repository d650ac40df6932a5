//! Any bytes from a client: cut into messages, read as calls with the parameters of every method.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| plimsoll_wire::fuzz::fuzz_decoder(bytes));
