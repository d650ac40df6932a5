//! The Java programs of these measurements, and the heaps that suit them.

use crate::Result;
use crate::harness::java::Classes;
use crate::harness::programs::{Jvm, cache};
use crate::harness::servers::Liberty;
use crate::report::results::root;
use std::path::{Path, PathBuf};

/// A program that runs to its end, or serves a fixed number of requests. Sizes in MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Program {
    /// Its name in the table.
    pub(super) name: &'static str,
    /// The tight maximum heap: little more than it needs. Tried by hand: from 4/3 to 2.4 times of what
    /// lived at most after a collection of the whole heap.
    pub(super) tight: u64,
    /// The newest Java that it runs on.
    pub(super) newest: u32,
}

/// The largest maximum heap.
pub(super) const LARGEST: u64 = 1024;
/// The machine's memory, not the limit of its group, decides how large a heap is at first: as where others
/// took the missing memory, unknown to the virtual machine.
const AS_ON_A_MACHINE: &str = "-XX:-UseContainerSupport";
/// The library of the bank's database.
const H2: &str = "traced/h2-2.2.224.jar";
/// Requests on each of the connections to the server.
const REQUESTS: u32 = 400;

/// All of them.
pub(super) const ALL: [Program; 6] = [
    Program {
        name: "graph",
        tight: 224,
        newest: 25,
    },
    Program {
        name: "lucene",
        tight: 64,
        newest: 25,
    },
    Program {
        name: "closure",
        tight: 240,
        newest: 25,
    },
    Program {
        name: "ecj",
        tight: 96,
        newest: 25,
    },
    Program {
        name: "bank-h2",
        tight: 144,
        newest: 25,
    },
    Program {
        name: "liberty",
        tight: 96,
        // Its pages need security policies, which later versions refuse.
        newest: 17,
    },
];

/// The compiled classes of our own programs.
#[derive(Debug)]
pub(super) struct Ours {
    graph: Classes,
    bank: Classes,
}

impl Ours {
    /// Compiles them.
    pub(super) fn compile() -> Result<Ours> {
        Ok(Ours {
            graph: Classes::of("bench/programs/Graph.java")?,
            bank: Classes::for_version(17, "bench/programs/traced/Bank.java", &cache(H2))?,
        })
    }
}

/// A program that is ready to start.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) command: Vec<String>,
    pub(super) env: Vec<(String, String)>,
    /// The server that it is, if it is one.
    pub(super) server: Option<Liberty>,
}

impl Program {
    /// Maximum heaps from the tight one to the largest, each larger than the one before by the same factor.
    pub(super) fn heaps(self, count: u32) -> impl Iterator<Item = u64> {
        let factor = LARGEST as f64 / self.tight as f64;
        let last = f64::from(count.saturating_sub(1).max(1));
        let heap = move |step: u32| self.tight as f64 * factor.powf(f64::from(step) / last);
        (0..count).map(move |step| (heap(step) / 8.0).round() as u64 * 8)
    }

    /// Prepares it, with a maximum heap of `heap` MiB and further flags of the machine. It writes its pauses
    /// to `log`, and what it makes to `folder`.
    pub(super) fn prepare(
        self,
        jvm: Jvm,
        heap: u64,
        flags: &[String],
        ours: &Ours,
        (log, folder): (&Path, &Path),
    ) -> Result<Prepared> {
        let mut command = vec![jvm.java()];
        command.extend(jvm.choice());
        command.push(AS_ON_A_MACHINE.to_owned());
        command.push(format!("-Xmx{heap}m"));
        command.push(format!("-Xlog:gc:file={}", log.display()));
        command.extend_from_slice(flags);
        let (mut env, mut server) = (Vec::new(), None);
        if self.name == "liberty" {
            let liberty = Liberty::prepare(&folder.join("liberty"))?;
            command.extend(liberty.arguments());
            env.push(liberty.variable());
            server = Some(liberty);
        } else {
            command.extend(self.arguments(ours, folder));
        }
        Ok(Prepared {
            command,
            env,
            server,
        })
    }

    fn arguments(self, ours: &Ours, folder: &Path) -> Vec<String> {
        let shown = |path: PathBuf| path.display().to_string();
        let graph = shown(ours.graph.folder().into());
        let bank = format!("{}:{}", shown(ours.bank.folder().into()), cache(H2));
        let algorithm = shown(root().join("bench/programs/lucene/batch.alg"));
        let (lucene, compilers) = (cache("lucene/*"), |name| {
            cache(&format!("compilers/{name}"))
        });
        let words: &[&str] = match self.name {
            "graph" => &["-cp", &graph, "Graph", "128", "4096", "20"],
            "lucene" => &[
                "-cp",
                &lucene,
                "org.apache.lucene.benchmark.byTask.Benchmark",
                &algorithm,
            ],
            "closure" => &[
                "-jar",
                &compilers("closure-compiler-v20240317.jar"),
                "-O",
                "SIMPLE",
                "--js",
                &compilers("tsc.js"),
                "--js_output_file",
                &shown(folder.join("tsc.out")),
            ],
            "ecj" => &[
                "-jar",
                &compilers("ecj-3.38.0.jar"),
                "-11",
                "-nowarn",
                "-proceedOnError",
                "-d",
                &shown(folder.join("ecj")),
                &compilers("lucene"),
            ],
            // Eight clients move money 20,000 times each, between 300,000 accounts.
            _ => &["-cp", &bank, "Bank", "8", "20000", "300000"],
        };
        words.iter().map(|&word| word.to_owned()).collect()
    }
}

/// The load of a server: how many requests it is to answer.
pub(super) fn load(server: &Liberty) -> Result<()> {
    server.load(REQUESTS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heaps_go_from_tight_to_the_largest() {
        for program in ALL {
            assert_eq!(
                program.heaps(2).collect::<Vec<_>>(),
                [program.tight, LARGEST]
            );
            let six: Vec<u64> = program.heaps(6).collect();
            assert!(six.is_sorted() && six.len() == 6, "{six:?}");
            assert_eq!((six[0], six[5]), (program.tight, LARGEST));
        }
    }
}
