//! Programs that are linked with libgc, and the collectors that they can run with: the system's libgc, or our
//! library in its place.

use super::ground::Ground;
use super::job::{Job, Outcome};
use super::programs::{made, sibling};
use crate::report::results::root;
use crate::{Error, Result};
use plimsoll_testbed::Refused;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A collector that a program can run with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collector {
    /// Its name in tables.
    pub name: &'static str,
    ours: bool,
    /// The means against paging that our collector may use (the value of `PLIMSOLL_GC_MEANS`).
    means: Option<&'static str>,
    /// The system call that the kernel refuses the program, if any.
    refused: Option<Refused>,
}

/// The distribution's libgc.
pub const SYSTEM: Collector = Collector {
    name: "libgc",
    ours: false,
    means: None,
    refused: None,
};

/// Our library, with all its means.
pub const OURS: Collector = Collector {
    name: "ours",
    ours: true,
    means: None,
    refused: None,
};

impl Collector {
    /// Our library, restricted to some of its means.
    pub const fn only(means: &'static str) -> Collector {
        Collector {
            name: means,
            means: Some(means),
            ..OURS
        }
    }

    /// Our library, on a kernel that refuses it a system call.
    pub const fn without(refused: Refused, name: &'static str) -> Collector {
        Collector {
            name,
            refused: Some(refused),
            ..OURS
        }
    }
}

/// A program that allocates.
#[derive(Clone, Debug)]
pub struct Workload {
    /// Its name in tables.
    pub name: String,
    pub(super) command: Vec<String>,
    pub(super) notes: Notes,
    /// Whether all that it prints is its result. Otherwise that is the `checksum` of its last line.
    pub(super) whole: bool,
}

/// The part that notes the pauses of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Notes {
    /// The program itself, in the file that `--pauses` names.
    Itself,
    /// A library that is preloaded into it.
    Preloaded,
    /// Nobody.
    Nobody,
}

impl Workload {
    /// Objects of 64 bytes that live, then cells that die young.
    pub fn largelive(live_mib: u32, cells: u32, threads: u32) -> Workload {
        let sizes = [("--live-mb", live_mib), ("--churn", cells)];
        Workload::heapload("largelive", &sizes, threads)
    }

    /// Binary trees of pairs that die, beside one tree that lives.
    pub fn bintree(depth: u32, threads: u32) -> Workload {
        Workload::heapload("bintree", &[("--depth", depth)], threads)
    }

    /// The benchmark of Ellis, Kovac and Boehm; each thread does all the rounds.
    pub fn gcbench(rounds: u32, threads: u32) -> Workload {
        Workload::heapload("gcbench", &[("--rounds", rounds)], threads)
    }

    /// Guile, with a hash table that lives and lists that die.
    pub fn guile(entries: u32, rounds: u32) -> Workload {
        let script = source("bench/programs/libgc/table.scm");
        let mut command = vec!["guile".into(), "--no-auto-compile".into(), script];
        command.extend([entries, rounds].map(|number| number.to_string()));
        Workload {
            name: "guile".into(),
            command,
            notes: Notes::Preloaded,
            whole: false,
        }
    }

