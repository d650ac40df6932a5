//! A machine that runs `Sums`, and its agent.

use crate::support::{LONG, Program, compiled, eventually};
use plimsoll_runtimes::hotspot::agent::{self, AgentError, Page};
use plimsoll_runtimes::hotspot::attach::Attach;
use plimsoll_runtimes::hotspot::machine::Machine;
use plimsoll_runtimes::process::Process;
use plimsoll_testbed::TestCgroup;
use plimsoll_unit::Bytes;
use plimsoll_wire::collections::{self, Totals, Wish};
use rustix::process::Signal;
use std::cell::Cell;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

/// Collectors, as the flag names them.
pub(crate) const COLLECTORS: [&str; 5] = ["Serial", "Parallel", "G1", "Shenandoah", "Z"];
/// Collectors in a generational mode that they do not have by themselves, with the version of Java that has
/// it.
pub(crate) const MODES: [(u32, &str); 2] =
    [(21, "Z generational"), (25, "Shenandoah generational")];

/// All collectors of a version.
pub(crate) fn collectors(version: u32) -> impl Iterator<Item = &'static str> {
    let modes = MODES.into_iter().filter(move |mode| mode.0 == version);
    COLLECTORS.into_iter().chain(modes.map(|mode| mode.1))
}

/// The flags that choose one of [`collectors`].
fn choice(collector: &str) -> Vec<String> {
    let (name, mode) = match collector.split_once(' ') {
        Some(("Z", _)) => ("Z", Some("-XX:+ZGenerational")),
        Some((name, _)) => (name, Some("-XX:ShenandoahGCMode=generational")),
        None => (collector, None),
    };
    let choice = format!("-XX:+Use{name}GC");
    [choice]
        .into_iter()
        .chain(mode.map(str::to_owned))
        .collect()
}

/// The library that was built with this test.
pub(crate) fn library() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let beside = own.parent().unwrap().join(agent::LIBRARY);
    assert!(beside.is_file(), "{} was not built", beside.display());
    beside
}

/// How a machine gets the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// By an option, when it starts.
    Start,
    /// Through the attach socket, later.
    Attach,
}

/// A machine with `Sums` in it.
pub(crate) struct Sums {
    pub(crate) program: Program,
    pub(crate) process: Process,
    /// Where the machine would write that it crashed.
    report: PathBuf,
    /// Orders to the agent. They are repeated at each look: an adapter that has said nothing for ten
    /// seconds counts as gone.
    wished: Cell<Option<Wish>>,
}

/// The name of that file.
const REPORT: &str = "hs_err.log";

impl Sums {
    /// Starts one with these flags; `sums`: megabytes and threads. Waits until it works.
    pub(crate) fn start(home: &Path, before: &[&str], flags: &[&str], sums: [&str; 2]) -> Sums {
        let classes = compiled("Sums.java");
        let mut argv: Vec<OsString> = vec![home.join("bin/java").into()];
        // Before those that it unlocks.
        argv.push("-XX:+UnlockExperimentalVMOptions".into());
        argv.extend(flags.iter().map(OsString::from));
        let report = format!("-XX:ErrorFile={}", classes.path().join(REPORT).display());
        argv.extend([report, "-XX:-CreateCoredumpOnCrash".into()].map(OsString::from));
        let report = classes.path().join(REPORT);
        argv.extend(["-cp".into(), classes.path().into(), "Sums".into()]);
        argv.extend(sums.iter().map(OsString::from));
        let program = Program::run(before, argv, classes);
        let process = program.machine();
        let sums = Sums {
            program,
            process,
            report,
            wished: Cell::new(None),
        };
        sums.goes_on();
        sums
    }

    /// One with this collector, 160 MiB of heap at most, more flags, and the agent.
    pub(crate) fn of(home: &Path, collector: &str, way: Way, more: &[&str]) -> (Sums, Page) {
        Sums::after(&[], home, collector, way, more)
    }

    /// The same, started by the way of `before`.
    pub(crate) fn after(
        before: &[&str],
        home: &Path,
        collector: &str,
        way: Way,
        more: &[&str],
    ) -> (Sums, Page) {
        let choice = choice(collector);
        let load = format!("-agentpath:{}", library().display());
        let mut flags = vec!["-Xmx160m"];
        flags.extend(choice.iter().map(String::as_str));
        flags.extend(more);
        if way == Way::Start {
            flags.push(&load);
        }
        let sums = Sums::start(home, before, &flags, ["20", "2"]);
        let page = match way {
            Way::Start => sums.page(),
            Way::Attach => sums.load().unwrap(),
        };
        (sums, page)
    }

    /// Loads the agent through the attach socket.
    pub(crate) fn load(&self) -> Result<Page, AgentError> {
        self.load_from(&library())
    }

    pub(crate) fn load_from(&self, library: &Path) -> Result<Page, AgentError> {
        let attach = Attach::new(self.process).unwrap();
        let machine = Machine::ask(&attach, LONG).unwrap();
        agent::load(&self.process, &attach, &machine, library)
    }

    pub(crate) fn page(&self) -> Page {
        Page::of(&self.process).unwrap()
    }

