//! The JDKs that tests run on, and the programs that run on them.

use crate::skip;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock, PoisonError};

/// The versions that are supported.
pub const VERSIONS: [u32; 4] = [11, 17, 21, 25];

/// A JDK, or a runtime of one without a compiler.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Jdk {
    /// Its version.
    pub version: u32,
    /// Its folder.
    pub home: PathBuf,
}

impl Jdk {
    /// The program that runs Java programs.
    #[must_use]
    pub fn java(&self) -> PathBuf {
        self.home.join("bin/java")
    }
}

/// One JDK of each supported version that is there, in order. Says once which are not.
#[must_use]
pub fn jdks() -> Vec<Jdk> {
    static FOUND: OnceLock<Vec<Jdk>> = OnceLock::new();
    FOUND.get_or_init(find).clone()
}

fn find() -> Vec<Jdk> {
    let mut found: Vec<Jdk> = Vec::new();
    for home in homes() {
        let Ok(release) = std::fs::read_to_string(home.join("release")) else {
            continue;
        };
        for version in VERSIONS {
            let same = release.contains(&format!("JAVA_VERSION=\"{version}"));
            let known = found.iter().any(|jdk| jdk.version == version);
            let home = home.clone();
            let jdk = Jdk { version, home };
            if same && !known && jdk.java().is_file() {
                found.push(jdk);
            }
        }
    }
    found.sort();
    for version in VERSIONS {
        if !found.iter().any(|jdk| jdk.version == version) {
            skip(format_args!(
                "no JDK {version} in /usr/lib/jvm or .cache, where tools/setup.sh leaves it"
            ));
        }
    }
    found
}

/// The compiler of the oldest JDK that has one.
#[must_use]
pub fn javac() -> Option<PathBuf> {
    let mut compilers = jdks().into_iter().map(|jdk| jdk.home.join("bin/javac"));
    compilers.find(|javac| javac.is_file())
}

/// Class files: their names and contents.
type Classes = Vec<(OsString, Vec<u8>)>;

/// Compiles programs for Java 11, which all JDKs here can run, and puts their class files into a folder.
/// Returns `false` without a compiler. A test binary compiles the same programs once, because every start of
/// `javac` takes a second of processor time, and tests start dozens of programs.
///
/// # Panics
/// If a program has a mistake, or the folder cannot be written to.
#[must_use]
pub fn compile_into(folder: &Path, sources: &[PathBuf]) -> bool {
    static COMPILED: Mutex<BTreeMap<Vec<PathBuf>, Classes>> = Mutex::new(BTreeMap::new());
    let Some(javac) = javac() else {
        return false;
    };
    // A test that panicked in `compile` must not hide the reason from the others.
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    let classes = compiled
        .entry(sources.to_vec())
        .or_insert_with(|| compile(&javac, sources));
    for (name, content) in classes {
        std::fs::write(folder.join(name), content).expect("a class file can be written");
    }
    true
}

fn compile(javac: &Path, sources: &[PathBuf]) -> Classes {
    let into = tempfile::tempdir().expect("a directory");
    let mut command = Command::new(javac);
    command.args(["--release", "11", "-d"]).arg(into.path());
    let status = command.args(sources).status();
    assert!(status.is_ok_and(|status| status.success()), "{command:?}");
    let files = std::fs::read_dir(into.path()).expect("our own directory");
    let read = |file: std::fs::DirEntry| {
        let content = std::fs::read(file.path()).expect("a class file");
        (file.file_name(), content)
    };
    files.flatten().map(read).collect()
}

/// Where JDKs are: the distribution's folder, and what `tools/setup.sh` left in `.cache`.
fn homes() -> Vec<PathBuf> {
    let packaged = std::fs::read_dir("/usr/lib/jvm").into_iter().flatten();
    let mut homes: Vec<PathBuf> = packaged.flatten().map(|home| home.path()).collect();
    // Those with a compiler first; of two names for one JDK always the same one.
    homes.sort_by_key(|home| (!home.join("bin/javac").is_file(), home.clone()));
    let cache = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache");
    for version in VERSIONS {
        // The link is to HOME/bin/java.
        if let Ok(java) = cache.join(format!("java{version}")).canonicalize() {
            homes.extend(java.ancestors().nth(2).map(Path::to_owned));
        }
    }
    homes
}
