//! Measurements: their description, and how they are run.

use crate::report::results::Results;
use crate::runner::{Options, Runner};
use crate::{Error, Result};

/// The description of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// The unique name, of `a` to `z` and `-`, as in `make bench-NAME`. Its results have this name
    /// too.
    pub name: &'static str,
    /// The question that it answers, as a sentence with a capital letter. The help shows it.
    pub question: &'static str,
    /// The targets, word for word as in [`Results::target`]. `*` stands for parts that differ
    /// between variants. Empty if there are no targets.
    pub asks: &'static [&'static str],
    /// About how many minutes five repetitions take on two processors.
    pub minutes: u32,
    /// Whether it can run some of its variants only (`--only`).
    pub only: bool,
    /// Whether it has a part that represents it and takes at most an hour (`--slice`).
    pub slice: bool,
    /// The seed without `--seed` of what it draws at random. `None` if it draws nothing.
    pub seed: Option<u64>,
}

/// One measurement. [`crate::measurements::ALL`] lists all. `docs/src/adding-a-measurement.md`
/// explains how to add one.
pub trait Measurement: Sync {
    /// Its description.
    fn about(&self) -> About;

    /// Measures, with the help of the runner, which repeats, shows progress, and provides empty
    /// results. The returned results are saved and printed. Everything that was set up is gone when
    /// this returns, even on an error.
    ///
    /// # Errors
    /// The first failure to set up or start something, or of a run.
    fn run(&self, runner: &Runner) -> Result<Results>;
}

/// Runs a measurement, saves its results and prints its table; or makes the one run that another machine
/// asked for.
///
/// # Errors
/// The first failure to set up, start or write something, or of a run.
pub fn run(measurement: &dyn Measurement, options: &Options) -> Result<()> {
    let runner = Runner::new(measurement.about().name, options.clone())?;
    let ran = measurement.run(&runner);
    if options.inside.is_some() {
        return match ran {
            Err(Error::Answered) => Ok(()),
            other => other.and(Err(Error::NoGuest(runner.name()))),
        };
    }
    let mut results = ran.inspect_err(|_| runner.say_what_is_kept())?;
    runner.save(&mut results)?;
    println!("\n{}", results.text());
    runner.end()
}

/// An option that only some measurements take.
struct Special {
    flag: &'static str,
    is_given: fn(&Options) -> bool,
    is_taken: fn(&About) -> bool,
}

const SPECIAL: [Special; 3] = [
    Special {
        flag: "--only",
        is_given: |options| options.only.is_some(),
        is_taken: |about| about.only,
    },
    Special {
        flag: "--slice",
        is_given: |options| options.slice,
        is_taken: |about| about.slice,
    },
    Special {
        flag: "--seed",
        is_given: |options| options.seed.is_some(),
        is_taken: |about| about.seed.is_some(),
    },
];

/// Refuses options that `name` would ignore: a measurement of `all`, or another name of the command line,
/// which takes none of them.
///
/// # Errors
/// [`Error::NotTaken`].
pub fn check(name: &str, options: &Options, all: &[&dyn Measurement]) -> Result<()> {
    for special in SPECIAL.iter().filter(|it| (it.is_given)(options)) {
        let takes = all.iter().map(|one| one.about());
        let takes = takes.filter(|about| (special.is_taken)(about));
        let takes: Vec<&str> = takes.map(|about| about.name).collect();
        if !takes.contains(&name) {
            return Err(Error::NotTaken {
                name: name.to_owned(),
                flag: special.flag,
                takes,
            });
        }
    }
    Ok(())
}

impl About {
    /// Its options besides those that every measurement takes, as a person writes them; empty if there are
    /// none.
    pub fn options(&self) -> String {
        let only = self.only.then(|| "`--only TEXT`".to_owned());
        let slice = self.slice.then(|| "`--slice`".to_owned());
        let seed = self
            .seed
            .map(|seed| format!("`--seed N` ({seed} when absent)"));
        let options: Vec<String> = only.into_iter().chain(slice).chain(seed).collect();
        options.join(", ")
    }

    /// Whether the measurement announces a target with this claim.
    pub fn asks_for(&self, claim: &str) -> bool {
        self.asks.iter().any(|pattern| fits(pattern, claim))
    }
}

