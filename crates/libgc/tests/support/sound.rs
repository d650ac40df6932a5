//! Programs of `tests/c-alone`: each ends with a message that all is sound.

use crate::programs::{Running, compile};
use crate::stressed::library_for;
use std::process::Command;
use std::time::Duration;

/// A program takes no more than a few seconds if it has the processors to itself.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);

/// Runs a program with this library, in a directory named `library`, with these arguments and
/// environment variables. Its last line must say that all is sound.
pub(crate) fn sound(library: &str, name: &str, arguments: &[&str], variables: &[(&str, &str)]) {
    let words: Vec<&str> = arguments
        .iter()
        .filter_map(|argument| argument.rsplit('/').next())
        .collect();
    let unique = format!("{name}-{}", words.join("-"));
    let Some(program) = compile(&format!("tests/c-alone/{name}.c"), &unique) else {
        return;
    };
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env("LD_LIBRARY_PATH", library_for(library, variables))
        .envs(variables.iter().copied());
    let running = Running::start(&mut command, &unique);
    let said = running
        .end(PATIENCE)
        .unwrap_or_else(|why| panic!("{unique}: {why}"));
    assert!(said.ends_with("sound\n"), "{unique}: {said}");
    println!("{said}");
}
