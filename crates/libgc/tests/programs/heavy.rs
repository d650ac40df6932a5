//! Like `main.rs`, for programs whose packages are large, or that take long. `make test-programs`
//! runs them.

#[path = "../support/library.rs"]
mod library;
mod run;

use run::{Program, program};
use std::fmt::Write;

#[test]
fn lilypond() {
    Program {
        files: &["out.ps"],
        ..program(
            "lilypond",
            "lilypond",
            &[&["lilypond", "-s", "--ps", "-o", "out", "main.ly"]],
        )
    }
    .check();
}

#[test]
fn crystal() {
    Program {
        files: &["main"],
        scratch: &["cache"],
        environment: &[("CRYSTAL_CACHE_DIR", "cache")],
        ..program(
            "crystal",
            "crystal",
            &[
                &["crystal", "build", "--no-color", "-o", "main", "main.cr"],
                &["./main"],
            ],
        )
    }
    .check();
}

#[test]
fn crystal_with_threads() {
    Program {
        build: &[&[
            "crystal",
            "build",
            "--no-color",
            "-Dpreview_mt",
            "-o",
            "main",
            "main.cr",
        ]],
        environment: &[("CRYSTAL_CACHE_DIR", "cache"), ("CRYSTAL_WORKERS", "4")],
        ..program("crystal", "crystal", &[&["./main"]])
    }
    .check_as("crystal-mt");
}

/// Without this setting, Nix begins with a heap that it never fills.
#[test]
fn nix() {
    Program {
        environment: &[("GC_INITIAL_HEAP_SIZE", "4M")],
        ..program(
            "nix",
            "nix-bin",
            &[&[
                "nix-instantiate",
                "--eval",
                "--strict",
                "--store",
                "dummy://",
                "main.nix",
            ]],
        )
    }
    .check();
}

#[test]
fn macaulay2() {
    program("macaulay2", "macaulay2", &[&["M2", "--script", "main.m2"]]).check();
}

#[test]
fn inkscape() {
    Program {
        files: &["out.png"],
        input: Some(("picture.svg", picture)),
        ..program(
            "inkscape",
            "inkscape",
            &[&[
                "inkscape",
                "--export-type=png",
                "--export-filename=out.png",
                "picture.svg",
            ]],
        )
    }
    .check();
}

/// A picture with many small paths and texts, a gradient and a filter.
fn picture() -> String {
    let mut text = String::from(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"400\" height=\"400\" viewBox=\"0 0 400 400\">\n\
         <defs><linearGradient id=\"blend\"><stop offset=\"0\" stop-color=\"#c00\"/><stop offset=\"1\" \
         stop-color=\"#00c\"/>\
         </linearGradient><filter id=\"blur\"><feGaussianBlur stdDeviation=\"2\"/></filter></defs>\n",
    );
    for n in 0..3000 {
        let _ = writeln!(
            text,
            "<g transform=\"translate({} {}) rotate({})\"><path d=\"M0 0 C 5 5 10 -5 {} 0 Z\" \
             fill=\"url(#blend)\" stroke=\"#0{}0\" \
             stroke-width=\"0.3\"/><text font-size=\"3\">{n}</text></g>",
            n * 37 % 400,
            n * 53 % 400,
            n % 360,
            n % 20,
            n % 10,
        );
    }
    text + "<circle cx=\"200\" cy=\"200\" r=\"50\" fill=\"#0c0\" filter=\"url(#blur)\" \
            opacity=\"0.5\"/></svg>\n"
}
