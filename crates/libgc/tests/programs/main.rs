//! Unmodified programs of Debian 12 that are linked with libgc: what they print and write must be
//! the same with this library in its place.
//!
//! The input of each is in `programs/NAME`. Each runs once with the system's library, and with this
//! one: once with its defaults, and once with collections as frequent as libgc's settings allow.
//! `PROGRAMS_ROUNDS=5` runs the latter two five times each; `PROGRAMS_SHOW=1` prints the time and
//! the memory that each took (`-- --nocapture`).

#[path = "../support/library.rs"]
mod library;
mod run;

use run::{Program, program};
use std::fmt::Write;

#[test]
fn guile() {
    Program {
        files: &["main.go"],
        // The first run of `guild` compiles itself, and then numbers differ. So it is run once before.
        environment: &[("GUILE_AUTO_COMPILE", "0")],
        ..program(
            "guile",
            "guile-3.0-dev",
            &[
                &["guild-3.0", "compile", "-o", "main.go", "main.scm"],
                &[
                    "guile-3.0",
                    "--no-auto-compile",
                    "-c",
                    "(load-compiled \"main.go\")",
                ],
            ],
        )
    }
    .check();
}

#[test]
fn ecl() {
    Program {
        scratch: &["main.fas"],
        ..program(
            "ecl",
            "ecl",
            &[
                &[
                    "ecl",
                    "--norc",
                    "--eval",
                    "(load \"main.lisp\")",
                    "--eval",
                    "(ext:quit 3)",
                ],
                &[
                    "ecl",
                    "--norc",
                    "--eval",
                    "(compile-file \"main.lisp\")",
                    "--eval",
                    "(load \"main.fas\")",
                    "--eval",
                    "(ext:quit 4)",
                ],
            ],
        )
    }
    .check();
}

#[test]
fn w3m() {
    Program {
        input: Some(("table.html", table)),
        ..program(
            "w3m",
            "w3m",
            &[&[
                "w3m",
                "-dump",
                "-cols",
                "120",
                "-T",
                "text/html",
                "table.html",
            ]],
        )
    }
    .check();
}

#[test]
fn asymptote() {
    Program {
        files: &["out.eps"],
        same: |text| without_lines(text, b"%%CreationDate"),
        ..program(
            "asymptote",
            "asymptote",
            &[&["asy", "-o", "out.eps", "main.asy"]],
        )
    }
    .check();
}

#[test]
fn neko() {
    Program {
        files: &["main.n"],
        ..program(
            "neko",
            "neko",
            &[&["nekoc", "main.neko"], &["neko", "main"]],
        )
    }
    .check();
}

/// A Nim program loads the library at run time.
#[test]
fn nim() {
    Program {
        build: &[&[
            "nim",
            "c",
            "--mm:boehm",
            "-d:release",
            "--hints:off",
            "--nimcache:cache",
            "-o:main",
            "main.nim",
        ]],
        ..program("nim", "nim", &[&["./main"]])
    }
    .check();
}

#[test]
fn objc() {
    Program {
        build: &[&[
            "gcc",
            "-std=gnu99",
            "-o",
            "main",
            "main.m",
            "-lobjc_gc",
            "-lgc",
        ]],
        ..program("objc", "gobjc, libgc-dev", &[&["./main"]])
    }
    .check();
}

#[test]
fn poke() {
    program("poke", "poke", &[&["poke", "-q", "-L", "main.pk"]]).check();
}

#[test]
fn parser3() {
    program("parser3", "parser3-cgi", &[&["parser3", "main.p"]]).check();
}

/// A table in HTML with lists in its cells.
fn table() -> String {
    let mut text = String::from(
        "<html><head><title>A large table</title></head><body><h1>Rows</h1><table border=1>\n",
    );
    for n in 0..3000 {
        let _ = writeln!(
            text,
            "<tr><td>{n}</td><td><a href=\"#{n}\">row {}</a></td><td><ul><li>{}<li>some <b>bold</b> text \
             &amp; &eacute;</ul></td>\
             <td align=right>{}</td></tr>",
            n * n,
            n % 7,
            f64::from(n) * 3.5,
        );
    }
    text + "</table></body></html>\n"
}

/// Removes the lines that begin with `begin`.
fn without_lines(text: &[u8], begin: &[u8]) -> Vec<u8> {
    let kept: Vec<&[u8]> = text
        .split(|&byte| byte == b'\n')
        .filter(|line| !line.starts_with(begin))
        .collect();
    kept.join(&b'\n')
}
