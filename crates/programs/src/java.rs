//! Installations of Java: finds the virtual machine that a launcher starts or a process has, and its version.
//! Shared by `hotspot` and `openj9`, because their files have the same names.

use crate::candidate::{Candidate, Jvm};
use crate::command::Command;
use crate::elf;
use crate::foreign_files::Root;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Bytes of a file `release` that are read at most.
const MAX_RELEASE: u64 = 64 << 10;
/// The most entries of a folder that are looked at.
const MAX_ENTRIES: usize = 256;
/// Folders of libraries below an installation. The deeper ones are those of Java 8.
const LIBRARIES: [&str; 5] = [
    "lib",
    "jre/lib/amd64",
    "lib/amd64",
    "jre/lib/aarch64",
    "lib/aarch64",
];
/// The library of launchers.
const LAUNCHING: &str = "libjli.so";
/// Folders of `OpenJ9`'s own libraries, below those.
const J9_FOLDERS: [&str; 3] = ["default", "compressedrefs", "j9vm"];

/// The virtual machine that this file below `root` starts; `None` if it is not a launcher
/// `bin/java`.
pub fn of_launcher(root: &Root, real: &Path) -> Option<Jvm> {
    if real.file_name() != Some(OsStr::new("java")) {
        return None;
    }
    let home = real.parent()?.parent()?;
    if is_home_of_j9(root, home) {
        return Some(Jvm::OpenJ9);
    }
    library_in(root, home).map(|_| Jvm::HotSpot)
}

/// As [`of_launcher`], of any launcher of an installation: `java`, or a tool of a JDK such as `javac`, which
/// starts a machine in itself and takes its options behind `-J`.
pub fn of_tool(root: &Root, real: &Path) -> Option<Jvm> {
    let is_java = real.file_name() == Some(OsStr::new("java"));
    if is_java || elf::needs(real, LAUNCHING) {
        of_launcher(root, &real.with_file_name("java"))
    } else {
        None
    }
}

/// The virtual machine that a process has, by the libraries that it has mapped.
pub fn of_process(process: &Candidate<'_>) -> Option<Jvm> {
    process.jvm(|| among(process, || Root::of(process.pid()).ok()))
}

/// As [`of_process`], with the paths of the libraries taken below `root`.
fn among(process: &Candidate<'_>, root: impl FnOnce() -> Option<Root>) -> Option<Jvm> {
    if process.names().any(is_j9) {
        return Some(Jvm::OpenJ9);
    }
    // Look only beside the first one, because a program may map any number of files of that name.
    let library = process.files().find(|file| file.ends_with("/libjvm.so"))?;
    if root().is_some_and(|root| is_beside_j9(&root, Path::new(library))) {
        Some(Jvm::OpenJ9)
    } else {
        Some(Jvm::HotSpot)
    }
}

/// The library of the virtual machine that a command line starts.
pub fn libjvm(command: &Command<'_>) -> Option<PathBuf> {
    library_in(&Root::Ours, home(command)?)
}

/// The library that belongs to a launcher: `lib/server/libjvm.so` for `bin/java`.
fn library_in(root: &Root, home: &Path) -> Option<PathBuf> {
    let places = LIBRARIES.map(|folder| home.join(folder).join("server/libjvm.so"));
    places.into_iter().find(|path| root.has_file(path))
}

fn home<'a>(command: &'a Command<'_>) -> Option<&'a Path> {
    command.executable()?.parent()?.parent()
}

/// The feature version of the Java virtual machine that a command line starts, by the file `release` of its
/// installation.
pub fn version(command: &Command<'_>) -> Option<u32> {
    version_at(command.executable()?)
}

/// As [`version`], of the launcher at a path whose links were followed.
pub fn version_at(launcher: &Path) -> Option<u32> {
    let home = launcher.parent()?.parent()?;
    // The launcher of Java 8 may lie in a folder `jre` below the installation.
    let release = |home: &Path| release(&Root::Ours, home);
    let text = release(home).or_else(|| release(home.parent()?))?;
    version_in(&text)
}

/// The feature version that the text of a file `release` gives (`JAVA_VERSION="17.0.15"`, `"1.8.0_402"`).
pub fn version_in(release: &str) -> Option<u32> {
    let mut lines = release.lines();
    let version = lines.find_map(|line| line.strip_prefix("JAVA_VERSION=\""))?;
    let version = version.strip_prefix("1.").unwrap_or(version);
    version
        .split(|c: char| !c.is_ascii_digit())
        .next()?
        .parse()
        .ok()
}

fn release(root: &Root, home: &Path) -> Option<String> {
    let read = root.read(&home.join("release"), MAX_RELEASE);
    read.map(|(text, _)| text)
}

