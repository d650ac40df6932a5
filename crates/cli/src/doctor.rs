//! `plimsoll doctor`: what this kernel and our rights allow, what each missing capability costs,
//! and whether a broker answers.
//!
//! # Map
//! | module | is |
//! |---|---|
//! | `capability` | a capability of the kernel, as probed |
//! | `java`, `libgc` | the libraries for programs on HotSpot and on libgc |
//! | `running` | programs that run now, and the free heap of each |
//! | `verdict` | the conclusion, and advice |
//!
//! # The JSON contract
//! `verdict`: `standing` (`good`, `enough` or `little`), `says`, and `helps`, a list of `what`, `gains` and
//! `command`, the most useful first; `kernel`, `user` (number), `capacity` (bytes), `domain` and `unseen`
//! (whether limits may bind this process that it does not see); `socket`,
//! and `broker`: null, or `version`, `pid`, `principals` (how many), `budget` (bytes);
//! `capabilities`: a list of `name`, `tier`, `best`, `works`, `needs`, `costs`; `java`: `agent` (null or a
//! path) and `stalls`; `running`: `programs`, a list of `pid`, `name`, `runtime`, `resident` and `free`
//! (bytes) and `joins` (`adopt`, `run` or `counted`), and `left_out` (how many); `libgc`: `drop_in` and
//! `system` (null, or `path`, `version`, `error`), `adapter` (null or a path), and `tiers`, a list of
//! `name`, `works`, `means`.

mod capability;
mod java;
mod libgc;
mod running;
mod verdict;

pub use capability::Found;
pub use java::Java;
pub use libgc::{LibGc, Library, Tier};
pub use running::{Program, Running};
pub use verdict::{Help, Standing, Verdict};

use crate::broker_connection::Control;
use crate::json;
use crate::own_broker::Place;
use crate::rows::{Faults, Order, rows, shown};
use crate::size::Human;
use crate::terminal_text::wrap;
use plimsoll_kernel::capacity::Domain;
use plimsoll_kernel::probe::{probe, purpose};
use plimsoll_runtimes::libgc::Libraries;
use plimsoll_wire::messages::Listing;
use serde::Serialize;

/// All findings.
#[derive(Debug, Serialize)]
pub struct Findings {
    /// The conclusion from the rest, and advice.
    pub verdict: Verdict,
    /// Release of the running kernel.
    pub kernel: String,
    /// The effective user.
    pub user: u32,
    /// The memory that the tightest limit above us allows, bytes.
    pub capacity: u64,
    /// `machine`, or the cgroup with that limit.
    pub domain: String,
    /// Whether limits may bind us that are not visible here.
    pub unseen: bool,
    /// Where a broker is looked for.
    pub socket: String,
    /// The broker that answers there.
    pub broker: Option<BrokerFound>,
    /// The capabilities, as probed.
    pub capabilities: Vec<Found>,
    /// Programs on HotSpot.
    pub java: Java,
    /// Programs on libgc.
    pub libgc: LibGc,
    /// Programs that run now, of runtimes that are recognised.
    pub running: Running,
}

/// A broker that answers.
#[derive(Debug, Serialize)]
pub struct BrokerFound {
    /// The version of the broker.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// How many principals it has.
    pub principals: usize,
    /// Memory that it shares out, bytes.
    pub budget: u64,
}

impl From<Listing> for BrokerFound {
    fn from(listing: Listing) -> BrokerFound {
        BrokerFound {
            principals: rows(&listing, Order::Arrival, &Faults::new()).len()
                + usize::try_from(listing.left_out).unwrap_or(0),
            version: listing.version,
            pid: listing.pid,
            budget: listing.budget,
        }
    }
}

