//! More and more Java servers in the same memory: what keeping their hot file pages in is worth.
//!
//! Nakaike, Ueda, Ueda and Ohara, "Performance Characteristics of Linux for Java Workloads
//! Oversubscribing Memory", sections 4 and 5: servers under one limit with swap behind it, their number
//! rising, with and without pinning, over swappiness. Theirs are WebSphere Liberty servers on J9 whose
//! machine closes the loop; ours are Open Liberty on HotSpot under an open loop.
//!
//! - `site`: the files that servers run from, and servers;
//! - `holder`: what keeps file pages;
//! - `traffic`: counters of the disk;
//! - `fleet`: servers under a limit, and one run;
//! - `report`: table, targets and pictures.

mod fleet;
mod holder;
mod report;
mod site;
mod traffic;

use crate::Result;
use crate::measurement::{About, Measurement};
use crate::report::results::Results;
use crate::runner::Runner;
use fleet::Fleet;
use holder::Way;
use site::Site;

/// Bytes that all servers and what pins for them may use.
const LIMIT: u64 = 1 << 30;
/// Numbers of servers: those of the first fit, those of the last do not get far.
const SERVERS: [usize; 3] = [2, 8, 10];
/// The kernel's own.
const SWAPPINESS: u64 = 60;
/// Others that are tried with the most servers, the paper's two. (With 200, the most that today's kernels
/// take, no file page is read again: there is nothing to hold.)
const OTHERS: [u64; 2] = [30, 100];

/// What is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct What {
    servers: usize,
    swappiness: u64,
    way: Way,
}

/// `pin`.
pub(super) struct Pin;

impl Measurement for Pin {
    fn about(&self) -> About {
        About {
            name: "pin",
            question: "Servers that need more memory than there is: what is keeping hot file pages worth?",
            asks: &report::CLAIMS,
            minutes: 52,
            slice: false,
            seed: None,
        }
    }

    fn run(&self, runner: &Runner) -> Result<Results> {
        let ground = runner.ground()?;
        let site = Site::prepare(&runner.progress("the servers' files"))?;
        let mut fleet = Fleet::new(&ground, &site)?;
        let ran = runner
            .experiment(variants())
            .wanted()
            .rotating(|what| what.servers)
            .run(|what, turn| fleet.once(*what, turn))?;
        report::pictures(&ran, runner)?;
        Ok(report::report(&ran, runner))
    }
}

fn variants() -> Vec<(String, What)> {
    let mut variants = Vec::new();
    for servers in SERVERS {
        for way in Way::ALL {
            let name = format!("{servers} servers: {}", way.name());
            let swappiness = SWAPPINESS;
            variants.push((
                name,
                What {
                    servers,
                    swappiness,
                    way,
                },
            ));
        }
    }
    let servers = SERVERS[SERVERS.len() - 1];
    for swappiness in OTHERS {
        for way in [Way::Plain, Way::Pin] {
            let name = format!(
                "{servers} servers at swappiness {swappiness}: {}",
                way.name()
            );
            variants.push((
                name,
                What {
                    servers,
                    swappiness,
                    way,
                },
            ));
        }
    }
    variants
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_servers_rise_and_names_differ() {
        assert!(SERVERS.is_sorted());
        let variants = variants();
        assert!(variants.is_sorted_by_key(|(_, what)| what.servers));
        for (index, (name, _)) in variants.iter().enumerate() {
            assert!(variants[..index].iter().all(|(other, _)| other != name));
        }
    }
}
