//! The interfaces that this kernel and our rights allow, found by trying each once. `plimsoll doctor` shows
//! the result.

mod checks;
mod holding;
mod own;
mod rights;

/// One capability, as found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capability {
    /// A short stable name, e.g. `pagemap-scan`; [`purpose`] shows what it is for.
    pub name: &'static str,
    /// The active tier, for people: the call or file that will be used, or a value.
    pub tier: String,
    /// Whether it is the best tier.
    pub best: bool,
    /// Whether any tier works.
    pub works: bool,
    /// The needs of the best tier; empty if it is active.
    pub needs: String,
    /// The cost of lacking the best tier; empty if it is active.
    pub costs: String,
}

/// How good a tier other than the best one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Grade {
    /// Nothing works.
    Missing,
    /// A lesser way to the same end.
    Fallback,
}

impl Capability {
    fn best(name: &'static str, tier: impl Into<String>) -> Capability {
        Capability {
            name,
            tier: tier.into(),
            best: true,
            works: true,
            needs: String::new(),
            costs: String::new(),
        }
    }

    /// Turns the capability into a lesser tier.
    fn lesser(
        self,
        grade: Grade,
        needs: impl Into<String>,
        costs: impl Into<String>,
    ) -> Capability {
        Capability {
            best: false,
            works: grade == Grade::Fallback,
            needs: needs.into(),
            costs: costs.into(),
            ..self
        }
    }
}

/// The purpose of the capability with this name; empty for an unknown name.
pub fn purpose(name: &str) -> &'static str {
    PURPOSES
        .iter()
        .find(|(known, _)| *known == name)
        .map_or("", |(_, purpose)| purpose)
}

const PURPOSES: [(&str, &str); 22] = [
    ("cgroup", "limits and usage of groups"),
    (
        "cgroup-write",
        "a group of their own for programs, limits, taking bytes",
    ),
    ("reclaim", "taking bytes from a program now"),
    ("warning", "hearing early that memory runs short"),
    ("pagemap-scan", "which pages are present, which are swapped"),
    (
        "write-tracking",
        "which pages changed since they were summarised",
    ),
    (
        "own-advice",
        "telling which of its own pages a program does not use",
    ),
    ("page-out", "choosing which pages of a program go first"),
    (
        "working-set",
        "how much of its memory a program really uses",
    ),
    ("stalls", "allocation stalls per process"),
    (
        "pressure",
        "the slow outer signal that programs stand still",
    ),
    (
        "swap",
        "where cold pages of programs without an adapter can go",
    ),
    (
        "balance",
        "reclaiming the pages first that cost least to read again",
    ),
    ("pin", "keeping file pages that are read again and again"),
    ("lru", "how the kernel ages pages"),
    ("children", "finding the processes that a program started"),
    ("page-size", "the grain of everything"),
    ("locked-memory", "keeping the broker itself in memory"),
    ("cap-sys-nice", "advice on other processes' memory"),
    ("cap-sys-ptrace", "reading other users' processes"),
    ("cap-net-admin", "allocation stalls per process"),
    (
        "cap-sys-resource",
        "pressure triggers with short windows, raising limits",
    ),
];
/// Probes everything in about 30 ms. Changes nothing permanently.
pub fn probe() -> Vec<Capability> {
    let mut found = vec![
        checks::cgroup(),
        checks::cgroup_write(),
        checks::reclaim(),
        checks::warning(),
        checks::page_states(),
        own::write_tracking(),
        own::own_advice(),
        checks::page_out(),
        checks::working_set(),
        checks::stalls(),
        checks::pressure(),
        checks::swap(),
        holding::balance(),
        holding::pin(),
        checks::aging(),
        checks::children(),
        checks::page(),
    ];
    found.extend(rights::probe());
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_everything_is_explained() {
        let found = probe();
        for (index, one) in found.iter().enumerate() {
            assert!(
                !one.tier.is_empty() && !purpose(one.name).is_empty(),
                "{one:?}"
            );
            assert_eq!(one.best, one.needs.is_empty(), "{one:?}");
            assert_eq!(one.best, one.costs.is_empty(), "{one:?}");
            assert!(one.works || !one.best, "{one:?}");
            assert!(
                found[..index].iter().all(|other| other.name != one.name),
                "{one:?}"
            );
        }
    }

    #[test]
    fn probing_leaves_nothing_behind() {
        let groups = |c: &crate::cgroup::Cgroup| {
            std::fs::read_dir(c.dir()).map(Iterator::count).unwrap_or(0)
        };
        let Ok(Some(own)) = crate::cgroup::Cgroup::of_self() else {
            plimsoll_testbed::skip("no memory controller here");
            return;
        };
        let (before, limit) = (groups(&own), own.limit().ok());
        probe();
        assert!(
            groups(&own) <= before + 1,
            "another test may have made a group meanwhile, the probe must not"
        );
        assert_eq!(own.limit().ok(), limit);
    }
}
