//! Threads of real Java programs: they are put back, and get back what they had, whatever ends it.

use plimsoll_kernel::process::Process;
use plimsoll_kernel::sched::{Parameters, Policy, Rights, parameters, set_parameters, threads};
use plimsoll_phases::{Ended, FollowError, Lever, News, Options, follow};
use plimsoll_policy::phases::Rule;
use plimsoll_testbed::children::on_one_processor;
use plimsoll_testbed::java::{Jdk, javac, jdks};
use plimsoll_testbed::skip;
use plimsoll_unit::Nanos;
use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

/// The nice level of the programs. They yield to others on this machine.
const NICE: i32 = 10;
/// The longest wait, which is enough for a busy machine. Nothing is asserted about time.
const PATIENCE: Duration = Duration::from_secs(180);

/// One program at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn classes() -> Option<&'static Path> {
    static CLASSES: OnceLock<Option<PathBuf>> = OnceLock::new();
    let compiled = CLASSES.get_or_init(|| {
        let javac = javac()?;
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("phases");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/java/Turnover.java");
        let mut command = Command::new(javac);
        command
            .args(["--release", "11", "-d"])
            .arg(&folder)
            .arg(source);
        assert!(command.status().unwrap().success());
        Some(folder)
    });
    compiled.as_deref()
}

/// A Java program on one processor. Ended when dropped.
struct Program {
    child: Child,
    /// The file with what it said.
    said: PathBuf,
}

impl Program {
    /// Says why, and returns `None`, where it cannot be.
    fn start(jdk: &Jdk, arguments: &[&str]) -> Option<Program> {
        Program::start_with(&["-XX:+UseSerialGC"], jdk, arguments)
    }

    /// As [`Program::start`], with a collector and other settings of the machine.
    fn start_with(machine: &[&str], jdk: &Jdk, arguments: &[&str]) -> Option<Program> {
        if !Rights::find().lower {
            skip("we have no right to lower nice levels");
            return None;
        }
        let Some(classes) = classes() else {
            skip("no JDK with javac");
            return None;
        };
        let mut command = Command::new(jdk.java());
        command.args(machine).args(["-Xmx64m", "-cp"]).arg(classes);
        command.arg("Turnover").args(arguments);
        let said = classes.join("said");
        let file = File::create(&said).unwrap();
        command
            .stdin(Stdio::piped())
            .stdout(file.try_clone().unwrap())
            .stderr(file);
        on_one_processor(&mut command, NICE);
        let child = command.spawn().unwrap();
        Some(Program { child, said })
    }

    fn process(&self) -> Arc<Process> {
        Arc::new(Process::open(self.child.id() as i32).unwrap())
    }

    /// How many of its threads satisfy this.
    fn count(&self, is: impl Fn(&Parameters) -> bool) -> usize {
        let tids = threads(&self.process(), 1000).unwrap();
        let all = tids.into_iter().filter_map(|tid| parameters(tid).ok());
        all.filter(|it| is(it)).count()
    }
}

/// The kernel's readings of its threads, and its output: for a test that waited in vain.
impl std::fmt::Display for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let pid = self.child.id();
        for tid in threads(&self.process(), 1000).unwrap_or_default() {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat"));
            writeln!(f, "{}", stat.unwrap_or_default().trim())?;
        }
        f.write_str(&std::fs::read_to_string(&self.said).unwrap_or_default())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn options(rule: Rule, lever: Lever) -> Options {
    Options {
        look: Duration::from_millis(5),
        window: Duration::from_millis(200),
        lever: Some(lever),
        always: true,
        ..Options::of(rule)
    }
}

fn is_plain(it: &Parameters) -> bool {
    it.policy == Policy::Other && it.nice == NICE && it.slice == Rights::find().slice
}

/// Follows a program, once its machine can be read, until `done` says so of what was told and of the program.
fn follow_until(
    program: &Program,
    options: &Options,
    done: impl Fn(&[News]) -> bool + Sync,
) -> (Result<Ended, FollowError>, Vec<News>) {
    let told = Mutex::new(Vec::new());
    let (stop, over) = (AtomicBool::new(false), AtomicBool::new(false));
    let process = program.process();
    let until = Instant::now() + PATIENCE;
    let ended = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Acquire) && Instant::now() < until {
                if done(&told.lock().unwrap()) {
                    stop.store(true, Ordering::Release);
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            stop.store(true, Ordering::Release);
        });
        let mut tell = |news: &News| told.lock().unwrap().push(news.clone());
        let ended = loop {
            match follow(&process, options, &stop, &mut tell) {
                Err(FollowError::Allocation(_)) if Instant::now() < until && process.alive() => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                ended => break ended,
            }
        };
        over.store(true, Ordering::Release);
        ended
    });
    (ended, told.into_inner().unwrap())
}

