//! The environment of this process, if it can be trusted. A program with more rights than the user
//! who started it (set-user-ID, file capabilities) got its variables from somebody with fewer
//! rights, so it trusts none (`AT_SECURE`, getauxval(3)).

use std::ffi::OsString;

/// Whether the environment can be trusted: this process has no more rights than the user who
/// started it.
pub fn is_trusted() -> bool {
    // SAFETY: reads a word that the kernel gave at the start; there is none to write.
    unsafe { libc::getauxval(libc::AT_SECURE) == 0 }
}

/// The value of a variable; `None` if it is not set or the environment is not trusted.
pub fn variable(name: &str) -> Option<OsString> {
    is_trusted().then(|| std::env::var_os(name)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_has_the_rights_of_who_started_it() {
        assert!(is_trusted());
        assert_eq!(variable("PATH"), std::env::var_os("PATH"));
        assert_eq!(variable("PLIMSOLL_NO_SUCH_VARIABLE"), None);
    }
}
