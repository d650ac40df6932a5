//! More and more Java servers in the same memory: what keeping their hot file pages in is worth.
//!
//! Nakaike, Ueda, Ueda and Ohara, "Performance Characteristics of Linux for Java Workloads
//! Oversubscribing Memory", sections 4 and 5: servers under one limit with swap behind it, their number
//! rising, with and without pinning, over swappiness. Theirs are WebSphere Liberty servers on J9 whose
//! machine closes the loop; ours are Open Liberty on HotSpot under an open loop.
//!
//! - `server_software`: the files that servers run from, and servers;
//! - `holder`: what keeps file pages;
//! - `traffic`: counters of the disk;
//! - `slow_disk`: a disk that is made slow;
//! - `fleet`: servers under a limit, and one run;
//! - `report`: table, targets and pictures.

mod fleet;
mod holder;
mod report;
mod server_software;
mod slow_disk;
mod traffic;

use crate::Result;
use crate::measurement::{About, Measurement};
use crate::report::results::Results;
use crate::runner::Runner;
use fleet::Fleet;
use holder::Way;
use server_software::Site;

/// Bytes that all servers and what pins for them may use.
const LIMIT: u64 = 1 << 30;
/// Numbers of servers, and those of them with which all ways are tried and the claims are judged: the
/// first of these fit, the last do not get far.
const SERVERS: [usize; 5] = [2, 6, 8, 10, 12];
const JUDGED: [usize; 3] = [2, 8, 10];
/// The kernel's own.
const SWAPPINESS: u64 = 60;
/// Others that are tried with the most servers, the paper's two. (With 200, the most that today's kernels
/// take, no file page is read again: there is nothing to hold.)
const OTHERS: [u64; 2] = [30, 100];
/// Swappiness with the slow disk. A representative part is the first.
const SLOW: [u64; 2] = [SWAPPINESS, 30];
/// Swappiness with looking alone.
const DRY: [u64; 2] = [SWAPPINESS, 100];

/// A variant of the runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct What {
    servers: usize,
    swappiness: u64,
    way: Way,
    /// On a slow disk.
    slow: bool,
}

impl What {
    fn name(&self) -> String {
        let swappiness = if self.swappiness == SWAPPINESS {
            String::new()
        } else {
            format!(" at swappiness {}", self.swappiness)
        };
        let disk = if self.slow { " on a slow disk" } else { "" };
        let (servers, way) = (self.servers, self.way.name());
        format!("{servers} servers{swappiness}{disk}: {way}")
    }
}

/// `pin`.
pub(super) struct Pin;

impl Measurement for Pin {
    fn about(&self) -> About {
        About {
            name: "pin",
            question: "Servers that need more memory than there is: what is keeping hot file pages worth?",
            asks: &report::CLAIMS,
            minutes: 110,
            only: true,
            slice: true,
            seed: None,
        }
    }

    fn run(&self, runner: &Runner) -> Result<Results> {
        let ground = runner.ground()?;
        let site = Site::prepare(&runner.progress("the servers' files"))?;
        let mut fleet = Fleet::new(&ground, &site)?;
        let variants = variants(runner.slice()).into_iter();
        let ran = runner
            .experiment(variants.map(|what| (what.name(), what)))
            .wanted()
            .rotating(|what| what.servers)
            .run(|what, turn| fleet.once(*what, turn))?;
        report::pictures(&ran, runner)?;
        Ok(report::report(&ran, runner))
    }
}

/// Everything that is run; or a representative part of about 80 minutes.
fn variants(slice: bool) -> Vec<What> {
    let most = JUDGED[JUDGED.len() - 1];
    let mut variants = Vec::new();
    for servers in SERVERS {
        let usual = |way| What {
            servers,
            swappiness: SWAPPINESS,
            way,
            slow: false,
        };
        if JUDGED.contains(&servers) {
            variants.extend(Way::ALL.map(usual));
        } else if !slice {
            variants.extend([Way::Plain, Way::Pin].map(usual));
        }
        if servers != most {
            continue;
        }
        let at = |swappiness| {
            move |way| What {
                swappiness,
                ..usual(way)
            }
        };
        for swappiness in OTHERS {
            variants.extend([Way::Plain, Way::Pin].map(at(swappiness)));
        }
        variants.extend(DRY.map(|swappiness| at(swappiness)(Way::DryRun)));
        for swappiness in &SLOW[..if slice { 1 } else { SLOW.len() }] {
            let slow = |what| What { slow: true, ..what };
            variants.extend(Way::ALL.map(at(*swappiness)).map(slow));
        }
    }
    variants
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_servers_rise_and_names_differ() {
        assert!(SERVERS.is_sorted() && JUDGED.iter().all(|judged| SERVERS.contains(judged)));
        for slice in [false, true] {
            let variants = variants(slice);
            assert!(variants.is_sorted_by_key(|what| what.servers));
            for (index, what) in variants.iter().enumerate() {
                let same = |other: &What| other.name() == what.name();
                assert!(!variants[..index].iter().any(same), "{what:?}");
            }
        }
        assert!(variants(true).len() < variants(false).len());
    }
}
