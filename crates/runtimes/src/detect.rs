//! Which runtime a program has: from its command line before it starts, from `/proc` while it runs.

mod java;
mod privileges;

pub use java::java_version;
pub(crate) use java::{libjvm, of_launcher, version_in};
pub(crate) use privileges::privileges;

use crate::setting::Setting;
use crate::{elf, libgc, process};
use std::ffi::{OsStr, OsString};
use std::io::BufRead;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What manages the memory of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Runtime {
    /// A Java virtual machine with `libjvm.so`.
    HotSpot,
    /// The other Java virtual machine, which has none of `HotSpot`'s flags, counters and commands.
    OpenJ9,
    /// A Java program that was compiled ahead (GraalVM): no virtual machine that could be asked.
    NativeImage,
    /// The Boehm-Demers-Weiser collector (`libgc.so.1`).
    LibGc,
    /// Nothing that can be steered from outside.
    Other,
}

impl Runtime {
    /// The adapter's name as `Register` takes it; `None` for a passive program.
    pub fn adapter(self) -> Option<&'static str> {
        match self {
            Runtime::HotSpot => Some("hotspot"),
            Runtime::LibGc => Some("libgc"),
            Runtime::OpenJ9 | Runtime::NativeImage | Runtime::Other => None,
        }
    }

    /// Why a program that looks like Java is left alone.
    pub fn left_alone(self) -> Option<&'static str> {
        match self {
            Runtime::OpenJ9 => Some(
                "it is an OpenJ9 virtual machine, which has no lever that is known: it is passive, and \
                 nothing \
                 is added, sent or signalled to it",
            ),
            Runtime::NativeImage => Some(
                "it is a native image of GraalVM, which has no lever that is known: it is passive, and \
                 nothing \
                 is added, sent or signalled to it",
            ),
            Runtime::HotSpot | Runtime::LibGc | Runtime::Other => None,
        }
    }
}

/// The runtime of a command line that is to be started. Scripts and shells are [`Runtime::Other`]: what they
/// start is found when it runs.
pub fn of_command(argv: &[OsString], setting: &Setting<'_>) -> Runtime {
    let Some(real) = executable(argv, setting) else {
        return Runtime::Other;
    };
    if let Some(machine) = java::of_launcher(&real) {
        machine
    } else if java::is_native_image(&real) {
        Runtime::NativeImage
    } else if elf::needs(&real, libgc::NEEDED.as_bytes()) {
        Runtime::LibGc
    } else {
        Runtime::Other
    }
}

/// The file that a command line starts.
pub(crate) fn executable(argv: &[OsString], setting: &Setting<'_>) -> Option<PathBuf> {
    let path = program(argv.first()?, setting)?;
    Some(std::fs::canonicalize(&path).unwrap_or(path))
}

/// Where a program lies: as named when the name has a slash, else in `PATH`.
fn program(name: &OsStr, setting: &Setting<'_>) -> Option<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return Some(setting.folder.join(name));
    }
    let path = (setting.variables)("PATH")?;
    std::env::split_paths(&path)
        .map(|dir| setting.folder.join(dir).join(name))
        .find(|p| p.is_file())
}

/// The runtime of a running process, by what it has mapped.
pub fn of_process(pid: u32) -> Runtime {
    let Ok(maps) = process::maps(pid) else {
        return Runtime::Other;
    };
    match of_maps(maps, &format!("/proc/{pid}/root")) {
        Runtime::Other if java::is_native_image(Path::new(&format!("/proc/{pid}/exe"))) => {
            Runtime::NativeImage
        }
        found => found,
    }
}

/// The runtime by a memory map, whose paths are below `root`.
fn of_maps(mut maps: impl BufRead, root: &str) -> Runtime {
    let mut line = Vec::new();
    let mut found = Runtime::Other;
    while maps.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
        let text = String::from_utf8_lossy(&line);
        let path = text.trim_end().trim_end_matches(" (deleted)");
        match path.rsplit('/').next() {
            // It has a `libjvm.so` of its own, which is mapped first.
            Some(name) if java::is_j9(name) => return Runtime::OpenJ9,
            Some("libjvm.so") if found != Runtime::HotSpot => {
                let path = path.find('/').map_or("", |at| &path[at..]);
                if java::is_beside_j9(Path::new(&format!("{root}{path}"))) {
                    return Runtime::OpenJ9;
                }
                found = Runtime::HotSpot;
            }
            Some(name) if found == Runtime::Other && is_libgc(name) => found = Runtime::LibGc,
            _ => {}
        }
        line.clear();
    }
    found
}

