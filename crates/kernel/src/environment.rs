//! The environment of this process, as far as it may be believed. A program that has more rights than whoever
//! started it (set-user-ID, file capabilities) was given its variables by somebody who has fewer: then it
//! believes none (`AT_SECURE`, getauxval(3)).

use std::ffi::OsString;

/// Whether whoever started this process has the rights that it has.
pub fn is_trusted() -> bool {
    // SAFETY: reads a word that the kernel gave at the start; there is none to write.
    unsafe { libc::getauxval(libc::AT_SECURE) == 0 }
}

/// A variable; none where the environment is not to be believed.
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
