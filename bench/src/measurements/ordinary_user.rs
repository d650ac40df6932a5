//! The budget of an ordinary user without rights: nothing but the programs' own adapting holds it.

use crate::harness::folder::Folder;
use crate::harness::java::Classes;
use crate::harness::programs::{Jvm, sibling};
use crate::harness::watch::Watched;
use crate::measurement::{About, Measurement};
use crate::report::results::Results;
use crate::report::statistics::spread;
use crate::runner::{Runner, Variant};
use crate::{Error, Result};
use plimsoll_testbed::children::{end, end_with_us};
use serde::{Deserialize, Serialize};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const WITHIN: &str =
    "three Java programs of an ordinary user: together at most a tenth above their budget";
/// Bytes.
const BUDGET: u64 = 600 << 20;
/// Live megabytes and replaced megabytes a second of each program, and its weight.
const PROGRAMS: [(&str, &str, u32); 3] = [("120", "40", 200), ("80", "40", 100), ("40", "40", 50)];
/// How long they run, and from when on they are looked at: at first they grow.
const LASTS: Duration = Duration::from_secs(40);
const SETTLED: Duration = Duration::from_secs(10);
const PACE: Duration = Duration::from_millis(100);
/// Programs that take longer to end are killed.
const PATIENCE: Duration = Duration::from_secs(15);
/// The user `nobody`. Root measures as this user, and anybody else as themselves.
const NOBODY: u32 = 65534;
const JVM: Jvm = Jvm {
    version: 17,
    collector: "G1",
};

/// `ordinary-user`.
pub(super) struct OrdinaryUser;

impl Measurement for OrdinaryUser {
    fn about(&self) -> About {
        About {
            name: "ordinary-user",
            question: "What does an ordinary user's budget hold, without any rights?",
            asks: &[WITHIN],
            minutes: 7,
            only: false,
            slice: false,
            seed: None,
        }
    }

    fn run(&self, runner: &Runner) -> Result<Results> {
        let classes = Classes::of("tools/pictures/Load.java")?;
        open_to_all(classes.folder())?;
        let variants = [("by themselves", false), ("plimsoll run -f", true)];
        let ran = runner
            .experiment(variants)
            .run(|ours, _| once(*ours, classes.folder()))?;
        Ok(report(&ran, runner))
    }
}

/// Memory that all programs used together, MiB.
#[derive(Serialize, Deserialize)]
struct Used {
    median: f64,
    most: f64,
}

fn once(ours: bool, classes: &Path) -> Result<Used> {
    let folder = Folder::new("ordinary-user")?;
    open_to_all(folder.path())?;
    let mut started = Started(Vec::new());
    for mut command in commands(ours, classes, folder.path())? {
        command.stdin(Stdio::null()).stdout(Stdio::null());
        if rustix::process::geteuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        end_with_us(&mut command);
        let child = command.spawn().map_err(Error::start(&command))?;
        started.0.push(child);
    }
    let watched = started.0.iter().map(|child| Watched::new(child.id(), ours));
    let mut watched: Vec<Watched> = watched.collect::<std::result::Result<_, _>>()?;
    let (begin, mut used) = (Instant::now(), Vec::new());
    while begin.elapsed() < LASTS {
        std::thread::sleep(PACE);
        let seen: u64 = watched.iter_mut().map(|program| program.look().uses).sum();
        if begin.elapsed() >= SETTLED {
            used.push(seen as f64 / f64::from(1 << 20));
        }
    }
    let most = used.iter().copied().fold(0.0, f64::max);
    let median = spread(&used).median;
    Ok(Used { median, most })
}

/// `plimsoll run` with a file of the programs, or the programs by themselves.
fn commands(ours: bool, classes: &Path, folder: &Path) -> Result<Vec<Command>> {
    let words = |live: &str, churn: &str| {
        let mut words = vec![JVM.java(), "-cp".into(), classes.display().to_string()];
        words.extend(["Load", live, churn, "3600"].map(str::to_owned));
        words
    };
    if !ours {
        let program = |(live, churn, _): (&str, &str, u32)| {
            let words = words(live, churn);
            let mut command = Command::new(&words[0]);
            command.args(&words[1..]);
            command
        };
        return Ok(PROGRAMS.map(program).into());
    }
    let mut text = format!("budget = {BUDGET}\n");
    for (index, (live, churn, weight)) in PROGRAMS.iter().enumerate() {
        let words = words(live, churn);
        text += &format!(
            "[[program]]\nname = \"load-{index}\"\nweight = {weight}\ncommand = {words:?}\n"
        );
    }
    let file = folder.join("programs.toml");
    std::fs::write(&file, text).map_err(Error::file("write", &file))?;
    let mut command = Command::new(sibling("plimsoll"));
    command.args(["run", "-q", "-f"]).arg(&file);
    command.env("PLIMSOLL_SOCKET", folder.join("broker/broker.sock"));
    Ok(vec![command])
}

/// Gives a folder of ours to the user whose programs run, or lets them read it.
fn open_to_all(folder: &Path) -> Result<()> {
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(folder, mode).map_err(Error::file("open", folder))?;
    if rustix::process::geteuid().is_root() {
        chown(folder, Some(NOBODY), Some(NOBODY)).map_err(Error::file("give away", folder))?;
    }
    Ok(())
}

/// Programs that end with this.
struct Started(Vec<Child>);

impl Drop for Started {
    fn drop(&mut self) {
        self.0.iter_mut().for_each(|child| end(child, PATIENCE));
    }
}

fn report(ran: &[Variant<bool, Used>], runner: &Runner) -> Results {
    let budget = BUDGET >> 20;
    let mut results = runner
        .results(
            "Three Java programs of an ordinary user under one budget.",
            &format!(
                "120, 80 and 40 MB alive, 40 MB/s replaced in each, weights 200, 100 and 50, G1 of JDK 17, a \
                 budget of {budget} MiB that no cgroup enforces. The memory that all use together, from \
                 second 10 to 40."
            ),
        )
        .columns(&[("how", ""), ("together, median", "MiB"), ("most", "MiB")]);
    let median = |used: &[Used], of: fn(&Used) -> f64| {
        spread(&used.iter().map(of).collect::<Vec<_>>())
            .median
            .round()
    };
    for variant in ran {
        let used = &variant.outcomes;
        let cells = [median(used, |it| it.median), median(used, |it| it.most)];
        results.row([
            variant.name.as_str().into(),
            cells[0].into(),
            cells[1].into(),
        ]);
    }
    let [alone, ours] = [0, 1].map(|index| median(&ran[index].outcomes, |it| it.most));
    let told = format!("{ours:.0} MiB of {budget} MiB (by themselves: {alone:.0} MiB)");
    results.target(WITHIN, told, ours <= 1.1 * budget as f64);
    results
}
