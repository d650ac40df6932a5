use super::*;
use crate::lever::{Goal, Lever, Reach, Refusal, Sample};
use crate::runtime::Runtime;
use plimsoll_kernel::process::variable_of;
use plimsoll_programs::{Candidate, Recognise};
use std::io::Write;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};

/// The variable that says which runtime a process of a test imitates.
const RUNTIME: &str = "PLIMSOLL_TEST_RUNTIME";
/// Bytes that one of the processes holds, so that it is the largest.
const HELD: u64 = 4_000_000;
const LONG: Duration = Duration::from_secs(60);

/// A runtime of the processes that have its name in their environment.
#[derive(Debug)]
struct Named {
    name: &'static str,
    steered: Steered,
}

static DEAF: Named = Named {
    name: "deaf",
    steered: Steered::Outside(in_vain),
};
static HEARS: Named = Named {
    name: "hears",
    steered: Steered::Outside(steers),
};
static ODD: Named = Named {
    name: "odd",
    steered: Steered::LeftAlone("it is odd"),
};
static THESE: Runtimes = Runtimes(&[&DEAF, &HEARS, &ODD]);

impl Recognise for Named {
    fn name(&self) -> &'static str {
        self.name
    }

    fn runs(&self, process: &Candidate<'_>) -> bool {
        variable_of(process.pid(), RUNTIME).is_some_and(|name| name == self.name.as_bytes())
    }
}

impl Runtime for Named {
    fn steered(&self) -> Steered {
        self.steered
    }
}

