//! Reads any bytes as those of a client: they are cut into messages, and each is read as a call with the
//! parameters of every method.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| plimsoll_wire::fuzz::fuzz_decoder(bytes));
