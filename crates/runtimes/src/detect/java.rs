//! Installations of Java: which virtual machine a launcher starts, and of which version.

use super::{Runtime, program};
use crate::elf;
use crate::setting::Setting;
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Bytes of a file `release` that are read at the most.
const MAX_RELEASE: u64 = 64 << 10;
/// Entries of a folder that are looked at, at the most.
const MAX_ENTRIES: usize = 256;
/// Where libraries are, below an installation; the deeper ones in Java 8.
const LIBRARIES: [&str; 5] = [
    "lib",
    "jre/lib/amd64",
    "lib/amd64",
    "jre/lib/aarch64",
    "lib/aarch64",
];
/// Where `OpenJ9` has its own, below those.
const J9_FOLDERS: [&str; 3] = ["default", "compressedrefs", "j9vm"];
/// What the tool that compiles Java ahead leaves in an executable: the objects that the program starts with.
const IMAGE_HEAP: &[u8] = b".svm_heap";

/// The virtual machine that this file starts, if it is a launcher `bin/java`.
pub(crate) fn of_launcher(real: &Path) -> Option<Runtime> {
    if real.file_name() != Some(OsStr::new("java")) {
        return None;
    }
    let home = real.parent()?.parent()?;
    if is_home_of_j9(home) {
        return Some(Runtime::OpenJ9);
    }
    library_in(home).map(|_| Runtime::HotSpot)
}

/// The library of the virtual machine that a command line starts.
pub(crate) fn libjvm(argv: &[OsString], setting: &Setting<'_>) -> Option<PathBuf> {
    library_in(&home(argv, setting)?)
}

/// A launcher has the machine beside it: `bin/java`, `lib/server/libjvm.so`.
fn library_in(home: &Path) -> Option<PathBuf> {
    let places = LIBRARIES.map(|folder| home.join(folder).join("server/libjvm.so"));
    places.into_iter().find(|path| path.is_file())
}

fn home(argv: &[OsString], setting: &Setting<'_>) -> Option<PathBuf> {
    let real = std::fs::canonicalize(program(argv.first()?, setting)?).ok()?;
    Some(real.parent()?.parent()?.to_owned())
}

/// The feature version of the Java virtual machine that a command line starts, by the file `release` of its
/// installation.
pub fn java_version(argv: &[OsString], setting: &Setting<'_>) -> Option<u32> {
    let home = home(argv, setting)?;
    // The launcher of Java 8 may be in a `jre` below it.
    let text = release(&home).or_else(|| release(home.parent()?))?;
    version_in(&text)
}

/// The feature version that the text of a file `release` gives (`JAVA_VERSION="17.0.15"`, `"1.8.0_402"`).
pub(crate) fn version_in(release: &str) -> Option<u32> {
    let mut lines = release.lines();
    let version = lines.find_map(|line| line.strip_prefix("JAVA_VERSION=\""))?;
    let version = version.strip_prefix("1.").unwrap_or(version);
    version
        .split(|c: char| !c.is_ascii_digit())
        .next()?
        .parse()
        .ok()
}

fn release(home: &Path) -> Option<String> {
    let file = std::fs::File::open(home.join("release")).ok()?;
    let mut text = String::new();
    file.take(MAX_RELEASE).read_to_string(&mut text).ok()?;
    Some(text)
}

/// The main library of `OpenJ9`: `libj9vm29.so`, by its version.
pub(super) fn is_j9(name: &str) -> bool {
    name.strip_prefix("libj9vm")
        .and_then(|rest| rest.strip_suffix(".so"))
        .is_some_and(|version| version.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether this `libjvm.so` belongs to an installation of `OpenJ9`. While a machine starts it has not mapped
/// more yet.
pub(super) fn is_beside_j9(library: &Path) -> bool {
    let home = library.ancestors().skip(1).take(5);
    home.into_iter().any(is_home_of_j9)
}

fn is_home_of_j9(home: &Path) -> bool {
    let main = |folder: PathBuf| {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let mut names = entries.take(MAX_ENTRIES).map(|entry| entry.file_name());
        names.any(|name| name.to_str().is_some_and(is_j9))
    };
    let mut folders = LIBRARIES
        .iter()
        .flat_map(|library| J9_FOLDERS.map(|folder| home.join(library).join(folder)));
    folders.any(main) || release(home).is_some_and(|text| tells_j9(&text))
}

fn tells_j9(release: &str) -> bool {
    release.lines().any(|line| {
        let line = line.to_ascii_lowercase();
        let names = ["jvm_variant=", "implementor=", "openj9_tag="];
        names.iter().any(|name| line.starts_with(name)) && line.contains("j9")
    })
}

/// Whether an executable is a Java program that was compiled ahead.
pub(super) fn is_native_image(executable: &Path) -> bool {
    elf::has_section(executable, IMAGE_HEAP)
}
