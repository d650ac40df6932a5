//! C programs of the tests: compiled against the public headers, run with this library.

use plimsoll_testbed::skip;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub(crate) fn temporary() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

/// A directory with this library under the name that programs look for. Every test binary has its
/// own.
pub(crate) fn library(of: &str) -> PathBuf {
    let directory = temporary().join(of);
    super::library::link(&directory);
    directory
}

/// Compiles a source, given by its path below the crate. `None`, with a message, if there is no
/// compiler or no libgc-dev.
pub(crate) fn compile(source: &str, program: &str) -> Option<PathBuf> {
    compile_with(source, program, &[])
}

/// The same, with more arguments for the compiler.
pub(crate) fn compile_with(source: &str, program: &str, more: &[&str]) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(source);
    let program = temporary().join(program);
    let arguments = [
        "-std=gnu11",
        "-O1",
        "-g",
        "-pthread",
        "-Wno-deprecated-declarations",
    ];
    let compiled = Command::new("cc")
        .args(arguments)
        .arg(&source)
        .args(more)
        .arg("-o")
        .arg(&program)
        .args(["-lgc", "-lm"])
        .output();
    match compiled {
        Ok(compiled) if compiled.status.success() => return Some(program),
        Ok(compiled) if Path::new("/usr/include/gc/gc.h").exists() => {
            panic!(
                "{}: {}",
                source.display(),
                String::from_utf8_lossy(&compiled.stderr)
            );
        }
        _ => skip("no C compiler, or no libgc-dev"),
    }
    None
}

/// A running program. Dropping this ends it.
pub(crate) struct Running {
    pub(crate) child: Child,
    output: PathBuf,
    begin: Instant,
}

impl Running {
    /// Starts it. Its output goes to a file of this name.
    pub(crate) fn start(command: &mut Command, name: &str) -> Running {
        let output = temporary().join(format!("{name}.out"));
        let file = File::create(&output).expect("the directory for tests can be written to");
        let again = file.try_clone().expect("a file");
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("GC_") {
                command.env_remove(name);
            }
        }
        command.stdin(Stdio::null()).stdout(file).stderr(again);
        Running {
            child: command.spawn().expect("it was compiled"),
            output,
            begin: Instant::now(),
        }
    }

    /// Its output so far.
    pub(crate) fn said(&self) -> String {
        let bytes = std::fs::read(&self.output).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits for its end. Returns its output, or, if it failed, how it ended.
    pub(crate) fn end(mut self, patience: Duration) -> Result<String, String> {
        while !self.has_ended() {
            if self.begin.elapsed() > patience {
                return Err(format!("did not end within {patience:?}\n{}", self.said()));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let status = self.child.wait().expect("a child of ours");
        if status.success() {
            Ok(self.said())
        } else {
            Err(format!("{status}\n{}", self.said()))
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
