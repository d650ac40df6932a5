//! Programs on libgc: which libraries are found, and what collections can do on this kernel.

use super::Found;
use crate::rows::shown;
use crate::terminal_text::wrap;
use plimsoll_runtimes::libgc::{self, Libraries};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// The libraries for programs that need `libgc.so.1`.
#[derive(Debug, Default, Serialize)]
pub struct LibGc {
    /// Our drop-in.
    pub drop_in: Option<Library>,
    /// The system's libgc.
    pub system: Option<Library>,
    /// The path of the adapter for the system's libgc.
    pub adapter: Option<PathBuf>,
    /// The kernel's capabilities for collections of the drop-in.
    pub tiers: Vec<Tier>,
}

/// A libgc.
#[derive(Debug, Serialize)]
pub struct Library {
    /// Where it is.
    pub path: PathBuf,
    /// The version that it reports; null if it cannot be loaded.
    pub version: Option<String>,
    /// Why it cannot be loaded; empty if it can.
    pub error: String,
}

/// A capability of the kernel that the drop-in uses.
#[derive(Debug, Serialize)]
pub struct Tier {
    /// The name of the capability.
    pub name: &'static str,
    /// Whether a collection can use it.
    pub works: bool,
    /// Its effect on collections; the effect of its lack if it does not work.
    pub means: &'static str,
}

/// The effects on collections of a capability, and of its lack.
struct Meaning {
    name: &'static str,
    /// Whether a lesser tier serves collections too. If not, lesser tiers serve only the broker.
    lesser: bool,
    with: &'static str,
    without: &'static str,
}

const MEANINGS: [Meaning; 4] = [
    Meaning {
        name: "pagemap-scan",
        lesser: true,
        with: "collections know what is in swap, and drop unread what died there",
        without: "everything is taken for present: collections read back what is in swap, as any other's",
    },
    Meaning {
        name: "write-tracking",
        lesser: false,
        with: "summaries: collections pass over what is in swap",
        without: "no summaries: each collection reads what is in swap, once and in the order of pages",
    },
    Meaning {
        name: "own-advice",
        lesser: false,
        with: "what only a collection looked at is the first to go, where memory is short",
        without: "the kernel takes a collection's look for the program's use",
    },
    Meaning {
        name: "swap",
        lesser: false,
        with: "what programs do not use can go, and collections leave it there",
        without: "nothing ever goes, so that collections have nothing to pass over",
    },
];

impl LibGc {
    pub(super) fn examine(libraries: &Libraries, capabilities: &[Found]) -> LibGc {
        let tier = |meaning: Meaning| {
            let serves = |c: &Found| c.best || (meaning.lesser && c.works);
            let works = capabilities
                .iter()
                .any(|c| c.name == meaning.name && serves(c));
            Tier {
                name: meaning.name,
                works,
                means: if works { meaning.with } else { meaning.without },
            }
        };
        LibGc {
            drop_in: libraries.drop_in.as_deref().map(Library::at),
            system: libgc::system().as_deref().map(Library::at),
            adapter: libraries.adapter.clone(),
            tiers: MEANINGS.map(tier).into(),
        }
    }

    pub(super) fn text(&self, width: usize) -> String {
        let steered = "with the adapter by `--adapter libgc-stock`";
        let instead = "`plimsoll run` loads the adapter beside the system's";
        let mut rows = vec![
            row(
                "drop-in",
                self.drop_in.as_ref(),
                "what `plimsoll run` gives to programs",
                if self.adapter.is_some() { instead } else { "" },
            ),
            row(
                "system's",
                self.system.as_ref(),
                if self.adapter.is_some() {
                    steered
                } else {
                    "passive: no adapter is installed"
                },
                "",
            ),
        ];
        let state = |works| if works { "ok  " } else { "none" };
        rows.extend(
            self.tiers
                .iter()
                .map(|tier| (state(tier.works), tier.name, tier.means.to_owned())),
        );
        let widest = rows.iter().map(|row| row.1.len()).max().unwrap_or(0);
        let mut text = "libgc    programs that need libgc.so.1\n".to_owned();
        for (state, name, what) in rows {
            let head = format!("{state}  {name:<widest$}  ");
            wrap(&mut text, &head, &what, head.len(), width);
        }
        text
    }
}

