//! Sends one attach command to a Java virtual machine: `jattach PID COMMAND [ARGUMENT...]`;
//! `jattach PID counters` prints what it publishes.

use plimsoll_programs::hotspot::hsperfdata::PerfFile;
use plimsoll_runtimes::hotspot::attach::Attach;
use plimsoll_runtimes::process::Process;
use std::time::Duration;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [pid, command, rest @ ..] = arguments.as_slice() else {
        return Err("usage: jattach PID COMMAND [ARGUMENT...]".into());
    };
    let process = Process::new(pid.parse()?)?;
    if command == "counters" {
        for (name, value) in PerfFile::open(&process)?.read()?.iter() {
            println!("{name} {value:?}");
        }
        return Ok(());
    }
    let rest: Vec<&str> = rest.iter().map(String::as_str).collect();
    let reply = Attach::new(process)?.command(command, &rest, Duration::from_secs(10))?;
    print!("{}\n{}", reply.code, reply.text);
    Ok(())
}
