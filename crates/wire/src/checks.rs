//! Which parameters are valid, as pure functions. The client calls them before it sends, the broker
//! before it trusts.

use crate::varlink::{ErrorName, WireError};

/// Longest name of a principal, bytes.
pub const MAX_NAME: usize = 64;
/// Smallest and largest interval of `Watch`, milliseconds.
pub const INTERVALS_MS: std::ops::RangeInclusive<u64> = 100..=60_000;
/// Longest path in a message, bytes.
pub const MAX_PATH: usize = 4096;
/// Longest name of an adapter, bytes.
pub const MAX_ADAPTER: usize = 32;

/// A name: 1 to 64 bytes without control characters, and without marks that change the direction or
/// the line on a terminal.
///
/// # Errors
/// `BadName`.
pub fn name(name: &str) -> Result<(), WireError> {
    if name.is_empty() || name.len() > MAX_NAME {
        return Err(WireError::new(
            ErrorName::BadName,
            format!(
                "a name has 1 to {MAX_NAME} bytes, this one has {}",
                name.len()
            ),
        ));
    }
    if let Some(bad) = name.chars().find(|&c| !is_printable(c)) {
        return Err(WireError::new(
            ErrorName::BadName,
            format!(
                "a name holds printable text only, this one has {}; leave it out",
                bad.escape_unicode()
            ),
        ));
    }
    Ok(())
}

/// The nearest valid [`name`], for names from elsewhere (a process's `comm`, a unit). Never fails:
/// a name without printable characters becomes `unnamed`.
pub fn mend_name(name: &str) -> String {
    let mut mended = String::with_capacity(name.len().min(MAX_NAME));
    for c in name.chars().filter(|&c| is_printable(c)) {
        if mended.len() + c.len_utf8() > MAX_NAME {
            break;
        }
        mended.push(c);
    }
    if mended.is_empty() {
        mended.push_str("unnamed");
    }
    mended
}

/// Name of the adapter of a principal: 1 to 32 bytes of `a` to `z`, `0` to `9` and `-`.
///
/// # Errors
/// `BadName`.
pub fn adapter(adapter: &str) -> Result<(), WireError> {
    let plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
    if (1..=MAX_ADAPTER).contains(&adapter.len()) && adapter.bytes().all(plain) {
        return Ok(());
    }
    let message = format!(
        "the name of an adapter has 1 to {MAX_ADAPTER} bytes of a to z, 0 to 9 and -: \
         give the name that `plimsoll run --help` lists under `--adapter`, or `self`; \
         leave it out for a passive program"
    );
    Err(WireError::new(ErrorName::BadName, message))
}

/// An interval of `Watch`: 100 to 60000 milliseconds.
///
/// # Errors
/// `InvalidParameter`.
pub fn interval_ms(interval_ms: u64) -> Result<(), WireError> {
    if INTERVALS_MS.contains(&interval_ms) {
        return Ok(());
    }
    Err(WireError::about(
        "interval_ms",
        format!("interval_ms {interval_ms} is out of range: give 100 to 60000"),
    ))
}

/// A process id: 1 to `i32::MAX`. The broker checks whether the process lives.
///
/// # Errors
/// `NoSuchProcess`.
pub fn pid(pid: u32) -> Result<(), WireError> {
    if pid >= 1 && i32::try_from(pid).is_ok() {
        return Ok(());
    }
    Err(WireError::new(
        ErrorName::NoSuchProcess,
        format!("{pid} is no process number: give the number that `ps` shows"),
    ))
}

/// A cgroup's path: absolute below the root of the hierarchy, no `..`, no control characters. The
/// broker checks whether it exists.
///
/// # Errors
/// `BadCgroup`.
pub fn cgroup(path: &str) -> Result<(), WireError> {
    let refuse = |why: &str| {
        Err(WireError::new(
            ErrorName::BadCgroup,
            format!("cgroup path {}: {why}", path.escape_debug()),
        ))
    };
    if path.len() > MAX_PATH {
        return Err(WireError::new(
            ErrorName::BadCgroup,
            format!("a cgroup path has at most {MAX_PATH} bytes"),
        ));
    }
    if !path.starts_with('/') {
        return refuse("give it from the hierarchy's root, as /proc/PID/cgroup shows it");
    }
    if path.split('/').any(|part| part == "..") {
        return refuse("give it without ..");
    }
    if path.chars().any(char::is_control) {
        return refuse("leave out the control characters");
    }
    Ok(())
}

/// Whether a character only displays itself: no control character (C0, DEL, C1), and no mark that
/// changes the direction or the line on a terminal or in a page.
#[must_use]
pub fn is_printable(c: char) -> bool {
    let breaks_or_turns_the_line = matches!(
        c,
        '\u{61C}' | '\u{200E}' | '\u{200F}' | '\u{2028}' | '\u{2029}' | '\u{202A}'
            ..='\u{202E}' | '\u{2066}'..='\u{2069}' | '\u{FEFF}'
    );
    !c.is_control() && !breaks_or_turns_the_line
}