/// The main library of `OpenJ9`: `libj9vm29.so`, by its version.
fn is_j9(name: &str) -> bool {
    name.strip_prefix("libj9vm")
        .and_then(|rest| rest.strip_suffix(".so"))
        .is_some_and(|version| version.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether this `libjvm.so` belongs to an installation of `OpenJ9`. A starting machine has mapped
/// nothing else yet.
fn is_beside_j9(root: &Root, library: &Path) -> bool {
    let mut homes = library.ancestors().skip(1).take(5);
    homes.any(|home| is_home_of_j9(root, home))
}

fn is_home_of_j9(root: &Root, home: &Path) -> bool {
    let main = |folder: PathBuf| {
        let names = root.names(&folder, MAX_ENTRIES);
        names.iter().any(|name| name.to_str().is_some_and(is_j9))
    };
    let mut folders = LIBRARIES
        .iter()
        .flat_map(|library| J9_FOLDERS.map(|folder| home.join(library).join(folder)));
    folders.any(main) || release(root, home).is_some_and(|text| tells_j9(&text))
}

fn tells_j9(release: &str) -> bool {
    release.lines().any(|line| {
        let line = line.to_ascii_lowercase();
        let names = ["jvm_variant=", "implementor=", "openj9_tag="];
        names.iter().any(|name| line.starts_with(name)) && line.contains("j9")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::candidate::mappings;
    use crate::start_environment::Setting;
    use plimsoll_kernel::mounts::Mounts;
    use plimsoll_kernel::process::Process;
    use std::sync::Arc;

    /// The machine of a process that has mapped these files below this root.
    fn among_made_up(files: &[&str], root: &Path) -> Option<Jvm> {
        let mappings = mappings(files);
        let process = Candidate::seen(0, Path::new(""), &Arc::default(), &mappings);
        let mounts = Mounts::of(&Process::own().unwrap()).unwrap();
        among(&process, || Root::open(root, mounts).ok())
    }

    /// `OpenJ9` is not available to tests, so this imitates the folders and names of its
    /// distributions.
    #[test]
    fn openj9_is_told_from_hotspot_whose_names_it_has() {
        let root = tempfile::tempdir().unwrap();
        let of = |files: &[&str]| among_made_up(files, root.path());
        let jvm = "/jdk/lib/server/libjvm.so";
        let write = |file: &str, text: &str| {
            let file = root.path().join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        };
        assert_eq!(of(&["/usr/bin/cat"]), None);
        for main in ["libj9vm29.so", "libj9vm26.so"] {
            let main = format!("/jdk/lib/default/{main}");
            assert_eq!(of(&[jvm, &main]), Some(Jvm::OpenJ9));
        }
        for name in ["libj9vm.txt", "libj9vmx.so", "libj9vm29.so.debuginfo"] {
            let other = format!("/jdk/lib/{name}");
            assert_eq!(of(&[jvm, &other]), Some(Jvm::HotSpot));
        }
        // A starting machine has mapped no more than this.
        write(
            "jdk/release",
            "IMPLEMENTOR=\"Debian\"\nJVM_VARIANT=\"Hotspot\"\n",
        );
        assert_eq!(of(&[jvm]), Some(Jvm::HotSpot));
        write(
            "jdk/release",
            "IMPLEMENTOR=\"IBM\"\nJVM_VARIANT=\"Openj9\"\n",
        );
        assert_eq!(of(&[jvm]), Some(Jvm::OpenJ9));
        let old = "/jdk8/jre/lib/amd64/j9vm/libjvm.so";
        assert_eq!(of(&[old]), Some(Jvm::HotSpot));
        write("jdk8/jre/lib/amd64/compressedrefs/libj9vm29.so", "");
        assert_eq!(of(&[old]), Some(Jvm::OpenJ9));
        // Only the first library counts, and nothing above its root.
        assert_eq!(of(&[old, "/other/libjvm.so"]), Some(Jvm::OpenJ9));
        assert_eq!(of(&["/other/libjvm.so", old]), Some(Jvm::HotSpot));
        let below = root.path().join("jdk/lib");
        let short = among_made_up(&["/libjvm.so"], &below);
        assert_eq!(short, Some(Jvm::HotSpot));
        // A launcher of `OpenJ9`.
        write("jdk8/bin/java", "");
        let java = [root.path().join("jdk8/bin/java").into_os_string()];
        let ours = Setting::ours();
        let command = Command::new(&java, &ours);
        let launched = command.executable();
        let launched = launched.and_then(|file| of_launcher(&Root::Ours, file));
        assert_eq!(launched, Some(Jvm::OpenJ9));
    }

    /// The owner of an installation may put anything under that name.
    #[test]
    fn what_is_no_file_is_neither_opened_nor_waited_for() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("made/lib/server")).unwrap();
        let release = root.path().join("made/release");
        let of = || among_made_up(&["/made/lib/server/libjvm.so"], root.path());
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mkfifoat(rustix::fs::CWD, &release, mode).unwrap();
        assert_eq!(of(), Some(Jvm::HotSpot));
        // A link is resolved below the process's root, not ours.
        std::fs::remove_file(&release).unwrap();
        let ours = root.path().join("ours");
        std::fs::write(&ours, "JVM_VARIANT=\"Openj9\"\n").unwrap();
        std::os::unix::fs::symlink(&ours, &release).unwrap();
        assert_eq!(of(), Some(Jvm::HotSpot));
        std::fs::remove_file(&release).unwrap();
        std::os::unix::fs::symlink("/ours", &release).unwrap();
        assert_eq!(of(), Some(Jvm::OpenJ9));
    }
}