/// Whether `text` matches the pattern, in which each `*` stands for any text.
fn fits(pattern: &str, text: &str) -> bool {
    let Some((begin, rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(text) = text.strip_prefix(begin) else {
        return false;
    };
    let mut ends = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    ends.any(|at| fits(rest, &text[at..]))
}

#[cfg(test)]
mod tests {
    use super::{About, Measurement, check, fits, run};
    use crate::Result;
    use crate::report::results::Results;
    use crate::runner::{Options, Runner};

    #[test]
    fn a_star_stands_for_anything() {
        assert!(fits(
            "*: within 3 %, * s after",
            "Z 17: within 3 %, 2.5 s after"
        ));
        assert!(fits("no program is killed", "no program is killed"));
        assert!(!fits("no program is killed", "no program is killed twice"));
        assert!(!fits("*: within 3 %", "Z 17: within 2 %"));
        assert!(fits("*", "") && !fits("", "x"));
    }

    fn about(slice: bool, seed: Option<u64>) -> About {
        About {
            name: "it",
            question: "Is it?",
            asks: &[],
            minutes: 1,
            only: true,
            slice,
            seed,
        }
    }

    struct Named(&'static str, bool, Option<u64>);

    impl Measurement for Named {
        fn about(&self) -> About {
            let Named(name, slice, seed) = *self;
            About {
                name,
                ..about(slice, seed)
            }
        }

        fn run(&self, _runner: &Runner) -> Result<Results> {
            Ok(Results::new(self.0, "", "", 1))
        }
    }

    fn options(only: Option<&str>, slice: bool, seed: Option<u64>) -> Options {
        Options {
            only: only.map(str::to_owned),
            slice,
            seed,
            ..Options::of(1)
        }
    }

    #[test]
    fn options_that_a_measurement_would_ignore_are_refused() {
        let all: [&dyn Measurement; 4] = [
            &Named("plain", false, None),
            &Named("sliced", true, None),
            &Named("drawn", false, Some(7)),
            &Named("both", true, Some(0)),
        ];
        let refused = |name: &str, slice: bool, seed: Option<u64>| {
            let found = check(name, &options(None, slice, seed), &all);
            found.err().map(|error| error.to_string())
        };
        for name in ["plain", "sliced", "drawn", "both", "all", "figures"] {
            assert_eq!(refused(name, false, None), None);
        }
        assert_eq!(refused("both", true, Some(3)), None);
        assert_eq!(refused("sliced", true, None), None);
        assert_eq!(refused("drawn", false, Some(0)), None);
        let slice = "plain does not take `--slice`, and would ignore it: leave it out, or name one of those \
                     that take it: sliced, both";
        assert_eq!(refused("plain", true, None).as_deref(), Some(slice));
        let seed = refused("sliced", true, Some(3)).unwrap();
        assert!(seed.contains("sliced does not take `--seed`"), "{seed}");
        assert!(seed.ends_with("take it: drawn, both"), "{seed}");
        for name in ["all", "figures"] {
            let said = refused(name, true, None).unwrap();
            assert!(said.starts_with(name), "{said}");
            let only = check(name, &options(Some("x"), false, None), &all);
            assert!(only.is_err(), "{name}");
        }
        let only = check("plain", &options(Some("x"), false, None), &all);
        assert!(only.is_ok());
    }

    #[test]
    fn names_of_no_variant_leave_nothing_behind() {
        let named = Named("measures-nothing", false, None);
        let said = run(&named, &options(Some("x,y"), false, None)).unwrap_err();
        assert!(said.to_string().contains("\"x,y\""), "{said}");
        let folder = crate::runner::out("measures-nothing");
        assert!(!folder.join("measures-nothing.md").exists());
        let _ = std::fs::remove_dir(folder);
    }

    #[test]
    fn options_are_told_as_they_are_written() {
        let none = About {
            only: false,
            ..about(false, None)
        };
        assert_eq!(none.options(), "");
        let all = about(true, Some(7)).options();
        assert_eq!(all, "`--only TEXT`, `--slice`, `--seed N` (7 when absent)");
    }
}
