//! Describes a running Java virtual machine: version, collector, flags, addresses of the heap.

use super::attach::{Attach, AttachError};
use super::collector::Collector;
use std::collections::HashMap;
use std::ops::Range;
use std::time::Duration;

const SOFT_MAX: &str = "SoftMaxHeapSize";
const OLD_SOFT_MAX: &str = "ShenandoahSoftMaxHeapSize";

/// One flag of a running machine.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Flag {
    /// Its value, as the machine prints it.
    value: String,
    /// Whether it can be changed while the machine runs.
    manageable: bool,
}

/// All flags of a running machine, as `VM.flags -all` prints them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flags(HashMap<String, Flag>);

impl Flags {
    /// Reads lines like `bool UseG1GC   = true    {product} {ergonomic}`. Skips other lines.
    pub fn parse(text: &str) -> Flags {
        let mut flags = HashMap::new();
        for line in text.lines().take(10_000) {
            let Some((left, right)) = line.split_once('=') else {
                continue;
            };
            // `:=` marks a flag that was set, in old versions.
            let Some(name) = left.trim_end_matches(':').split_ascii_whitespace().nth(1) else {
                continue;
            };
            let value = right.split('{').next().unwrap_or("").trim().to_owned();
            flags.insert(
                name.to_owned(),
                Flag {
                    value,
                    manageable: right.contains("manageable"),
                },
            );
        }
        let mut flags = Flags(flags);
        if let Some(older) = flags.old_soft_max() {
            flags.0.entry(SOFT_MAX.to_owned()).or_insert(older);
        }
        flags
    }

    /// The soft maximum by its name in Java 11. Other collectors have the flag too, but only
    /// Shenandoah follows it there.
    fn old_soft_max(&self) -> Option<Flag> {
        let heeded = self.on("UseShenandoahGC");
        self.0.get(OLD_SOFT_MAX).filter(|_| heeded).cloned()
    }

    /// The value of a numeric flag; `None` if the flag is unknown.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.0.get(name)?.value.parse().ok()
    }

    /// Whether the flag is known and on.
    pub fn on(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|f| f.value == "true")
    }

    /// Whether the flag is on; `default` if it is unknown.
    pub fn on_or(&self, name: &str, default: bool) -> bool {
        self.0.get(name).map_or(default, |f| f.value == "true")
    }

    /// Whether the flag may be changed while the machine runs.
    pub fn manageable(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|f| f.manageable)
    }

    /// The collector that the flags select.
    pub fn collector(&self) -> Collector {
        let generational = self
            .0
            .get("ShenandoahGCMode")
            .is_some_and(|f| f.value == "generational");
        let table = [
            ("UseSerialGC", Collector::Serial),
            ("UseParallelGC", Collector::Parallel),
            ("UseG1GC", Collector::G1),
            ("UseZGC", Collector::Z),
            (
                "UseShenandoahGC",
                if generational {
                    Collector::GenShenandoah
                } else {
                    Collector::Shenandoah
                },
            ),
        ];
        table
            .iter()
            .find(|(flag, _)| self.on(flag))
            .map_or(Collector::Other, |(_, c)| *c)
    }
}

/// A running machine.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Feature version (17, 25); 0 if the machine did not tell.
    pub version: u32,
    /// Its collector.
    pub collector: Collector,
    /// Its flags.
    pub flags: Flags,
    /// The addresses of the heap; `None` for ZGC, whose heap is a memory file.
    pub heap: Option<Range<u64>>,
}

impl Machine {
    /// Asks a machine what it is.
    ///
    /// # Errors
    /// As [`Attach::command`].
    pub fn ask(attach: &Attach, timeout: Duration) -> Result<Machine, AttachError> {
        let flags = Flags::parse(&attach.jcmd("VM.flags -all", timeout)?.text);
        if flags.old_soft_max().is_some() {
            attach.rename(SOFT_MAX, OLD_SOFT_MAX);
        }
        let version = parse_version(&attach.jcmd("VM.version", timeout)?.text);
        let heap = parse_heap(&attach.jcmd("GC.heap_info", timeout)?.text);
        Ok(Machine {
            version,
            collector: flags.collector(),
            flags,
            heap,
        })
    }
}

/// The feature version from `JDK 25.0.3` in the second line of `VM.version`; 0 if there is none.
fn parse_version(text: &str) -> u32 {
    let number = text.lines().find_map(|l| l.trim().strip_prefix("JDK "));
    number
        .and_then(|n| n.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok())
        .unwrap_or(0)
}

/// The smallest range of addresses that contains every heap range of `GC.heap_info`.
fn parse_heap(text: &str) -> Option<Range<u64>> {
    let mut heap: Option<Range<u64>> = None;
    let lines = text
        .lines()
        .take(64)
        .take_while(|l| !l.contains("Metaspace"));
    for line in lines.filter(|l| !l.contains("map (")) {
        let Some((_, inside)) = line.split_once('[') else {
            continue;
        };
        let addresses = inside
            .split([',', ')', ' '])
            .filter_map(|w| u64::from_str_radix(w.trim().strip_prefix("0x")?, 16).ok());
        for address in addresses.take(4) {
            let known = heap.get_or_insert(address..address);
            *known = known.start.min(address)..known.end.max(address);
        }
    }
    heap.filter(|h| h.end > h.start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_read() {
        let flags = Flags::parse(
            "     bool UseG1GC                  = true     {product} {ergonomic}\n\
             \x20   uintx MinHeapFreeRatio       = 40       {manageable} {default}\n\
             \x20   ccstr ShenandoahGCMode := satb {product} {default}\nnonsense\n=\n",
        );
        assert_eq!(flags.collector(), Collector::G1);
        assert_eq!(flags.number("MinHeapFreeRatio"), Some(40));
        assert!(flags.manageable("MinHeapFreeRatio") && !flags.manageable("UseG1GC"));
        assert_eq!(flags.number("Absent"), None);
        let eleven = |on: bool| {
            Flags::parse(&format!(
                "size_t ShenandoahSoftMaxHeapSize = 7 {{manageable}}\nbool UseShenandoahGC = {on} {{product}}"
            ))
        };
        assert_eq!(eleven(true).number(SOFT_MAX), Some(7));
        assert!(eleven(true).manageable(SOFT_MAX));
        assert_eq!(eleven(false).number(SOFT_MAX), None);
    }

    #[test]
    fn versions_are_read() {
        assert_eq!(
            parse_version("OpenJDK 64-Bit Server VM version 25.0.3+9-LTS\nJDK 25.0.3\n"),
            25
        );
        assert_eq!(parse_version("OpenJDK\nJDK 17.0.15\n"), 17);
        assert_eq!(parse_version(""), 0);
    }

    #[test]
    fn the_range_of_the_heap_is_read() {
        let g1 = " garbage-first heap   total 533504K, used 277329K [0x00000000da800000, \
                  0x0000000100000000)\n \
                   Metaspace [0x1, 0x2)";
        assert_eq!(parse_heap(g1), Some(0xda80_0000..0x1_0000_0000));
        let serial = "new [0x10, 0x20, 0x30)\n eden 73% used [0x10, 0x14, 0x18)\ntenured [0x30, 0x50, \
                      0x60)\n";
        assert_eq!(parse_heap(serial), Some(0x10..0x60));
        assert_eq!(parse_heap("ZHeap used 480M"), None);
        assert_eq!(parse_heap("[0x5, 0x5)"), None);
    }
}
