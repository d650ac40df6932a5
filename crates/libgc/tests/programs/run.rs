//! Runs one program with either library, and compares the results.

use crate::library;
use plimsoll_testbed::skip;
use std::fs;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// A program, its input, and what to compare.
pub(crate) struct Program {
    /// The directory of its input.
    pub(crate) name: &'static str,
    /// The package it comes from.
    pub(crate) package: &'static str,
    /// Commands to run once before, with the system's library.
    pub(crate) build: &'static [&'static [&'static str]],
    /// Commands to run with either library.
    pub(crate) steps: &'static [&'static [&'static str]],
    /// Files that it writes, which must be equal.
    pub(crate) files: &'static [&'static str],
    /// Other files that it writes, and might find in the next run.
    pub(crate) scratch: &'static [&'static str],
    pub(crate) environment: &'static [(&'static str, &'static str)],
    /// An input file that is generated.
    pub(crate) input: Option<Input>,
    /// Selects what to compare in its output and files.
    pub(crate) same: fn(&[u8]) -> Vec<u8>,
    /// The least number of collections in each step.
    pub(crate) collections: usize,
    /// The time limit of a step: far longer than it takes.
    pub(crate) seconds: u64,
}

/// A file's name, and the function that generates its contents.
type Input = (&'static str, fn() -> String);

/// The result of one step.
struct Outcome {
    status: ExitStatus,
    output: Vec<u8>,
    errors: Vec<u8>,
    time: Duration,
    /// Processor time, and the maximum memory in KiB.
    usage: (Duration, i64),
}

/// The library, and its settings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Library {
    System,
    Ours,
    /// This library, with frequent collections.
    OursOften,
}

/// A program with the usual settings; its input is in `programs/NAME`.
pub(crate) fn program(
    name: &'static str,
    package: &'static str,
    steps: &'static [&'static [&'static str]],
) -> Program {
    Program {
        name,
        package,
        steps,
        build: &[],
        files: &[],
        scratch: &[],
        environment: &[],
        input: None,
        same: |text| text.to_vec(),
        collections: 5,
        seconds: 120,
    }
}

impl Program {
    pub(crate) fn check(&self) {
        self.check_as(self.name);
    }

    /// Runs it in a directory of that name.
    pub(crate) fn check_as(&self, name: &str) {
        if let Some(missing) = self.missing() {
            skip(format_args!(
                "{missing} is not installed (Debian: {})",
                self.package
            ));
            return;
        }
        let place = self.prepare(name);
        let library = libraries(name);
        for step in self.build {
            let built = self.run(step, &place, None, Library::System);
            assert!(
                built.status.success(),
                "{name}: {step:?} failed:\n{}",
                built.tell()
            );
        }
        let expected = self.all(&place, &library, Library::System);
        for (step, outcome) in self.steps.iter().zip(&expected.0) {
            assert_eq!(
                outcome.status.signal(),
                None,
                "{name}: {step:?} with the system's library:\n{}",
                outcome.tell()
            );
        }
        let rounds = std::env::var("PROGRAMS_ROUNDS")
            .ok()
            .and_then(|rounds| rounds.parse().ok())
            .unwrap_or(1);
        for round in 0..rounds {
            for which in [Library::Ours, Library::OursOften] {
                let found = self.all(&place, &library, which);
                self.compare(name, which, &expected, &found);
                if round == 0 && std::env::var_os("PROGRAMS_SHOW").is_some() {
                    show(name, self.steps, which, &expected.0, &found.0);
                }
            }
        }
        // Kept if something differed.
        let _ = fs::remove_dir_all(place);
    }

    /// A command that is not installed, if there is one.
    fn missing(&self) -> Option<&'static str> {
        let paths = std::env::var_os("PATH").unwrap_or_default();
        let installed =
            |command: &str| std::env::split_paths(&paths).any(|path| path.join(command).exists());
        let all = self.build.iter().chain(self.steps).map(|step| step[0]);
        all.filter(|command| !command.starts_with("./"))
            .find(|command| !installed(command))
    }

    /// Makes a new directory with the program's input.
    fn prepare(&self, name: &str) -> PathBuf {
        let place = temporary(name);
        let input = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/programs")
            .join(self.name);
        for file in fs::read_dir(input).into_iter().flatten().flatten() {
            fs::copy(file.path(), place.join(file.file_name())).unwrap();
        }
        if let Some((file, make)) = self.input {
            fs::write(place.join(file), make()).unwrap();
        }
        place
    }

    /// Runs all steps, and returns what the files contain then.
    fn all(&self, place: &Path, library: &Path, which: Library) -> (Vec<Outcome>, Vec<Vec<u8>>) {
        for name in self.files.iter().chain(self.scratch) {
            let path = place.join(name);
            let _ = fs::remove_file(&path);
            let _ = fs::remove_dir_all(&path);
        }
        let mut steps: Vec<Outcome> = Vec::new();
        for step in self.steps {
            if let Some(before) = steps
                .last()
                .filter(|_| step[0].starts_with("./") && !place.join(step[0]).exists())
            {
                panic!(
                    "{which:?}: no {}, because of the step before:\n{}",
                    step[0],
                    before.tell()
                );
            }
            steps.push(self.run(step, place, Some(library), which));
        }
        let files = self
            .files
            .iter()
            .map(|name| fs::read(place.join(name)).unwrap_or_default())
            .collect();
        (steps, files)
    }

    fn compare(
        &self,
        name: &str,
        which: Library,
        expected: &(Vec<Outcome>, Vec<Vec<u8>>),
        found: &(Vec<Outcome>, Vec<Vec<u8>>),
    ) {
        for (at, step) in self.steps.iter().enumerate() {
            let (wanted, got) = (&expected.0[at], &found.0[at]);
            assert!(
                wanted.status == got.status
                    && (self.same)(&wanted.output) == (self.same)(&got.output),
                "{name}, {step:?}: the system's library:\n{}\n{which:?}:\n{}",
                wanted.tell(),
                got.tell(),
            );
            let collections = got.collections();
            assert!(
                collections >= self.collections,
                "{name}, {step:?}, {which:?}: {collections} collections:\n{}",
                got.tell()
            );
        }
        for (at, file) in self.files.iter().enumerate() {
            let (wanted, got) = ((self.same)(&expected.1[at]), (self.same)(&found.1[at]));
            assert!(
                !wanted.is_empty(),
                "{name}: no {file} with the system's library"
            );
            let differs = wanted.iter().zip(&got).position(|(a, b)| a != b);
            assert!(
                wanted == got,
                "{name}, {which:?}: {file} differs from byte {differs:?} on; {} and {} bytes",
                wanted.len(),
                got.len(),
            );
        }
    }

    /// Runs one step. Its output goes to files, so that it never waits for a reader.
    #[expect(
        clippy::zombie_processes,
        reason = "it is waited for by its number, which says what memory it had"
    )]
    fn run(&self, step: &[&str], place: &Path, library: Option<&Path>, which: Library) -> Outcome {
        let (output, errors) = (place.join("stdout"), place.join("stderr"));
        let mut command = Command::new(if step[0].starts_with("./") {
            place.join(step[0])
        } else {
            step[0].into()
        });
        command
            .args(&step[1..])
            .current_dir(place)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", place)
            .env("TMPDIR", place)
            .env("LC_ALL", "C.UTF-8")
            .envs(self.environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(fs::File::create(&output).unwrap())
            .stderr(fs::File::create(&errors).unwrap())
            .process_group(0);
        if let (Some(library), Library::Ours | Library::OursOften) = (library, which) {
            command
                .env("LD_LIBRARY_PATH", library)
                .env("GC_PRINT_STATS", "1");
            if which == Library::OursOften {
                command.env("GC_FREE_SPACE_DIVISOR", "20");
            }
        }
        let begin = Instant::now();
        let child = command
            .spawn()
            .unwrap_or_else(|error| panic!("{step:?}: {error}"));
        let (status, usage) = wait(child.id() as i32, Duration::from_secs(self.seconds));
        Outcome {
            status,
            output: fs::read(output).unwrap(),
            errors: fs::read(errors).unwrap(),
            time: begin.elapsed(),
            usage,
        }
    }
}

