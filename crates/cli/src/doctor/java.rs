//! Java programs: whether the agent for them is found, and by what it would count stalls.

use super::Found;
use crate::rows::shown;
use crate::terminal_text::wrap;
use plimsoll_runtimes::hotspot::agent;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Findings about Java programs, beyond steering from outside.
#[derive(Debug, Default, Serialize)]
pub struct Java {
    /// The agent's library; null if it is not installed.
    pub agent: Option<PathBuf>,
    /// The tier by which a program that is started now has its stalls counted, as in the capability
    /// `stalls`; empty if none works.
    pub stalls: String,
}

impl Java {
    /// `own`: our program, beside which the library is looked for.
    pub(super) fn examine(own: Option<&Path>, capabilities: &[Found]) -> Java {
        let stalls = capabilities.iter().find(|found| found.name == "stalls");
        Java {
            agent: own.and_then(agent::library),
            stalls: stalls
                .filter(|found| found.works)
                .map_or_else(String::new, |found| found.tier.clone()),
        }
    }

    pub(super) fn text(&self, width: usize) -> String {
        let stalls = match self.stalls.as_str() {
            "" => "none".to_owned(),
            stalls => shown(stalls, 200),
        };
        let agent = match &self.agent {
            Some(path) => format!(
                "{}: `plimsoll run` loads it where it helps",
                shown(&path.to_string_lossy(), 200)
            ),
            None => format!(
                "{} is not installed: programs are steered from outside only",
                agent::LIBRARY
            ),
        };
        let state = if self.agent.is_some() {
            "ok    agent  "
        } else {
            "none  agent  "
        };
        let mut text = String::new();
        let head = "java     ";
        let programs = format!("programs on HotSpot; their stalls by: {stalls}");
        wrap(&mut text, head, &programs, head.len(), width);
        wrap(&mut text, state, &agent, state.len(), width);
        text
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn sample() -> Java {
        Java {
            agent: Some("/p/libplimsoll_jvm.so".into()),
            stalls: "delay accounting".into(),
        }
    }

    #[test]
    fn tells_where_the_agent_is_and_what_counts_stalls() {
        let expected = "\
java     programs on HotSpot; their stalls by: delay accounting
ok    agent  /p/libplimsoll_jvm.so: `plimsoll run` loads it where it helps
";
        assert_eq!(sample().text(80), expected);
        let text = Java::default().text(80);
        assert!(text.contains("stalls by: none\n"), "{text}");
        assert!(
            text.contains("none  agent  libplimsoll_jvm.so is not installed"),
            "{text}"
        );
    }

    #[test]
    fn the_agent_is_looked_for_beside_us_and_where_it_is_installed() {
        let place = tempfile::tempdir().unwrap();
        let own = place.path().join("bin/plimsoll");
        let of = |own: &Path| Java::examine(Some(own), &[]).agent;
        assert_eq!(of(&own), None);
        for folder in ["lib/plimsoll", "bin"] {
            let folder = place.path().join(folder);
            std::fs::create_dir_all(&folder).unwrap();
            let library = folder.join(agent::LIBRARY);
            std::fs::write(&library, "library").unwrap();
            assert_eq!(of(&own), Some(library));
        }
    }
}
