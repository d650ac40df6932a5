//! Programs that map one block of memory, and are principals.

use crate::harness::broker::Broker;
use crate::harness::programs::sibling;
use crate::{Error, Result};
use plimsoll_client::Connection;
use plimsoll_testbed::children::{end, end_with_us};
use plimsoll_wire::messages::{Name, Register};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

/// Bytes that the three principals map.
pub(super) const BLOCK: u64 = 32 << 20;

/// Programs that map one block.
pub(super) struct Sharers {
    pub(super) children: Vec<Child>,
}

impl Drop for Sharers {
    fn drop(&mut self) {
        for child in &mut self.children {
            end(child, Duration::from_secs(1));
        }
    }
}

impl Sharers {
    /// Starts one program for each list of further arguments.
    pub(super) fn start(folder: &Path, programs: &[Vec<String>]) -> Result<Self> {
        let block = Path::new("/dev/shm").join(folder.file_name().unwrap_or_default());
        let mut sharers = Sharers {
            children: Vec::new(),
        };
        for arguments in programs {
            let mut command = Command::new(sibling("plimsoll-misbehave"));
            command.arg("share").arg("--path").arg(&block);
            command
                .args(["--bytes", &BLOCK.to_string()])
                .args(arguments)
                .stdout(Stdio::piped())
                .stdin(Stdio::null());
            end_with_us(&mut command);
            let child = command.spawn().map_err(Error::start(&command))?;
            sharers.children.push(child);
        }
        std::thread::sleep(Duration::from_secs(1));
        // The mappings keep the file. As its name is gone, nothing is left behind if this process is killed.
        let _ = std::fs::remove_file(&block);
        Ok(sharers)
    }

    /// The outputs of the programs. They can be taken only once.
    pub(super) fn outputs(&mut self) -> Vec<ChildStdout> {
        self.children
            .iter_mut()
            .filter_map(|child| child.stdout.take())
            .collect()
    }
}

/// Registers the programs as principals. They stay principals as long as the connections are kept.
pub(super) fn register(broker: &Broker, sharers: &Sharers) -> Result<Vec<Connection>> {
    let mut owners = Vec::new();
    for (index, child) in sharers.children.iter().enumerate() {
        let mut connection = broker.connect()?;
        let register = Register {
            name: Name::mend(&format!("sharer-{index}")),
            pid: Some(child.id()),
            ..Register::default()
        };
        connection.register(&register)?;
        owners.push(connection);
    }
    Ok(owners)
}