fn in_vain(_: Target<'_>) -> Reach<'_> {
    Box::new(|| {
        Err(Refusal::NotYet {
            why: "it is deaf".to_owned(),
            early: false,
            still: false,
            signalled: false,
        })
    })
}

fn steers(_: Target<'_>) -> Reach<'_> {
    Box::new(|| Ok(Box::new(Hears)))
}

/// A lever that does nothing.
struct Hears;

impl Lever for Hears {
    fn name(&self) -> &'static str {
        "hears"
    }

    fn sample(&mut self, _: &Goal) -> Option<Sample> {
        None
    }
}

/// A link that keeps what it is told. It stops when a process is steered, or after a long time.
struct Heard {
    events: Vec<String>,
    until: Instant,
}

impl Heard {
    fn start() -> Heard {
        Heard {
            events: Vec::new(),
            until: Instant::now() + LONG,
        }
    }
}

impl Link for Heard {
    fn numbers(&mut self) -> Option<Numbers> {
        None
    }

    fn wait(&mut self, timeout: Duration) {
        std::thread::sleep(timeout.min(Duration::from_millis(20)));
    }

    fn report(&mut self, _: &Report) {}

    fn released(&mut self, _: Bytes) {}

    fn steered_by(&mut self, adapter: Option<&'static str>) {
        self.events.extend(adapter.map(str::to_owned));
    }

    fn not_steered(&mut self, why: &str) {
        self.events.push(format!("not: {why}"));
    }

    fn stopped(&self) -> bool {
        let steered = self.events.iter().any(|event| event == "hears");
        steered || Instant::now() > self.until
    }
}

/// A shell that has started two others with these names. The first holds memory. All end with its
/// input.
struct Pair(Child);

impl Pair {
    fn start(large: &str, small: &str) -> Pair {
        let script = format!(
            "exec 3<&0\n\
             {RUNTIME}={large} sh -c \"$1\" <&3 &\n\
             {RUNTIME}={small} sh -c 'read line; :' <&3 &\n\
             wait"
        );
        let hold = format!("x=$(head -c {HELD} /dev/zero | tr '\\0' a); read line; :");
        let child = std::process::Command::new("sh")
            .args(["-c", &script, "sh", &hold])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let pair = Pair(child);
        let until = Instant::now() + LONG;
        let ready = |name: &str, bytes: u64| {
            family::of(pair.0.id()).into_iter().any(|pid| {
                let told = variable_of(pid, RUNTIME);
                told.is_some_and(|told| told == name.as_bytes())
                    && family::uses(pid).is_some_and(|uses| uses > Bytes(bytes))
            })
        };
        let up = || family::of(pair.0.id()).len() == 3 && ready(large, HELD) && ready(small, 0);
        while !up() {
            assert!(Instant::now() < until, "both shells start");
            std::thread::sleep(Duration::from_millis(20));
        }
        pair
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// A log in memory, for all threads.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The messages to the link and to the user about a program until it is steered.
fn followed(large: &str, small: &str) -> (Vec<String>, String) {
    let pair = Pair::start(large, small);
    let mut link = Heard::start();
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_writer(move || writer.clone())
        .finish();
    tracing::subscriber::with_default(subscriber, || {
        run_among(THESE, &mut link, pair.0.id(), &Options::default());
    });
    let said = log.0.lock().unwrap();
    (link.events, String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn one_that_cannot_be_reached_does_not_hide_the_one_that_can() {
    let (events, said) = followed("deaf", "hears");
    assert_eq!(
        events,
        [
            "not: it is deaf; it is accounted, but not steered, until it answers",
            "hears"
        ]
    );
    assert_eq!(said.matches("it is deaf").count(), 1, "{said}");
}

#[test]
fn one_that_is_steered_does_not_hide_why_the_other_is_not() {
    let (events, said) = followed("odd", "hears");
    assert_eq!(events, ["hears"], "the program is steered");
    assert!(said.contains("not steered: it is odd"), "{said}");
    let (events, _) = followed("hears", "odd");
    assert_eq!(events, ["hears"]);
}

#[test]
fn one_that_comes_while_another_is_steered_is_told_of() {
    let pair = Pair::start("hears", "odd");
    let (mut known, now) = (Known::default(), Instant::now());
    let mut link = Heard::start();
    let root = pair.0.id();
    let machine = among(THESE, root).0[0];
    let target = Target {
        process: machine.process,
        root,
        options: &Options::default(),
    };
    let mut watched = Watched::new(&mut link, THESE, &target, &mut known);
    (watched.look_at, watched.tell_at) = (now, now + LONG);
    watched.wait(Duration::ZERO);
    assert!(watched.known.told.is_empty(), "not at each look");
    (watched.look_at, watched.tell_at) = (now, now);
    watched.wait(Duration::ZERO);
    assert!(watched.known.told.contains_key("it is odd"));
    assert!(!watched.leave());
}

#[test]
fn one_that_was_not_reached_comes_last_for_longer_each_time() {
    let own = Process::new(std::process::id()).unwrap();
    let machine = |started: u64, uses: u64| Machine {
        process: Process { started, ..own },
        uses: Bytes(uses),
        runtime: &HEARS,
    };
    let machines = [machine(own.started, 9), machine(own.started + 1, 1)];
    let mut known = Known::default();
    let chosen = |known: &Known, machines: &[Machine]| known.choose(machines).unwrap().uses;
    assert_eq!(chosen(&known, &machines), Bytes(9));
    known.put_off(own, true);
    assert_eq!(chosen(&known, &machines), Bytes(1));
    assert_eq!(
        chosen(&known, &machines[..1]),
        Bytes(9),
        "there is no other"
    );
    let first = known.put_off[&own].0;
    known.put_off(own, true);
    assert!(known.put_off[&own].0 >= first + PUT_OFF);
    // After some time it is tried again, but not for ever.
    let past = |known: &mut Known| known.put_off.get_mut(&own).unwrap().0 = Instant::now();
    past(&mut known);
    assert_eq!(chosen(&known, &machines), Bytes(9));
    known.put_off(own, true);
    past(&mut known);
    assert_eq!(chosen(&known, &machines), Bytes(1));
    assert!(known.choose(&[]).is_none());
}

#[test]
fn reasons_are_told_once_and_not_without_end() {
    let own = Process::new(std::process::id()).unwrap();
    let gone = Process { pid: 0, started: 0 };
    let mut known = Known::default();
    assert!(known.is_news(own, "a") && !known.is_news(own, "a"));
    assert!(!known.is_news(gone, "a"), "whomever it is of");
    let mut told = |process: Process, prefix: &str| {
        let texts = (0..2 * MOST_TOLD).map(|n| format!("{prefix}{n}"));
        texts.filter(|text| known.is_news(process, text)).count()
    };
    assert_eq!(told(gone, "gone"), 2 * MOST_TOLD);
    let room = told(own, "own");
    assert!((1..MOST_TOLD).contains(&room), "{room}");
    assert_eq!(told(own, "more"), 0);
    assert!(known.is_cut && known.told.contains_key("a"));
}

/// This process.
fn ourselves(options: &Options) -> Target<'_> {
    let process = Process::new(std::process::id()).unwrap();
    Target {
        process,
        root: process.pid,
        options,
    }
}

/// It stands still, or another steers it.
#[test]
fn one_that_got_no_signal_does_not_come_last_for_good() {
    let options = Options::default();
    let target = ourselves(&options);
    let mut link = Heard::start();
    let mut known = Known::default();
    let mut tries = |known: &mut Known, signalled: bool| {
        let mut watched = Watched::new(&mut link, THESE, &target, known);
        if signalled {
            watched.signalled();
        }
        watched.not_steered("it does not answer");
        watched.left = true;
        assert!(watched.leave());
        known.put_off[&target.process].1
    };
    for _ in 0..2 * MOST_TRIES {
        assert_eq!(tries(&mut known, false), 0);
        assert!(known.is_put_off(&target.process), "but for a while");
    }
    known.put_off.get_mut(&target.process).unwrap().0 = Instant::now();
    assert!(!known.is_put_off(&target.process), "then it is tried again");
    for counted in 1..=MOST_TRIES {
        assert_eq!(tries(&mut known, true), counted);
    }
    known.put_off.get_mut(&target.process).unwrap().0 = Instant::now();
    assert!(
        known.is_put_off(&target.process),
        "each try may send it another"
    );
}

#[test]
fn a_signal_that_was_followed_in_the_end_does_not_count() {
    let options = Options::default();
    let target = ourselves(&options);
    let mut link = Heard::start();
    let mut known = Known::default();
    let mut watched = Watched::new(&mut link, THESE, &target, &mut known);
    watched.signalled();
    watched.not_steered("it does not answer yet");
    watched.steered_by(Some("hears"));
    assert!(!watched.is_signalled && watched.in_vain.is_none());
}

#[test]
fn while_one_refuses_the_others_are_not_looked_into_each_time() {
    let pair = Pair::start("deaf", "odd");
    let root = pair.0.id();
    let target = Target {
        process: among(THESE, root).0[0].process,
        root,
        options: &Options::default(),
    };
    let now = Instant::now();
    let mut link = Heard::start();
    let mut known = Known::default();
    let mut watched = Watched::new(&mut link, THESE, &target, &mut known);
    watched.in_vain = now.checked_sub(PATIENCE);
    watched.look_at = now;
    watched.wait(Duration::ZERO);
    assert!(!watched.left && watched.look_at >= now + TELL);
    watched.steered_by(Some("deaf"));
    assert!(watched.look_at <= Instant::now() + LOOK);
}