/// The system's, by any version; and the drop-in, as installed and as built.
fn is_libgc(name: &str) -> bool {
    name == "libgc.so" || name.starts_with("libgc.so.") || name == libgc::BUILT
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The runtime of a process that maps these files, which are below `root`.
    fn maps(files: &[&str], root: &Path) -> Runtime {
        let line = |file: &&str| format!("7f00-7f10 r-xp 00000000 fe:01 42   {file}\n");
        let text: String = files.iter().map(line).collect();
        of_maps(text.as_bytes(), root.to_str().unwrap())
    }

    #[test]
    fn a_process_is_what_it_has_mapped() {
        let root = tempfile::tempdir().unwrap();
        let of = |files: &[&str]| maps(files, root.path());
        let (jvm, gc) = ("/jdk/lib/server/libjvm.so", "/usr/lib/libgc.so.1");
        assert_eq!(of(&["/usr/bin/cat", ""]), Runtime::Other);
        assert_eq!(of(&[gc]), Runtime::LibGc);
        assert_eq!(of(&[gc, jvm]), Runtime::HotSpot);
        assert_eq!(of(&[jvm, gc]), Runtime::HotSpot);
        let deleted = "/jdk/lib/server/libjvm.so (deleted)";
        assert_eq!(of(&[deleted]), Runtime::HotSpot);
    }

    /// It cannot be had here: folders and names as its distributions have them.
    #[test]
    fn openj9_is_told_from_hotspot_whose_names_it_has() {
        let root = tempfile::tempdir().unwrap();
        let jvm = "/jdk/lib/server/libjvm.so";
        let write = |file: &str, text: &str| {
            let file = root.path().join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        };
        for main in ["libj9vm29.so", "libj9vm26.so"] {
            let main = format!("/jdk/lib/default/{main}");
            assert_eq!(maps(&[jvm, &main], root.path()), Runtime::OpenJ9);
        }
        for name in ["libj9vm.txt", "libj9vmx.so", "libj9vm29.so.debuginfo"] {
            let other = format!("/jdk/lib/{name}");
            assert_eq!(maps(&[jvm, &other], root.path()), Runtime::HotSpot);
        }
        // While it starts it has mapped no more than that yet.
        write(
            "jdk/release",
            "IMPLEMENTOR=\"Debian\"\nJVM_VARIANT=\"Hotspot\"\n",
        );
        assert_eq!(maps(&[jvm], root.path()), Runtime::HotSpot);
        write(
            "jdk/release",
            "IMPLEMENTOR=\"IBM\"\nJVM_VARIANT=\"Openj9\"\n",
        );
        assert_eq!(maps(&[jvm], root.path()), Runtime::OpenJ9);
        let old = "/jdk8/jre/lib/amd64/j9vm/libjvm.so";
        assert_eq!(maps(&[old], root.path()), Runtime::HotSpot);
        write("jdk8/jre/lib/amd64/compressedrefs/libj9vm29.so", "");
        assert_eq!(maps(&[old], root.path()), Runtime::OpenJ9);
        // A launcher of it.
        write("jdk8/bin/java", "");
        let java = root.path().join("jdk8/bin/java").into_os_string();
        assert_eq!(of_command(&[java], &Setting::ours()), Runtime::OpenJ9);
    }

    /// It cannot be had here: an ELF file with a section of that name and nothing else.
    #[test]
    fn a_native_image_is_told_by_the_heap_in_it() {
        let dir = tempfile::tempdir().unwrap();
        let of = |section: &str| {
            let tool = dir.path().join("tool");
            std::fs::write(&tool, elf::made_up(&[(section, b"x")])).unwrap();
            of_command(&[tool.into_os_string()], &Setting::ours())
        };
        assert_eq!(of(".svm_heap"), Runtime::NativeImage);
        assert_eq!(of(".rodata"), Runtime::Other);
        assert_eq!(Runtime::NativeImage.adapter(), None);
        assert!(Runtime::NativeImage.left_alone().is_some());
    }
}
