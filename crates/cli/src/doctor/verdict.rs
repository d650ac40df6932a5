//! The conclusion from the findings in one sentence, and advice, each piece with its command.

use super::capability::Found;
use crate::terminal_text::wrap;
use serde::Serialize;
use std::path::Path;

/// Where an installation puts the unit of the system's broker.
const UNITS: [&str; 4] = [
    "/usr/local/lib/systemd/system/plimsolld.service",
    "/usr/lib/systemd/system/plimsolld.service",
    "/lib/systemd/system/plimsolld.service",
    "/etc/systemd/system/plimsolld.service",
];
/// A swap file of this part of the memory is enough for what nobody uses.
const SWAP_PART: u64 = 4;
/// The largest swap file that is advised, GiB.
const MOST_SWAP: u64 = 8;
/// Column of what is said.
const INDENT: usize = 9;

/// The conclusion from the findings.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// In one word.
    pub standing: Standing,
    /// In a sentence.
    pub says: String,
    /// Advice, the most useful first.
    pub helps: Vec<Help>,
}

/// How much works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// Programs can be steered, and memory be taken from those that do not adapt.
    Good,
    /// Programs that adapt can be steered.
    Enough,
    /// Programs cannot be seen well enough to be steered.
    Little,
}

/// Something that one command brings.
#[derive(Clone, Debug, Serialize)]
pub struct Help {
    /// The capability that it improves, as in `capabilities`.
    pub what: &'static str,
    /// The gain from the command.
    pub gains: &'static str,
    /// For a shell.
    pub command: String,
}

/// The facts that the advised commands depend on.
pub(super) struct Here {
    /// Whether systemd is the first process.
    systemd: bool,
    /// Whether the system's broker is installed as a unit.
    unit: bool,
    root: bool,
}

impl Here {
    pub(super) fn look() -> Here {
        Here {
            systemd: Path::new("/run/systemd/system").is_dir(),
            unit: UNITS.iter().any(|unit| Path::new(unit).exists()),
            root: rustix::process::geteuid().is_root(),
        }
    }

    fn as_root(&self, command: &str) -> String {
        let sudo = if self.root { "" } else { "sudo " };
        format!("{sudo}{command}")
    }
}

impl Verdict {
    /// `memory`: bytes.
    pub(super) fn of(found: &[Found], memory: u64, here: &Here) -> Verdict {
        let works = |name: &str| found.iter().any(|it| it.name == name && it.works);
        let blind: Vec<&str> = ["cgroup", "pagemap-scan", "working-set"]
            .into_iter()
            .filter(|name| !works(name))
            .collect();
        let mut missing = Vec::new();
        if !works("swap") {
            missing.push("what does not adapt cannot be made smaller, as there is no swap");
        }
        if !works("cgroup-write") {
            missing.push("a budget is advisory, as we may make no cgroup");
        }
        let helps = helps(found, memory, here);
        let steered = "programs that adapt (Java, programs on libgc, caches) are steered";
        let (standing, mut says) = match (blind.is_empty(), missing.is_empty()) {
            (false, _) => (
                Standing::Little,
                format!("little works: not there: {}", blind.join(", ")),
            ),
            (true, true) => (
                Standing::Good,
                format!("good: {steered}, and memory can be taken from the others"),
            ),
            (true, false) => (
                Standing::Enough,
                format!("good enough: {steered}; but {}", missing.join(", and ")),
            ),
        };
        says.push('.');
        if let Some(first) = helps.first() {
            says += &format!(" The one thing that helps most: {}.", first.what);
        }
        Verdict {
            standing,
            says,
            helps,
        }
    }

    pub(super) fn text(&self, width: usize) -> String {
        let mut text = String::new();
        wrap(&mut text, "verdict  ", &self.says, INDENT, width);
        for (index, help) in self.helps.iter().enumerate() {
            let head = if index == 0 { "helps    " } else { "         " };
            let said = format!("{}: {}", help.what, help.gains);
            wrap(&mut text, head, &said, INDENT, width);
            // A command stays on its line, so that it can be copied.
            text += &format!("{:INDENT$}  {}\n", "", help.command);
        }
        text
    }
}

