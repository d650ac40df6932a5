//! Whether a program needs a library, directly or through others.

use super::Elf;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// The most libraries that are looked at.
const MAX_FILES: usize = 256;
/// Where libraries are looked for besides `LD_LIBRARY_PATH`.
pub const PLACES: [&str; 8] = [
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/local/lib",
    "/lib64",
    "/usr/lib64",
    "/usr/lib",
];

/// Whether the executable needs the library, directly or not. `false` for anything but a program or a
/// library.
pub fn needs(executable: &Path, library: &str) -> bool {
    let given = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let mut places: Vec<PathBuf> = std::env::split_paths(&given)
        .filter(|place| place.is_absolute())
        .collect();
    places.extend(PLACES.iter().map(PathBuf::from));
    let mut seen: HashSet<String> = HashSet::new();
    let mut files = vec![executable.to_owned()];
    while let Some(file) = files.pop() {
        for name in Elf::at(&file).map_or_else(Vec::new, |elf| elf.needed()) {
            if name == library {
                return true;
            }
            if seen.len() >= MAX_FILES || seen.contains(&name) {
                continue;
            }
            let mut paths = places.iter().map(|place| place.join(&name));
            files.extend(paths.find(|path| path.is_file()));
            seen.insert(name);
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_test_needs_the_c_library() {
        let own = std::env::current_exe().unwrap();
        assert!(needs(&own, "libc.so.6"));
        assert!(!needs(&own, "libgc.so.1"));
        assert!(!needs(Path::new("/etc/passwd"), "libc.so.6"));
    }
}
