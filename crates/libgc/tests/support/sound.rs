//! Programs of `tests/c-alone`: they end by saying that all is sound.

use crate::programs::{self, Running, compile};
use std::process::Command;
use std::time::Duration;

/// No program takes more than a few seconds where it has the processors to itself.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);

/// Runs a program over our library in a directory of that name, with variables, and arguments for
/// it; its last words are that all is sound.
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
        .env("LD_LIBRARY_PATH", programs::library(library))
        .envs(variables.iter().copied());
    let running = Running::start(&mut command, &unique);
    let said = running
        .end(PATIENCE)
        .unwrap_or_else(|why| panic!("{unique}: {why}"));
    assert!(said.ends_with("sound\n"), "{unique}: {said}");
    println!("{said}");
}
