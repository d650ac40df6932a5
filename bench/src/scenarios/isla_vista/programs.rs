//! The Java programs of this measurement, and the heaps and limits that suit them.

use crate::harness::programs::Jvm;
use crate::report::results::root;
use std::path::Path;

/// A program that runs to its end. Sizes in MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Program {
    /// Its name in the table.
    pub(super) name: &'static str,
    /// Limit of the cgroup when memory is short: what lives fits, the usual heap does not.
    pub(super) limit: u64,
    /// Maximum heaps, the largest last: tight, and larger than the limit.
    pub(super) heaps: [u64; 2],
}

/// All of them.
pub(super) const ALL: [Program; 4] = [
    Program {
        name: "graph",
        limit: 320,
        heaps: [224, 1024],
    },
    Program {
        name: "lucene",
        limit: 200,
        heaps: [128, 1024],
    },
    Program {
        name: "closure",
        limit: 420,
        heaps: [320, 1024],
    },
    Program {
        name: "ecj",
        limit: 240,
        heaps: [192, 1024],
    },
];

impl Program {
    /// Its command with a maximum heap of `heap` MiB, which writes its pauses to `log`. `classes` has our
    /// own programs. What it makes goes to `folder`.
    pub(super) fn command(
        self,
        jvm: Jvm,
        heap: u64,
        log: &Path,
        classes: &Path,
        folder: &Path,
    ) -> Vec<String> {
        let mut command = vec![jvm.java()];
        command.extend(jvm.choice());
        command.push(format!("-Xmx{heap}m"));
        command.push(format!("-Xlog:gc:file={}", log.display()));
        let cached = |name: &str| root().join(".cache").join(name).display().to_string();
        let given = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
        let rest: Vec<String> = match self.name {
            "graph" => given(&[
                "-cp",
                &classes.display().to_string(),
                "Graph",
                "128",
                "4096",
                "20",
            ]),
            "lucene" => given(&[
                "-cp",
                &cached("lucene/*"),
                "org.apache.lucene.benchmark.byTask.Benchmark",
                &root()
                    .join("bench/programs/lucene/batch.alg")
                    .display()
                    .to_string(),
            ]),
            "closure" => given(&[
                "-jar",
                &cached("compilers/closure-compiler-v20240317.jar"),
                "-O",
                "SIMPLE",
                "--js",
                &cached("compilers/tsc.js"),
                "--js_output_file",
                &folder.join("tsc.out").display().to_string(),
            ]),
            _ => given(&[
                "-jar",
                &cached("compilers/ecj-3.38.0.jar"),
                "-11",
                "-nowarn",
                "-proceedOnError",
                "-d",
                &folder.join("ecj").display().to_string(),
                &cached("compilers/lucene"),
            ]),
        };
        command.extend(rest);
        command
    }
}