fn changes(told: &[News]) -> u64 {
    let end = told.iter().find_map(|news| match news {
        News::Ends { changes, .. } => Some(*changes),
        _ => None,
    });
    end.unwrap()
}

#[test]
fn threads_are_put_back_and_all_of_them_get_back_what_they_had() {
    let _one = alone();
    for (index, jdk) in jdks().iter().enumerate() {
        let Some(program) = Program::start(jdk, &["6"]) else {
            return;
        };
        let rule = [Rule::Larf, Rule::Mqrr][index % 2];
        let lever = [Lever::Nice, Lever::Idle][index % 2];
        // Some may have inherited it from one that started them.
        let is_back = |it: &Parameters| it.policy == Policy::Idle || it.nice == 19;
        let (ended, told) = follow_until(&program, &options(rule, lever), |_| {
            program.count(is_back) >= 3
        });
        assert_eq!(ended.unwrap(), Ended::Stopped);
        assert!(
            changes(&told) >= 2,
            "JDK {} {told:?}\n{program}",
            jdk.version
        );
        assert_eq!(program.count(|it| !is_plain(it)), 0, "JDK {}", jdk.version);
    }
}

/// The allocation of threads is read alike under each collector.
#[test]
fn threads_are_put_back_under_other_collectors() {
    let _one = alone();
    let all = jdks();
    for (version, collector) in [(11, "Parallel"), (17, "G1"), (21, "Z"), (25, "Z")] {
        let Some(jdk) = all.iter().find(|jdk| jdk.version == version) else {
            continue;
        };
        let use_collector = format!("-XX:+Use{collector}GC");
        let Some(program) = Program::start_with(&[&use_collector], jdk, &["6"]) else {
            return;
        };
        let options = options(Rule::Larf, Lever::Nice);
        let is_back = |it: &Parameters| it.nice == 19;
        let (ended, told) = follow_until(&program, &options, |_| program.count(is_back) >= 3);
        assert_eq!(ended.unwrap(), Ended::Stopped, "{collector} {version}");
        assert!(
            changes(&told) >= 2,
            "{collector} {version}: {told:?}\n{program}"
        );
        let left = program.count(|it| !is_plain(it));
        assert_eq!(left, 0, "{collector} {version}");
    }
}

#[test]
fn slices_order_threads_without_rights_to_lower_anything() {
    let _one = alone();
    let Some(jdk) = jdks().pop() else { return };
    if !Rights::find().slices {
        return skip("this kernel has no slices");
    }
    let Some(program) = Program::start(&jdk, &["6"]) else {
        return;
    };
    let is_back = |it: &Parameters| it.slice == Nanos(100_000_000);
    let options = options(Rule::Larf, Lever::Slices);
    let (ended, _) = follow_until(&program, &options, |_| program.count(is_back) >= 3);
    assert_eq!(ended.unwrap(), Ended::Stopped);
    assert_eq!(program.count(|it| !is_plain(it)), 0);
}

#[test]
fn threads_that_come_and_go_are_ordered_and_inherit_nothing() {
    let _one = alone();
    let Some(jdk) = jdks().into_iter().nth(1) else {
        return;
    };
    let Some(program) = Program::start(&jdk, &["6", "20"]) else {
        return;
    };
    let options = options(Rule::Larf, Lever::Nice);
    let process = program.process();
    let seen_back = Mutex::new(BTreeSet::new());
    // Waits for threads, not for time: on a busy machine looks are rare, and threads come all the same.
    let (ended, told) = follow_until(&program, &options, |_| {
        let is_back = |tid: &i32| parameters(*tid).is_ok_and(|it| it.nice == 19);
        let tids = threads(&process, 1000).unwrap();
        let mut seen = seen_back.lock().unwrap();
        seen.extend(tids.into_iter().filter(is_back));
        seen.len() > 20
    });
    assert_eq!(ended.unwrap(), Ended::Stopped);
    assert!(changes(&told) > 20, "{told:?}");
    // A thread that is born while all is undone may inherit from one whose turn to be restored is to come.
    let until = Instant::now() + PATIENCE;
    while program.count(|it| !is_plain(it)) > 0 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(program.count(|it| !is_plain(it)), 0);
}

