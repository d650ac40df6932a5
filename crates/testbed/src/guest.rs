//! A machine with cgroup version 2: QEMU with a Debian kernel, booted into a program of ours. Needs
//! no rights.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/guest/run.sh");
/// Exit code of the script where something is missing.
const CANNOT_RUN: i32 = 77;
/// Between two looks at what the program in the guest said.
const PACE: Duration = Duration::from_millis(500);

/// What is run there.
#[derive(Clone, Copy, Debug)]
pub struct Guest<'a> {
    /// The folder below `scratch` that is worked in.
    pub name: &'a str,
    /// Keeps what is fetched; on a real file system in the guest.
    pub scratch: &'a Path,
    /// Copied to its own path, with its libraries.
    pub program: &'a Path,
    /// What it is told, separated by blanks.
    pub arguments: &'a str,
    /// Copied to their own paths, with their libraries.
    pub files: &'a [&'a Path],
    /// After so long it is ended.
    pub patience: Duration,
}

/// Why there is no guest's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoAnswer {
    /// QEMU, a kernel or a tool is missing; says which.
    Missing(String),
    /// The program failed there, or the guest; what was said.
    Failed(String),
}

impl Guest<'_> {
    /// Boots it, and gives what the program said, when that has ended well. Tells what it said last
    /// from time to time.
    ///
    /// # Errors
    /// Where there is no guest, or the program does not end well.
    pub fn run(&self, tell: &mut dyn FnMut(&str)) -> Result<String, NoAnswer> {
        let work = self.scratch.join(self.name);
        std::fs::create_dir_all(&work).expect("a directory");
        let said = work.join("said");
        let file = std::fs::File::create(&said).expect("a file");
        let again = file.try_clone().expect("a file");
        let mut shell = Command::new("sh")
            .arg(SCRIPT)
            .args([work.as_path(), self.scratch, Path::new(self.arguments)])
            .arg(self.program)
            .args(self.files)
            .env("GUEST_SECONDS", self.patience.as_secs().to_string())
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(again)
            .spawn()
            .expect("a shell runs");
        let read = |path: &Path| {
            let bytes = std::fs::read(path).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let status = loop {
            if let Some(status) = shell.try_wait().expect("our own child") {
                break status;
            }
            let so_far = read(&work.join("out"));
            tell(
                so_far
                    .split(['\r', '\n'])
                    .rfind(|line| !line.is_empty())
                    .unwrap_or_default(),
            );
            std::thread::sleep(PACE);
        };
        let said = read(&said);
        match status.code() {
            Some(0) => Ok(said),
            Some(CANNOT_RUN) => Err(NoAnswer::Missing(said.trim().to_owned())),
            _ => Err(NoAnswer::Failed(said)),
        }
    }
}

/// Runs this test binary there, with `programs` beside it: the tests that `filter` names (none:
/// all), but those of a module `guest`. `scratch` keeps what is fetched, below `name`, and is on a
/// real file system in the guest. Where QEMU is missing it says so.
///
/// # Panics
/// When a test fails there, or the guest.
pub fn run_under_version_2(name: &str, scratch: &Path, filter: &str, programs: &[&Path]) {
    let guest = Guest {
        name,
        scratch,
        program: &std::env::current_exe().expect("our path"),
        arguments: &format!("--skip guest --nocapture --test-threads=1 {filter}"),
        files: programs,
        patience: Duration::from_secs(900),
    };
    match guest.run(&mut |_| {}) {
        Err(NoAnswer::Missing(what)) => crate::skip(what),
        Err(NoAnswer::Failed(said)) => panic!("the tests failed in the guest:\n{said}"),
        Ok(said) => {
            println!("{said}");
            assert!(said.contains("test result: ok"), "the guest never reported");
            assert!(
                !said.contains("skipped: no cgroup"),
                "the guest had no cgroup to test"
            );
        }
    }
}