    /// The descriptor of the page, below `/proc`.
    pub(crate) fn page_descriptor(&self) -> PathBuf {
        let links = std::fs::read_dir(self.process.path("fd")).unwrap();
        let is_page = |path: &PathBuf| {
            let target = std::fs::read_link(path).unwrap_or_default();
            target.to_string_lossy().contains(collections::NAME)
        };
        let mut paths = links.flatten().map(|link| link.path());
        paths.find(is_page).expect("it has a page")
    }

    /// Presses it into this limit of its group, bytes.
    pub(crate) fn press(&self, group: &TestCgroup, limit: u64) {
        // Stopped meanwhile: the kernel gives up where a program uses pages again faster than they are taken.
        self.process.signal(Signal::STOP).unwrap();
        eventually("the limit comes down", || {
            group.cgroup().set_limit(Some(Bytes(limit))).is_ok()
        });
        self.process.signal(Signal::CONT).unwrap();
    }

    /// Gives it a command.
    pub(crate) fn tell(&mut self, command: &str) {
        let stdin = self.program.child.stdin.as_mut().unwrap();
        writeln!(stdin, "{command}").unwrap();
    }

    /// How many objects it has checked so far.
    ///
    /// # Panics
    /// If an object was not as it was made, or the machine is gone.
    pub(crate) fn checked(&self) -> u64 {
        self.look().unwrap_or_else(|why| panic!("{why}"))
    }

    /// The same; an error if the machine is gone, with what it wrote of that.
    pub(crate) fn look(&self) -> Result<u64, String> {
        let said = self.program.printed();
        assert!(!said.contains("BROKEN"), "{said}");
        if !self.process.alive() {
            let report = std::fs::read_to_string(&self.report).unwrap_or_default();
            let report: String = report.chars().take(6000).collect();
            return Err(format!("the machine is gone: {said}{report}"));
        }
        let whole = said.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let numbers = whole.lines().filter_map(|line| line.parse().ok());
        Ok(numbers.max().unwrap_or(0))
    }

    /// Waits until it has checked some more objects.
    pub(crate) fn goes_on(&self) {
        let before = self.checked();
        eventually("it goes on", || self.checked() > before);
    }

    /// Gives the agent this order from now on; `None` takes it back.
    pub(crate) fn wishes(&self, page: &Page, wish: Option<Wish>) {
        self.wished.set(wish);
        page.wish(wish);
    }

    /// The page's sums now. Also repeats the orders.
    pub(crate) fn told(&self, page: &Page) -> Totals {
        self.checked();
        if let Some(wish) = self.wished.get() {
            page.wish(Some(wish));
        }
        totals(page)
    }

    /// Waits until the page has told of `more` pauses.
    pub(crate) fn collects(&self, page: &Page, more: u64) -> Totals {
        let before = self.told(page).pauses;
        eventually("it collects", || self.told(page).pauses >= before + more);
        self.told(page)
    }

    /// Has the whole heap collected.
    pub(crate) fn collects_whole(&mut self, page: &Page) -> Totals {
        let before = self.told(page).full;
        self.tell("gc");
        eventually("the whole heap is collected", || {
            self.told(page).full > before
        });
        self.told(page)
    }

    /// Waits until it neither allocates nor collects.
    pub(crate) fn rest(&mut self, page: &Page) -> Totals {
        let answers = self.answers("rests");
        self.tell("rest");
        eventually("its threads rest", || {
            self.told(page);
            self.answers("rests") > answers
        });
        // The machine and the agent may still allocate and collect by themselves.
        let mut last = (self.told(page), Instant::now());
        eventually("it rests", || {
            let now = self.told(page);
            if now != last.0 {
                last = (now, Instant::now());
            }
            last.1.elapsed() > Duration::from_millis(700)
        });
        last.0
    }

    /// How often it has given this answer.
    fn answers(&self, answer: &str) -> usize {
        let said = self.program.printed();
        said.lines().filter(|line| *line == answer).count()
    }

    /// Ends it, and sees that it ended well.
    pub(crate) fn quit(self) {
        self.checked();
        let (status, printed) = self.end();
        assert!(status.success(), "{status}: {printed}");
    }

    /// Ends it, if it is not gone already. Returns how it ended, and what it had printed.
    pub(crate) fn end(mut self) -> (ExitStatus, String) {
        let stdin = self.program.child.stdin.as_mut().unwrap();
        let _ = writeln!(stdin, "quit");
        let until = Instant::now() + LONG;
        let status = loop {
            match self.program.child.try_wait().unwrap() {
                Some(status) => break status,
                None => assert!(Instant::now() < until, "it does not end"),
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        (status, self.program.printed())
    }
}

pub(crate) fn totals(page: &Page) -> Totals {
    page.view().unwrap().totals().unwrap_or_default()
}

/// Anonymous memory of a process, bytes.
pub(crate) fn resident(process: &Process) -> u64 {
    process.memory().unwrap().anon.0
}

/// A script that moves itself into a group, and then becomes the program. Memory touched before is counted
/// elsewhere.
pub(crate) fn entering(group: &TestCgroup) -> String {
    let procs = group.cgroup().dir().join("cgroup.procs");
    format!("echo $$ > {} && exec \"$0\" \"$@\"", procs.display())
}