#[test]
fn a_machine_that_is_killed_ends_it() {
    let _one = alone();
    let Some(jdk) = jdks().pop() else { return };
    let Some(program) = Program::start(&jdk, &["4"]) else {
        return;
    };
    let pid = program.child.id() as i32;
    let options = options(Rule::Larf, Lever::Nice);
    let (ended, told) = follow_until(&program, &options, |_| {
        if program.count(|it| it.nice == 19) > 0 {
            // SAFETY: takes numbers only; the child was not waited for.
            unsafe { libc::kill(pid, libc::SIGKILL) };
            std::thread::sleep(Duration::from_millis(100));
        }
        false
    });
    assert_eq!(ended.unwrap(), Ended::ProgramGone, "{told:?}");
}

#[test]
fn with_one_thread_there_is_nothing_to_do_and_that_is_told() {
    let _one = alone();
    let Some(jdk) = jdks().pop() else { return };
    // Without compilers, which are ordered as long as they compile once they have allocated.
    let machine = ["-XX:+UseSerialGC", "-Xint"];
    let Some(program) = Program::start_with(&machine, &jdk, &["1"]) else {
        return;
    };
    let options = Options {
        always: false,
        ..options(Rule::Larf, Lever::Nice)
    };
    // Another thread of the machine's own that ran for a moment was ordered, and then it is not told.
    let said = (0..20).find_map(|_| {
        let since = Instant::now();
        let nothing = |news: &&News| matches!(news, News::NothingToDo { .. });
        let (ended, told) = follow_until(&program, &options, |told| {
            told.iter().any(|news| nothing(&news)) || since.elapsed() > Duration::from_secs(15)
        });
        assert_eq!(ended.unwrap(), Ended::Stopped);
        told.into_iter().find(|news| nothing(&news))
    });
    let said = said.expect("it is told");
    assert!(said.is_important());
    let said = said.to_string();
    assert!(said.starts_with("nothing to order in process"), "{said}");
}

/// The program allocates less as long as one of its threads is put back.
#[test]
fn a_program_that_gets_less_done_gets_everything_back_for_a_while() {
    let _one = alone();
    let Some(jdk) = jdks().pop() else { return };
    let Some(program) = Program::start(&jdk, &["6", "0", "harmed"]) else {
        return;
    };
    let options = Options {
        window: Duration::from_millis(400),
        always: false,
        ..options(Rule::Larf, Lever::Nice)
    };
    let is_withdrawn = |news: &News| matches!(news, News::Withdrawn(..));
    // The rest lasts 60 windows, in which the loop changes nothing.
    let left = OnceLock::new();
    let (ended, told) = follow_until(&program, &options, |told| {
        let is_told = told.iter().any(is_withdrawn);
        if is_told {
            left.get_or_init(|| program.count(|it| !is_plain(it)));
        }
        is_told
    });
    assert_eq!(ended.unwrap(), Ended::Stopped);
    assert_eq!(left.get(), Some(&0), "threads that are still back");
    assert!(changes(&told) > 0, "{told:?}");
    let withdrawn = told.iter().find(|news| is_withdrawn(news)).unwrap();
    assert!(withdrawn.is_important());
    let said = withdrawn.to_string();
    assert!(
        said.starts_with("the order of threads is withdrawn for 24 s: "),
        "{said}"
    );
}

#[test]
fn what_cannot_be_ordered_is_refused() {
    let _one = alone();
    let own = Arc::new(Process::own().unwrap());
    let stop = AtomicBool::new(false);
    let mut tell = |_: &News| {};
    // The thread that this starts from may be of the idle policy, where no nice level does anything.
    for lever in Lever::ALL {
        let refused = follow(&own, &options(Rule::Larf, lever), &stop, &mut tell).unwrap_err();
        let said = refused.to_string();
        assert!(
            said.contains("has no HotSpot JVM") || said.contains("are not ordered"),
            "{said}"
        );
    }
    let Some(jdk) = jdks().pop() else { return };
    let Some(program) = Program::start(&jdk, &["2"]) else {
        return;
    };
    let pid = program.child.id() as i32;
    let idle = Parameters {
        policy: Policy::Idle,
        nice: NICE,
        slice: Nanos::ZERO,
    };
    set_parameters(pid, &idle).unwrap();
    let refused = follow(
        &program.process(),
        &options(Rule::Larf, Lever::Nice),
        &stop,
        &mut tell,
    );
    assert!(
        matches!(refused, Err(FollowError::NoRoom { .. })),
        "{refused:?}"
    );
}
