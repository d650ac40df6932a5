//! The password of a server, in a file that the user names: a command line can be seen by everybody.

use crate::lever_options::{Chosen, LeverOption};
use plimsoll_kernel::mapped::Named;
use rustix::io::Errno;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The file.
pub(super) const PASSWORD_FILE: LeverOption = LeverOption {
    name: "redis-password-file",
    help: "A file with the password of a Redis or Valkey server: one line, or a line with the user before it",
    values: &[],
};
/// No such file is longer, bytes.
const MAX_FILE: u64 = 4096;

/// The words of `AUTH`: a password, or a user and a password. `None` if the user gave no file. It is read
/// each time that a connection is opened, because passwords change.
///
/// # Errors
/// Why the file cannot be read.
pub(super) fn read(chosen: &Chosen) -> Option<Result<Vec<String>, String>> {
    let path = chosen.file(&PASSWORD_FILE)?;
    Some(words_of(path).map_err(|why| {
        format!(
            "the file {} of --{} cannot be used: {why}",
            path.display(),
            PASSWORD_FILE.name
        )
    }))
}

fn words_of(path: &Path) -> Result<Vec<String>, String> {
    let told = |error: Errno| std::io::Error::from(error).to_string();
    let named = Named::at(path).map_err(told)?;
    let file = File::from(named.open().map_err(told)?);
    let mut text = String::new();
    let read = file.take(MAX_FILE + 1).read_to_string(&mut text);
    read.map_err(|error| error.to_string())?;
    let words: Vec<String> = text.lines().map(str::to_owned).collect();
    let is_whole = text.len() as u64 <= MAX_FILE;
    if is_whole && matches!(words.len(), 1 | 2) && words.iter().all(|word| !word.is_empty()) {
        Ok(words)
    } else {
        Err("it is to have one line, the password, or two, the user and the password".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_a_password_or_a_user_too() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("password");
        let mut chosen = Chosen::default();
        assert!(read(&chosen).is_none());
        chosen.give(&PASSWORD_FILE, path.to_str().unwrap()).unwrap();
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            read(&chosen).unwrap()
        };
        assert_eq!(read("a b\n").unwrap(), ["a b"]);
        assert_eq!(read("me\r\nsecret").unwrap(), ["me", "secret"]);
        for text in ["", "\n", "a\n\nb", "a\nb\nc", &"x".repeat(5000)] {
            let refused = read(text).unwrap_err();
            assert!(refused.contains("one line"), "{refused}");
        }
        std::fs::remove_file(&path).unwrap();
        let refused = super::read(&chosen).unwrap().unwrap_err();
        assert!(refused.contains("No such file"), "{refused}");
        chosen.give(&PASSWORD_FILE, "/dev/zero").unwrap();
        assert!(super::read(&chosen).unwrap().is_err());
    }
}
