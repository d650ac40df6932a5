//! The collectors of `HotSpot`.

/// The collectors of `HotSpot`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Collector {
    /// One thread, two generations, each contiguous.
    Serial,
    /// Many threads, two generations, each contiguous.
    Parallel,
    /// Regions, evacuated within a pause time.
    G1,
    /// Concurrent, coloured pointers.
    Z,
    /// Concurrent.
    Shenandoah,
    /// Shenandoah with generations.
    GenShenandoah,
    /// Another collector (Epsilon, or a future one).
    Other,
}

impl Collector {
    /// Whether the collector follows `SoftMaxHeapSize`.
    pub fn has_soft_max(self) -> bool {
        matches!(
            self,
            Collector::Z | Collector::Shenandoah | Collector::GenShenandoah
        )
    }
}

impl std::fmt::Display for Collector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Collector::Serial => "Serial",
            Collector::Parallel => "Parallel",
            Collector::G1 => "G1",
            Collector::Z => "ZGC",
            Collector::Shenandoah => "Shenandoah",
            Collector::GenShenandoah => "generational Shenandoah",
            Collector::Other => "unknown",
        })
    }
}