impl Outcome {
    /// How many lines of output come from this library: one per collection.
    fn collections(&self) -> usize {
        self.errors
            .split(|&byte| byte == b'\n')
            .filter(|line| is_stats(line))
            .count()
    }

    /// The output without those lines.
    fn tell(&self) -> String {
        let errors: Vec<&[u8]> = self
            .errors
            .split(|&byte| byte == b'\n')
            .filter(|line| !is_stats(line))
            .collect();
        format!(
            "{} after {:?}\n--- output\n{}--- errors\n{}",
            self.status,
            self.time,
            String::from_utf8_lossy(&self.output),
            String::from_utf8_lossy(&errors.join(&b'\n')),
        )
    }
}

fn is_stats(line: &[u8]) -> bool {
    let text = String::from_utf8_lossy(line);
    text.starts_with("gc ") && text.contains("pause") && text.contains("superpages")
}

/// Waits for a process; after the time `most`, ends it and its children. Returns its exit status
/// and its usage.
fn wait(pid: i32, most: Duration) -> (ExitStatus, (Duration, i64)) {
    let begin = Instant::now();
    let mut late = false;
    loop {
        let mut status = 0;
        // SAFETY: fills both in; all zero is a valid value.
        let (found, usage) = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            (
                libc::wait4(pid, &mut status, libc::WNOHANG, &mut usage),
                usage,
            )
        };
        if found == pid {
            let of = |time: libc::timeval| {
                Duration::from_micros((time.tv_sec * 1_000_000 + time.tv_usec) as u64)
            };
            let processors = of(usage.ru_utime) + of(usage.ru_stime);
            return (ExitStatus::from_raw(status), (processors, usage.ru_maxrss));
        }
        assert_eq!(found, 0, "wait4: {}", std::io::Error::last_os_error());
        if !late && begin.elapsed() > most {
            late = true;
            // SAFETY: a group of processes that was started here.
            unsafe { libc::kill(-pid, libc::SIGKILL) };
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn show(name: &str, steps: &[&[&str]], which: Library, expected: &[Outcome], found: &[Outcome]) {
    for (at, step) in steps.iter().enumerate() {
        let of = |outcome: &Outcome| {
            format!(
                "{:.2} s ({:.2} of processors) {} MiB",
                outcome.time.as_secs_f64(),
                outcome.usage.0.as_secs_f64(),
                outcome.usage.1 >> 10
            )
        };
        let collections = found[at].collections();
        println!(
            "{name} {}: system {}, {which:?} {} {collections} collections",
            step[0],
            of(&expected[at]),
            of(&found[at])
        );
    }
}

/// A new directory for this test.
fn temporary(name: &str) -> PathBuf {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("programs")
        .join(name);
    let _ = fs::remove_dir_all(&place);
    fs::create_dir_all(&place).unwrap();
    place
}

/// A directory in which this library has libgc's name.
fn libraries(name: &str) -> PathBuf {
    let place = temporary(&format!("{name}.lib"));
    library::link(&place);
    place
}
