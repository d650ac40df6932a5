//! Programs of others that are linked with libgc, each with a small input of ours
//! (`crates/libgc/tests/programs`). All that they print is compared.

use super::libgc::{Notes, Workload};
use super::programs::made;
use crate::report::results::root;
use std::env::split_paths;

/// A program of the distribution, and a shell script that runs it. In it, `$IN` is the folder of its input,
/// `$ROOT` this checkout, and `$MADE` the folder of the programs that were compiled. It runs in the
/// measurement's folder.
struct Foreign {
    name: &'static str,
    /// The command that has to be there.
    command: &'static str,
    package: &'static str,
    script: &'static str,
}

/// The programs. Short ones run several times.
const ALL: [Foreign; 7] = [
    Foreign {
        name: "guile",
        command: "guile",
        package: "guile-3.0",
        script: "guile --no-auto-compile $ROOT/bench/programs/libgc/table.scm 200000 20000",
    },
    Foreign {
        name: "ecl",
        command: "ecl",
        package: "ecl",
        script: "ecl --norc --eval '(load \"'$IN'/main.lisp\")' --eval '(ext:quit 0)'",
    },
    Foreign {
        name: "w3m",
        command: "w3m",
        package: "w3m",
        script: "(echo '<table border=1>'; seq 12000 | \
                 sed 's,.*,<tr><td>&<td><a href=\"#&\">row &</a><td><b>bold</b> &amp; &eacute;,'; \
                 echo '</table>') > table.html && w3m -dump -cols 120 -T text/html table.html",
    },
    Foreign {
        name: "asymptote",
        command: "asy",
        package: "asymptote",
        script: "asy -o out.eps $IN/main.asy && grep -v CreationDate out.eps",
    },
    Foreign {
        name: "neko",
        command: "nekoc",
        package: "neko",
        script: "nekoc -o . $IN/main.neko && for i in 1 2 3 4 5; do neko main; done",
    },
    Foreign {
        name: "nim",
        command: "nim",
        package: "nim",
        script: "for i in 1 2 3 4 5; do $MADE/nim; done",
    },
    Foreign {
        name: "lilypond",
        command: "lilypond",
        package: "lilypond",
        script: "lilypond -s --ps -o out $IN/main.ly && cat out.ps",
    },
];

/// Those that are installed; for each of the others, a message says that it is left out.
pub fn installed() -> Vec<Workload> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |command: &str| split_paths(&path).any(|folder| folder.join(command).exists());
    let (there, missing): (Vec<&Foreign>, Vec<&Foreign>) =
        ALL.iter().partition(|one| is_there(one.command));
    for one in missing {
        let Foreign { name, package, .. } = one;
        eprintln!("{name} is left out: it is not installed (Debian: {package})");
    }
    there.into_iter().map(workload).collect()
}

fn workload(one: &Foreign) -> Workload {
    let input = root().join("crates/libgc/tests/programs").join(one.name);
    let (root, made) = (root(), made(""));
    let script = format!(
        "IN={} ROOT={} MADE={made}; {}",
        input.display(),
        root.display(),
        one.script
    );
    Workload {
        name: one.name.to_owned(),
        command: ["/bin/sh", "-c", &script].map(str::to_owned).into(),
        notes: Notes::Preloaded,
        whole: true,
    }
}