/// Examines everything. Changes nothing permanently.
pub fn examine(place: &Place) -> Findings {
    let mut domain = Domain::of_self().ok();
    let capacity = domain
        .as_mut()
        .and_then(|domain| domain.read().ok())
        .map_or(0, |r| r.capacity.0);
    let binding = domain.as_ref().and_then(Domain::binding);
    let listing = Control::connect(&place.socket)
        .and_then(|mut control| control.list())
        .ok();
    let mut capabilities: Vec<Found> = probe().into_iter().map(Found::from).collect();
    capability::try_own_cgroup(&mut capabilities);
    let own = std::env::current_exe().ok();
    let libraries = own
        .as_deref()
        .map_or_else(Libraries::default, Libraries::of);
    let java = Java::examine(own.as_deref(), &capabilities);
    let libgc = LibGc::examine(&libraries, &capabilities);
    let verdict = Verdict::of(&capabilities, capacity, &verdict::Here::look());
    Findings {
        verdict,
        kernel: rustix::system::uname()
            .release()
            .to_string_lossy()
            .into_owned(),
        user: rustix::process::geteuid().as_raw(),
        capacity,
        domain: binding.map_or_else(|| "machine".to_owned(), |dir| dir.display().to_string()),
        unseen: domain.as_ref().is_some_and(Domain::is_unseen),
        socket: place.socket.path().display().to_string(),
        broker: listing.map(BrokerFound::from),
        java,
        libgc,
        running: Running::examine(),
        capabilities,
    }
}

/// The message where our own group is not visible.
const UNSEEN: &str = "our own memory cgroup is not visible here: if it has a limit, there is less than this; \
    make /sys/fs/cgroup visible, or give `budget` in the broker's configuration";

/// The findings as text for people, `width` columns wide: first the conclusion and the advice.
pub fn text(findings: &Findings, width: usize) -> String {
    let mut text = findings.verdict.text(width);
    text.push('\n');
    add_place(&mut text, findings, width);
    let widest = findings.capabilities.iter().map(|found| found.name.len());
    let widest = widest.max().unwrap_or(0);
    for found in &findings.capabilities {
        let state = match (found.best, found.works) {
            (true, _) => "ok  ",
            (false, true) => "less",
            (false, false) => "none",
        };
        let tier = shown(&found.tier, 200);
        let what = match purpose(found.name) {
            "" => tier,
            purpose => format!("{purpose}: {tier}"),
        };
        let head = format!("{state}  {:<widest$}  ", found.name);
        wrap(&mut text, &head, &what, head.len(), width);
        for (what, said) in [("needs", &found.needs), ("costs", &found.costs)] {
            if !said.is_empty() {
                let told = format!("{what}: {}", shown(said, 300));
                wrap(&mut text, &" ".repeat(head.len()), &told, head.len(), width);
            }
        }
    }
    text + &findings.java.text(width) + &findings.libgc.text(width) + &findings.running.text(width)
}

/// Where we are: the kernel, the memory, the broker.
fn add_place(text: &mut String, findings: &Findings, width: usize) {
    let domain = match findings.domain.as_str() {
        "machine" => "this machine".to_owned(),
        cgroup => format!("the limit of {}", shown(cgroup, 200)),
    };
    let broker = match &findings.broker {
        None => "none answers; `plimsoll run` starts one".to_owned(),
        Some(broker) => format!(
            "{} as process {}: {} {} {}",
            shown(&broker.version, 20),
            broker.pid,
            broker.principals,
            if broker.principals == 1 {
                "principal has"
            } else {
                "principals share"
            },
            Human(broker.budget)
        ),
    };
    let kernel = format!("{}, as user {}", findings.kernel, findings.user);
    let memory = format!("{} by {domain}", Human(findings.capacity));
    let unseen = if findings.unseen { UNSEEN } else { "" };
    for (name, said) in [
        ("kernel   ", kernel),
        ("memory   ", memory),
        ("         ", unseen.to_owned()),
        ("socket   ", shown(&findings.socket, 200)),
        ("broker   ", broker),
    ] {
        if !said.is_empty() {
            wrap(text, name, &said, name.len(), width);
        }
    }
}