impl Library {
    fn at(path: &Path) -> Library {
        let (version, error) = match libgc::version(path) {
            Ok(version) => (Some(version), String::new()),
            Err(error) => (None, error),
        };
        Library {
            path: path.to_owned(),
            version,
            error,
        }
    }
}

/// One line about a library: its purpose, or what happens without it.
fn row<'a>(
    name: &'a str,
    library: Option<&Library>,
    used: &str,
    without: &str,
) -> (&'static str, &'a str, String) {
    let Some(library) = library else {
        let without = [": ", without].concat();
        let without = without.strip_suffix(": ").unwrap_or(&without);
        return ("none", name, format!("not installed{without}"));
    };
    let path = shown(&library.path.to_string_lossy(), 200);
    match &library.version {
        Some(version) => ("ok  ", name, format!("{version}, {path}: {used}")),
        None => (
            "none",
            name,
            format!("cannot be loaded: {}", shown(&library.error, 300)),
        ),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn sample() -> LibGc {
        let library = |path: &str, version: Option<&str>| Library {
            path: path.into(),
            version: version.map(str::to_owned),
            error: String::new(),
        };
        LibGc {
            drop_in: Some(library("/p/libgc.so.1", Some("8.2.2"))),
            system: Some(library("/lib/libgc.so.1", Some("8.2.8"))),
            adapter: Some("/p/libplimsoll_libgc.so".into()),
            tiers: vec![
                Tier {
                    name: "write-tracking",
                    works: true,
                    means: "summaries",
                },
                Tier {
                    name: "swap",
                    works: false,
                    means: "nothing ever goes",
                },
            ],
        }
    }

    #[test]
    fn tells_which_is_given_and_what_it_can_do() {
        let expected = "\
libgc    programs that need libgc.so.1
ok    drop-in         8.2.2, /p/libgc.so.1: what `plimsoll run` gives to programs
ok    system's        8.2.8, /lib/libgc.so.1: with the adapter by `--adapter libgc-stock`
ok    write-tracking  summaries
none  swap            nothing ever goes
";
        assert_eq!(sample().text(200), expected);
    }

    #[test]
    fn tells_what_is_done_without() {
        let mut found = sample();
        found.drop_in = None;
        let text = found.text(200);
        assert!(
            text.contains("not installed: `plimsoll run` loads the adapter"),
            "{text}"
        );
        found.adapter = None;
        let text = found.text(200);
        assert!(
            text.contains("not installed\n") && text.contains("passive"),
            "{text}"
        );
        found.system = Some(Library {
            path: "/lib/libgc.so.1".into(),
            version: None,
            error: "no such symbol".into(),
        });
        let text = found.text(200);
        assert!(
            text.contains("none  system's        cannot be loaded: no such symbol"),
            "{text}"
        );
    }

    #[test]
    fn collections_use_the_best_way_or_none_but_to_learn_what_is_in_swap() {
        let lesser = |name| Found {
            name,
            tier: "another".into(),
            best: false,
            works: true,
            needs: "Linux 6.7".into(),
            costs: "time".into(),
        };
        let capabilities = [lesser("pagemap-scan"), lesser("write-tracking")];
        let found = LibGc::examine(&Libraries::default(), &capabilities);
        assert_eq!(found.tiers.len(), MEANINGS.len());
        let works: Vec<bool> = found.tiers.iter().map(|tier| tier.works).collect();
        assert_eq!(works, [true, false, false, false]);
        let found = LibGc::examine(&Libraries::default(), &[]);
        assert!(found.tiers[0].means.contains("taken for present"));
    }
}
