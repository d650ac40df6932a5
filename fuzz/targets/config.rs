//! Reads any text as a configuration. It is accepted, or refused with a file, a line and a sentence. A rule
//! that was accepted can be asked about any program.

#![no_main]

use plimsoll_broker::config::{Facts, matches_glob, parse};
use std::path::Path;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Err(error) = parse(text, Path::new("plimsoll.toml")) {
        assert!(error.to_string().starts_with("plimsoll.toml:"));
    }
    let (pattern, rest) = text.split_at(text.floor_char_boundary(text.len() / 3));
    let facts = Facts { cgroup: rest.to_owned(), ..Facts::default() };
    let _ = matches_glob(pattern, &facts.cgroup);
    let plain = rest.replace(['*', '?'], "");
    assert!(matches_glob("*", rest) && matches_glob(&format!("*{plain}*"), &plain));
});