/// The findings as JSON for programs.
pub fn json(findings: &Findings) -> String {
    json::pretty(findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Findings {
        let found = |name, best, works, needs: &str, costs: &str| Found {
            name,
            tier: format!("{name} tier"),
            best,
            works,
            needs: needs.into(),
            costs: costs.into(),
        };
        Findings {
            verdict: verdict::tests::sample(),
            kernel: "6.18.0".into(),
            user: 1000,
            capacity: 4 << 30,
            domain: "machine".into(),
            unseen: false,
            socket: "/run/user/1000/plimsoll/broker.sock".into(),
            broker: None,
            capabilities: vec![
                found("one", true, true, "", ""),
                found("three", false, true, "cgroup version 2", "a short stall"),
                found("zap", false, false, "root", "slower"),
            ],
            java: java::tests::sample(),
            libgc: libgc::tests::sample(),
            running: running::tests::sample(),
        }
    }

    #[test]
    fn tells_what_is_missing_and_what_it_costs() {
        let expected = "\
verdict  good enough: programs that adapt are steered.
helps    swap: pages can go
           sudo swapon /swapfile

kernel   6.18.0, as user 1000
memory   4.00G by this machine
socket   /run/user/1000/plimsoll/broker.sock
broker   none answers; `plimsoll run` starts one
ok    one    one tier
less  three  three tier
             needs: cgroup version 2
             costs: a short stall
none  zap    zap tier
             needs: root
             costs: slower
";
        let text = text(&sample(), 80);
        let (text, rest) = text.split_at(expected.len());
        assert_eq!(text, expected);
        assert!(rest.starts_with("java     programs"), "{rest}");
        assert!(rest.contains("\nlibgc    programs"), "{rest}");
        assert!(rest.contains("\nrunning  programs"), "{rest}");
    }

    #[test]
    fn a_group_that_is_not_visible_is_told() {
        let mut findings = sample();
        assert!(!text(&findings, 200).contains("not visible"));
        findings.unseen = true;
        assert!(text(&findings, 200).contains(UNSEEN));
    }

    #[test]
    fn json_keeps_its_contract() {
        let value: serde_json::Value = serde_json::from_str(&json(&sample())).unwrap();
        assert_eq!(value["verdict"]["standing"], "enough");
        assert_eq!(
            value["verdict"]["helps"][0]["command"],
            "sudo swapon /swapfile"
        );
        assert_eq!(value["capacity"], 4u64 << 30);
        assert_eq!(value["broker"], serde_json::Value::Null);
        assert_eq!(value["capabilities"][1]["works"], true);
        assert_eq!(value["capabilities"][1]["costs"], "a short stall");
        assert_eq!(value["java"]["agent"], "/p/libplimsoll_jvm.so");
        assert_eq!(value["java"]["stalls"], "delay accounting");
        assert_eq!(value["libgc"]["drop_in"]["version"], "8.2.2");
        assert_eq!(value["libgc"]["tiers"][0]["works"], true);
        assert_eq!(value["running"]["programs"][0]["free"], 300u64 << 20);
        assert_eq!(value["running"]["programs"][2]["joins"], "counted");
        assert_eq!(value["running"]["left_out"], 2);
    }

    /// Columns of the longest name before a sentence, and more.
    const NAMES: usize = 24;

    #[test]
    fn looks_at_this_machine() {
        let socket = plimsoll_client::Socket::at("/nonexistent/broker.sock");
        let place = Place { socket, ours: true };
        let findings = examine(&place);
        assert!(findings.capacity > 0 && !findings.kernel.is_empty());
        assert!(findings.broker.is_none());
        let stalls = findings
            .capabilities
            .iter()
            .find(|found| found.name == "stalls");
        assert_eq!(stalls.map(|found| &found.tier), Some(&findings.java.stalls));
        for width in [60, 80, 200] {
            let text = text(&findings, width);
            // A command stays on its line, and so does a word that is wider than the room beside the names,
            // such as a path.
            let is_word = |line: &str| {
                let before = line.trim_end().rsplit_once(' ');
                before.is_none_or(|(before, _)| before.trim_end().chars().count() <= NAMES)
            };
            let is_command = |line: &str| {
                findings
                    .verdict
                    .helps
                    .iter()
                    .any(|help| line.trim() == help.command)
            };
            let wide = text
                .lines()
                .find(|line| line.chars().count() > width && !is_command(line) && !is_word(line));
            assert_eq!(wide, None);
            assert!(text.starts_with("verdict  "), "{text}");
        }
    }
}
