//! Machines with cgroup version 2 that boot into one of our programs: QEMU with a Debian kernel, which needs
//! no rights, and user-mode Linux on the files of this machine, on which real Java programs run. The first
//! has pressure stall information, `PAGEMAP_SCAN` and the multi-generational LRU; the second computes at the
//! speed of the machine, and has these only with a kernel that `tools/setup.sh v2` built. Without that it is
//! Debian's, which has none of them. `GUEST_KERNEL=stock` takes that one in any case, and `GUEST_LRU_GEN=y`
//! or `n` switches the LRU (`tools/v2.sh`).

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Which machine to boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// QEMU: files are copied to it.
    Emulated,
    /// User-mode Linux: all files are there.
    UserMode,
    /// The same with a Debian of its own, whose systemd runs the program, a script. Files are copied to
    /// `/files`.
    Debian,
}

impl Kind {
    fn script(self) -> &'static str {
        match self {
            Kind::Emulated => concat!(env!("CARGO_MANIFEST_DIR"), "/guest/run.sh"),
            Kind::Debian => concat!(env!("CARGO_MANIFEST_DIR"), "/guest/debian.sh"),
            Kind::UserMode => concat!(env!("CARGO_MANIFEST_DIR"), "/guest/user-mode.sh"),
        }
    }
}

/// Exit code of the script if something is missing.
const CANNOT_RUN: i32 = 77;
/// The pause between two looks at the output of the program in the guest.
const PACE: Duration = Duration::from_millis(500);

/// The programs and files of a guest.
#[derive(Clone, Copy, Debug)]
pub struct Guest<'a> {
    /// The machine.
    pub kind: Kind,
    /// The working folder, below `scratch`.
    pub name: &'a str,
    /// The folder for downloads. On a real file system in the guest.
    pub scratch: &'a Path,
    /// The program to run. Copied to the same path in the guest, with its libraries.
    pub program: &'a Path,
    /// The arguments of the program, separated by blanks.
    pub arguments: &'a str,
    /// Further files. Copied to the same paths in the guest, with their libraries.
    pub files: &'a [&'a Path],
    /// The guest is ended after this time.
    pub patience: Duration,
}

/// Why a guest gave no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoAnswer {
    /// QEMU, a kernel or a tool is missing; names it.
    Missing(String),
    /// The program or the guest failed; holds the output.
    Failed(String),
}

impl Guest<'_> {
    /// Boots the guest, and returns the program's output once that has ended well. Calls `tell`
    /// with the latest output from time to time.
    ///
    /// # Errors
    /// If there is no guest, or the program fails.
    pub fn run(&self, tell: &mut dyn FnMut(&str)) -> Result<String, NoAnswer> {
        let work = self.scratch.join(self.name);
        std::fs::create_dir_all(&work).expect("a directory");
        let said = work.join("said");
        let file = std::fs::File::create(&said).expect("a file");
        let again = file.try_clone().expect("a file");
        let mut shell = Command::new("sh")
            .arg(self.kind.script())
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

    /// Boots the guest for a test, and prints what its program said, which has `last` in it if all went well.
    /// `None` without the machine: then the test is reported as skipped.
    ///
    /// # Panics
    /// If the program, or the guest itself, fails.
    fn reports(&self, last: &str) -> Option<String> {
        match self.run(&mut |_| {}) {
            Err(NoAnswer::Missing(what)) => {
                crate::skip(what);
                None
            }
            Err(NoAnswer::Failed(said)) => panic!("it failed in the guest:\n{said}"),
            Ok(said) => {
                println!("{said}");
                assert!(said.contains(last), "the guest never reported: {last}");
                Some(said)
            }
        }
    }
}

/// Runs this test binary in a guest, with `programs` beside it. Runs the tests that `filter` names
/// (all if empty), except those of a module `guest`. Downloads are kept in `scratch`, below `name`,
/// which is on a real file system in the guest. Without QEMU the test is reported as skipped.
///
/// # Panics
/// If a test in the guest, or the guest itself, fails.
pub fn run_under_version_2(name: &str, scratch: &Path, filter: &str, programs: &[&Path]) {
    run_tests(Kind::Emulated, name, scratch, filter, programs);
}

/// The same under user-mode Linux.
///
/// # Panics
/// As [`run_under_version_2`].
pub fn run_in_user_mode(name: &str, scratch: &Path, filter: &str) {
    run_tests(Kind::UserMode, name, scratch, filter, &[]);
}

fn run_tests(kind: Kind, name: &str, scratch: &Path, filter: &str, programs: &[&Path]) {
    let guest = Guest {
        kind,
        name,
        scratch,
        program: &std::env::current_exe().expect("our path"),
        arguments: &format!("--skip guest --nocapture --test-threads=1 {filter}"),
        files: programs,
        patience: Duration::from_secs(900),
    };
    if let Some(said) = guest.reports("test result: ok") {
        assert!(
            !said.contains("skipped: no cgroup"),
            "the guest had no cgroup to test"
        );
    }
}

/// Runs a script in a guest that prints `ok NAME` for each check and ends badly if one fails, with `files`
/// beside it. `last` is a line of its end. Without the machine the test is reported as skipped.
///
/// # Panics
/// If a check, or the guest itself, fails.
pub fn run_checks(
    kind: Kind,
    name: &str,
    scratch: &Path,
    (script, arguments): (&str, &str),
    files: &[&Path],
    last: &str,
) {
    let guest = Guest {
        kind,
        name,
        scratch,
        program: Path::new(script),
        arguments,
        files,
        patience: Duration::from_secs(300),
    };
    guest.reports(last);
}
