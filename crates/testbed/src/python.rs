//! Python with our modules.

use std::path::Path;
use std::process::Command;

/// `python3` with `clients/python` of this checkout, what `tools/setup.sh test` has fetched for it, and the
/// caller's own packages.
pub fn python(args: &[&str]) -> Command {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let own = std::env::var("PYTHONPATH").unwrap_or_default();
    let path = format!("{0}/clients/python:{0}/.cache/python:{own}", root.display());
    let mut command = Command::new("python3");
    command
        .args(args)
        .env("PYTHONPATH", path)
        .env("PYTHONDONTWRITEBYTECODE", "1");
    command
}