fn helps(found: &[Found], memory: u64, here: &Here) -> Vec<Help> {
    let get = |name: &str| found.iter().find(|it| it.name == name);
    let lacks = |name: &str| get(name).is_some_and(|it| !it.works);
    let mut helps = Vec::new();
    if lacks("swap") {
        let size = (memory >> 30).div_ceil(SWAP_PART).clamp(1, MOST_SWAP);
        let steps = format!(
            "fallocate -l {size}G /swapfile && chmod 600 /swapfile && mkswap /swapfile && swapon /swapfile"
        );
        helps.push(Help {
            what: "swap",
            gains: "memory that no program uses can leave, and a shortage slows programs before it kills one",
            command: here.as_root(&format!("sh -c '{steps}'")),
        });
    }
    let scope = "systemd-run --user --scope -p Delegate=yes plimsoll run -f programs.toml";
    let command = match (here.systemd, here.root) {
        (true, false) => Some(scope.to_owned()),
        (true, true) => Some(scope.replace(" --user", "")),
        (false, false) => Some(here.as_root("plimsoll run -f programs.toml")),
        (false, true) => None,
    };
    if let Some(command) = command.filter(|_| lacks("cgroup-write")) {
        helps.push(Help {
            what: "cgroup-write",
            gains: "the budget of a file binds all its programs, and bytes can be taken from one of them",
            command,
        });
    }
    if lacks("cap-sys-nice") && here.systemd && here.unit {
        helps.push(Help {
            what: "cap-sys-nice",
            gains: "a broker for all users that may choose which pages of a program leave first",
            command: here.as_root("systemctl enable --now plimsolld.socket"),
        });
    }
    let switch = "sysctl kernel.task_delayacct=1";
    if get("stalls").is_some_and(|it| it.needs.contains(switch)) {
        helps.push(Help {
            what: "stalls",
            gains: "the kernel counts for which program memory is short, and nothing has to be traced",
            command: here.as_root(switch),
        });
    }
    helps
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn sample() -> Verdict {
        Verdict {
            standing: Standing::Enough,
            says: "good enough: programs that adapt are steered.".into(),
            helps: vec![Help {
                what: "swap",
                gains: "pages can go",
                command: "sudo swapon /swapfile".into(),
            }],
        }
    }

    fn found(name: &'static str, works: bool, needs: &str) -> Found {
        Found {
            name,
            tier: "a tier".into(),
            best: works && needs.is_empty(),
            works,
            needs: needs.into(),
            costs: String::new(),
        }
    }

    fn all(without: &[&str]) -> Vec<Found> {
        let names = [
            "cgroup",
            "cgroup-write",
            "pagemap-scan",
            "working-set",
            "swap",
            "cap-sys-nice",
        ];
        let found = |name| found(name, !without.contains(&name), "");
        names.into_iter().map(found).collect()
    }

    const USER: Here = Here {
        systemd: true,
        unit: true,
        root: false,
    };

    #[test]
    fn the_verdict_is_what_works_and_what_helps_most() {
        let memory = 24 << 30;
        let of = |without: &[&str]| Verdict::of(&all(without), memory, &USER);
        let good = of(&[]);
        assert_eq!((good.standing, good.helps.len()), (Standing::Good, 0));
        let bare = of(&["swap", "cgroup-write", "cap-sys-nice"]);
        assert_eq!(bare.standing, Standing::Enough);
        assert!(
            bare.says.starts_with("good enough: programs that adapt"),
            "{}",
            bare.says
        );
        assert!(
            bare.says.ends_with("The one thing that helps most: swap."),
            "{}",
            bare.says
        );
        let commands: Vec<&str> = bare
            .helps
            .iter()
            .map(|help| help.command.as_str())
            .collect();
        assert!(
            commands[0].starts_with("sudo sh -c 'fallocate -l 6G /swapfile"),
            "{commands:?}"
        );
        assert!(
            commands[1].starts_with("systemd-run --user --scope"),
            "{commands:?}"
        );
        assert_eq!(commands[2], "sudo systemctl enable --now plimsolld.socket");
        let blind = of(&["working-set"]);
        assert_eq!(blind.standing, Standing::Little);
        assert!(
            blind.says.contains("not there: working-set"),
            "{}",
            blind.says
        );
    }

    #[test]
    fn a_command_is_given_only_where_it_can_work() {
        let root = Here {
            systemd: false,
            unit: true,
            root: true,
        };
        let without = all(&["swap", "cgroup-write", "cap-sys-nice"]);
        let helps = Verdict::of(&without, 1 << 30, &root).helps;
        let whats: Vec<&str> = helps.iter().map(|help| help.what).collect();
        assert_eq!(whats, ["swap"]);
        assert!(helps[0].command.starts_with("sh -c 'fallocate -l 1G"));
        let stalls = [found(
            "stalls",
            true,
            "off: `sysctl kernel.task_delayacct=1`, and then",
        )];
        let helps = Verdict::of(&stalls, 1 << 30, &USER).helps;
        assert_eq!(
            helps.last().unwrap().command,
            "sudo sysctl kernel.task_delayacct=1"
        );
    }
}