    /// Nix, with attribute sets that live and others that die. `None`, with a message, if Nix is not
    /// installed.
    pub fn nix(sets: u32, rounds: u32) -> Option<Workload> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        if !std::env::split_paths(&path).any(|folder| folder.join("nix-instantiate").exists()) {
            eprintln!("nix is left out: it is not installed (Debian: nix-bin)");
            return None;
        }
        let (sets, rounds) = (sets.to_string(), rounds.to_string());
        let expression = source("bench/programs/libgc/attributes.nix");
        let mut command: Vec<String> = ["nix-instantiate", "--eval", "--store", "dummy://"]
            .map(str::to_owned)
            .into();
        command.extend([expression, "--arg".into(), "sets".into(), sets]);
        command.extend(["--arg".into(), "rounds".into(), rounds]);
        Some(Workload {
            name: "nix".into(),
            command,
            notes: Notes::Preloaded,
            whole: false,
        })
    }

    /// A small program that uses the collector as programs of others do (`bench/programs/libgc/strangers.c`).
    /// It does its usual number of steps when `number` is absent.
    pub fn stranger(kind: &str, number: Option<u32>) -> Workload {
        let mut command = vec![made("strangers"), kind.to_owned()];
        command.extend(number.map(|number| number.to_string()));
        Workload {
            name: kind.to_owned(),
            command,
            notes: Notes::Nobody,
            whole: false,
        }
    }

    /// The same with at most this much address space.
    #[must_use]
    pub fn with_addresses(mut self, kib: u64) -> Workload {
        // The shell replaces itself by the program: its exit status and memory are the program's.
        let script = format!("ulimit -v {kib}; exec \"$@\"");
        let shell = ["/bin/sh", "-c", &script, "sh"].map(str::to_owned);
        self.command.splice(0..0, shell);
        self
    }

    /// A description of the computation, sizes included.
    pub fn what(&self) -> String {
        self.command.join(" ")
    }

    /// The result that it computed, if it told one.
    pub fn result(&self, outcome: &Outcome) -> Option<u64> {
        if self.whole {
            Some(u64::from(outcome.printed))
        } else {
            outcome.told("checksum")
        }
    }

    fn heapload(what: &str, sizes: &[(&str, u32)], threads: u32) -> Workload {
        let mut command = vec![text(&heapload()), what.to_owned()];
        for (option, number) in sizes.iter().chain([&("--threads", threads)]) {
            command.extend([(*option).to_owned(), number.to_string()]);
        }
        let name = match threads {
            1 => what.to_owned(),
            several => format!("{what}, {several} threads"),
        };
        Workload {
            name,
            command,
            notes: Notes::Itself,
            whole: false,
        }
    }
}

/// The program of these workloads.
pub fn heapload() -> PathBuf {
    made("heapload").into()
}

/// Path of our library, which was built beside this program.
pub fn built() -> PathBuf {
    sibling("libplimsoll_gc.so")
}

/// A folder in which our library has the name that programs look for.
#[derive(Debug)]
pub struct Libraries {
    folder: PathBuf,
}

impl Libraries {
    /// Links the library that was built beside this program, in the measurement's folder.
    ///
    /// # Errors
    /// When it was not built, or cannot be linked.
    pub fn new(ground: &Ground) -> Result<Libraries> {
        let built = built();
        if !built.exists() {
            return Err(Error::Missing {
                path: built,
                why: "it was not built".to_owned(),
            });
        }
        let link = ground.folder().join("libgc.so.1");
        std::os::unix::fs::symlink(&built, &link).map_err(Error::file("link", &link))?;
        Ok(Libraries {
            folder: ground.folder().to_owned(),
        })
    }

    /// A job that runs a workload with a collector. Jobs that run at the same time need different numbers.
    pub fn job(&self, workload: &Workload, collector: Collector, number: usize) -> Job {
        let pauses = self.folder.join(format!("{number}.pauses"));
        let mut command = workload.command.clone();
        let mut env = BTreeMap::new();
        match workload.notes {
            Notes::Itself => command.extend(["--pauses".into(), text(&pauses)]),
            Notes::Preloaded => {
                env.insert("PAUSES".into(), text(&pauses));
                env.insert("LD_PRELOAD".into(), made("watch.so"));
            }
            Notes::Nobody => {}
        }
        if collector.ours {
            env.insert("LD_LIBRARY_PATH".into(), text(&self.folder));
        }
        if let Some(means) = collector.means {
            env.insert("PLIMSOLL_GC_MEANS".into(), means.into());
            // Incremental collections need write tracking, which not every choice of means provides.
            env.insert("GC_DISABLE_INCREMENTAL".into(), "1".into());
        }
        Job {
            command,
            env,
            pauses,
            refused: collector.refused,
        }
    }
}

fn source(name: &str) -> String {
    text(&root().join(name))
}

fn text(path: &Path) -> String {
    path.display().to_string()
}
