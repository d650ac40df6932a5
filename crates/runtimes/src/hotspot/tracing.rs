//! The options that a machine is started with so that the recorder can see what its program does.

use plimsoll_programs::candidate::Jvm;
use plimsoll_programs::foreign_files::Root;
use plimsoll_programs::java;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// The recorder's file, in a build tree and where it is installed.
pub const LIBRARY: &str = "libplimsoll_tracer.so";
/// The oldest version of Java that can be recorded.
pub const OLDEST: u32 = 17;

/// Makes young collections frequent, so that they tell when objects died. The program's own flags come later
/// and prevail. ZGC and Shenandoah take no notice of them; the recorder sees that, and it is told.
const SHORT_YOUNG: [&str; 2] = ["-XX:NewSize=4m", "-XX:MaxNewSize=4m"];

/// Why a program cannot be recorded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum Refusal {
    #[error(
        "{} starts no HotSpot virtual machine itself: only Java programs can be recorded, by their `java` or \
         a tool of a JDK such as `javac` (a script that starts one: give the `java …` that it calls)",
        .0.display()
    )]
    NoJava(PathBuf),
    #[error(
        "{} starts {found}, and Java {OLDEST} or later is needed to record a program", path.display()
    )]
    Old { path: PathBuf, found: String },
    #[error("{LIBRARY} is not installed: it belongs beside plimsoll or into lib/plimsoll")]
    NoLibrary,
}

/// The options to insert between a launcher and its arguments. `told` is for the recorder:
/// `mode:identity:folder`. Sampled recordings have short young generations, too. A launcher that is not
/// `java` itself takes options of the machine behind `-J`.
///
/// # Errors
/// [`Refusal`], when the launcher at `real` (links were followed) starts nothing that can be recorded, or the
/// recorder is not installed beside `own`, our program.
pub fn arguments(
    real: &Path,
    own: &Path,
    told: &OsStr,
    is_sampled: bool,
) -> Result<Vec<OsString>, Refusal> {
    if java::of_tool(&Root::Ours, real) != Some(Jvm::HotSpot) {
        return Err(Refusal::NoJava(real.to_owned()));
    }
    match java::version_at(real) {
        Some(version) if version >= OLDEST => {}
        version => {
            let found = version.map_or("an unknown version of Java".into(), |it| {
                format!("Java {it}")
            });
            return Err(Refusal::Old {
                path: real.to_owned(),
                found,
            });
        }
    }
    let library = crate::own_libraries::library(own, LIBRARY, LIBRARY).ok_or(Refusal::NoLibrary)?;
    let mut agent = OsString::from("-agentpath:");
    agent.push(library);
    agent.push("=");
    agent.push(told);
    let flags = [
        // Objects in the archive of classes have identity hashes of their own.
        "-Xshare:off",
        // The machine warns of native methods in a class of its own; they are the recorder's.
        "-Xlog:jni+resolve=off",
        // Identity hashes are counted up: the recorder takes them as numbers of objects.
        "-XX:+UnlockExperimentalVMOptions",
        "-XX:hashCode=3",
        // All that the program's code allocates is allocated.
        "-XX:-DoEscapeAnalysis",
        "-XX:-OptimizeStringConcat",
        // Copies are made by code that the recorder sees.
        "-XX:+UnlockDiagnosticVMOptions",
        "-XX:DisableIntrinsic=_copyOf,_copyOfRange,_clone",
        // A method of the recorder that is there to take stack, which it would not if it were compiled.
        "-XX:CompileCommand=quiet",
        "-XX:CompileCommand=exclude,java.lang.PlimsollRecorder::room",
    ];
    let short = SHORT_YOUNG.into_iter().filter(|_| is_sampled);
    let options = std::iter::once(agent).chain(flags.into_iter().chain(short).map(OsString::from));
    let behind = if real.file_name() == Some(OsStr::new("java")) {
        ""
    } else {
        "-J"
    };
    let put = |option: OsString| {
        let mut word = OsString::from(behind);
        word.push(option);
        word
    };
    Ok(options.map(put).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_java_and_what_is_too_old_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let java = home.path().join("bin/java");
        let arguments = || arguments(&java, Path::new("/none/plimsoll"), OsStr::new(""), false);
        std::fs::create_dir_all(home.path().join("lib/server")).unwrap();
        std::fs::create_dir(home.path().join("bin")).unwrap();
        std::fs::write(&java, "").unwrap();
        assert_eq!(arguments(), Err(Refusal::NoJava(java.clone())));
        std::fs::write(home.path().join("lib/server/libjvm.so"), "").unwrap();
        std::fs::write(home.path().join("release"), "JAVA_VERSION=\"11.0.2\"\n").unwrap();
        let old = arguments().unwrap_err().to_string();
        assert!(old.contains("Java 11, and Java 17 or later"), "{old}");
        std::fs::write(home.path().join("release"), "JAVA_VERSION=\"21\"\n").unwrap();
        assert_eq!(arguments(), Err(Refusal::NoLibrary));
    }
}
