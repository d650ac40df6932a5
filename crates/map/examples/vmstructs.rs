//! Prints what a Java virtual machine tells debuggers: `vmstructs PID [PART OF A NAME]`. Fields with
//! their places, constants, and where the values of flags are. Nothing of the process is touched.

use plimsoll_kernel::process::Process;
use plimsoll_map::Snapshot;
use plimsoll_map::memory::ProcessMemory;
use plimsoll_map::runtimes::hotspot;
use plimsoll_programs::hotspot::tables::Place;
use std::error::Error;
use std::io::{Write, stdout};
use std::sync::Arc;
use std::time::Duration;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let pid = arguments.next().ok_or("which process? give its number")?;
    let part = arguments.next().unwrap_or_default();
    let process = Arc::new(Process::open(pid.parse()?)?);
    let snapshot = Snapshot::of(&process, Duration::from_secs(10))?;
    let memory = ProcessMemory::open(&process)?;
    let tables = hotspot::tables(&snapshot, &memory)?;
    let mut lines = Vec::new();
    for ((kind, name), field) in &tables.fields {
        lines.push(match field.place {
            Place::Static(at) => format!("{kind}::{name} at {at:#x}: {}", field.kind),
            Place::Offset(offset) => format!("{kind}::{name} + {offset}: {}", field.kind),
        });
    }
    lines.extend(
        tables
            .constants
            .iter()
            .map(|(name, value)| format!("{name} = {value}")),
    );
    lines.extend(
        tables
            .flags
            .iter()
            .map(|(name, at)| format!("flag {name} at {at:#x}")),
    );
    lines.sort();
    let mut out = stdout().lock();
    for line in lines.iter().filter(|line| line.contains(&part)) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}
