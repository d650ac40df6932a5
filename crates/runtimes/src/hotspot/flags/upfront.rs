//! Options with which a machine takes room for its whole maximum heap at the start, where it takes
//! otherwise only what it fills. Beside them we add no maximum: it might not fit where the heap goes, and
//! the machine would not start, or would leave nothing to others there.
//!
//! `AlwaysPreTouch` is not among them. It touches the first heap and what is added later, with each
//! collector of 11 to 25; `tests/upfront.rs` measures that.

use super::given::Given;
use plimsoll_unit::Bytes;

/// Above this size a heap loses compressed object pointers and needs about half more for
/// the same objects.
pub(super) const COMPRESSED: Bytes = Bytes(31 << 30);
/// Options that put the heap, or its old generation, into a file, which gets its whole size at the start:
/// the present name, that of 12 to 15, and that of ZGC before 13. ZGC takes what it fills, but warns on the
/// program's output if the maximum does not fit on the file system.
const IN_A_FILE: [(&str, &str); 3] = [
    ("-XX:AllocateHeapAt=", "-XX:AllocateHeapAt"),
    ("-XX:AllocateOldGenAt=", "-XX:AllocateOldGenAt"),
    ("-XX:ZPath=", "-XX:ZPath"),
];
/// Flags that take the heap from a pool of large pages: all of the maximum, or small pages if that does not
/// fit into the pool.
const FROM_A_POOL: [(&str, &str); 3] = [
    ("UseLargePages", "-XX:+UseLargePages"),
    ("UseHugeTLBFS", "-XX:+UseHugeTLBFS"),
    ("UseSHM", "-XX:+UseSHM"),
];
/// With this flag, pages become large as they are filled, and none comes from a pool.
const AS_FILLED: &str = "UseTransparentHugePages";

/// Why a maximum heap of ours might be taken at the start; `None` if it is not.
pub(super) fn reason(given: &Given) -> Option<String> {
    let given = given.in_any_build();
    let file = IN_A_FILE
        .iter()
        .find(|(option, _)| given.last(option).is_some());
    let pool = FROM_A_POOL.iter().find(|(flag, _)| given.is_on(flag));
    let pool = pool.filter(|_| !given.is_on(AS_FILLED));
    match file.or(pool) {
        Some((_, option)) => Some(format!(
            "{option} takes room for the whole maximum at the start"
        )),
        None => (!given.is_whole())
            .then(|| "a file with options cannot be read before the program starts".to_owned()),
    }
}

/// The largest heap that may be added. Beyond [`COMPRESSED`] a machine switches compressed pointers
/// off with a warning, even if they were asked for, and an archive of classes made with them does not fit
/// any more, which ends a machine that insists on it.
pub(super) fn most(given: &Given) -> Bytes {
    if given.is_on("UseCompressedOops") || given.last("-Xshare:") == Some("on") {
        COMPRESSED
    } else {
        Bytes::MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hotspot::flags::{Known, Surroundings, for_any, start};
    use plimsoll_programs::Setting;
    use std::path::Path;

    fn around(budget: Bytes) -> Surroundings {
        Surroundings {
            budget: Some(budget),
            memory: Some(Bytes(64 << 30)),
            processors: 2,
            version: Some(17),
            known: Known::all(),
            ..Surroundings::default()
        }
    }

    /// The flags that are added to these options, and the notes.
    fn added(options: &[&str]) -> (String, String) {
        let words = options.iter().map(|&word| word.to_owned());
        let given = Given::collect(words, &Setting::ours());
        let added = start(&given, &around(Bytes::mib(1500)));
        (added.flags.join(" "), added.notes.join(" "))
    }

    #[test]
    fn no_maximum_is_added_beside_an_option_that_takes_it_at_the_start() {
        for option in [
            "-XX:AllocateHeapAt=/mnt/pmem",
            "-XX:AllocateOldGenAt=/mnt/pmem",
            "-XX:ZPath=/mnt/pmem",
            "-XX:+UseLargePages",
            "-XX:+UseHugeTLBFS",
            "-XX:+UseSHM",
        ] {
            let name = option.split('=').next().unwrap();
            for collector in ["Serial", "Parallel", "G1", "Z", "Shenandoah"] {
                let collector = format!("-XX:+Use{collector}GC");
                let (flags, notes) = added(&[&collector, option, "A"]);
                let taken = flags.contains("-Xmx") || flags.contains("SoftMax");
                assert!(!taken && flags.contains("-Xms32m"), "{option}: {flags}");
                let why = format!("no maximum heap is added: {name} takes room");
                assert!(notes.contains(&why), "{notes}");
                // A size of the user's needs no word.
                let (_, notes) = added(&[&collector, option, "-Xmx1g", "A"]);
                assert!(!notes.contains("no maximum"), "{notes}");
            }
        }
        for harmless in [
            "-XX:+AlwaysPreTouch",
            "-XX:+UseTransparentHugePages",
            "-XX:+UseNUMA",
            "-XX:-UseLargePages",
            "-XX:LargePageSizeInBytes=2m",
        ] {
            let (flags, notes) = added(&[harmless, "A"]);
            assert!(flags.contains("-Xmx1593m"), "{harmless}: {flags}");
            assert!(!notes.contains("no maximum"), "{harmless}: {notes}");
        }
        let (flags, _) = added(&["-XX:+UseLargePages", "-XX:+UseTransparentHugePages", "A"]);
        assert!(flags.contains("-Xmx"), "{flags}");
    }

    #[test]
    fn such_an_option_is_seen_in_every_place() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text);
        write("words", "-XX:AllocateHeapAt=/mnt").unwrap();
        write("flags", "+UseLargePages\n").unwrap();
        let is_seen = |variables: &[(&str, &str)], words: &[&str], folder: &Path| {
            let find = |name: &str| variables.iter().find(|(key, _)| *key == name);
            let setting = Setting {
                variables: &|name: &str| find(name).map(|(_, value)| value.into()),
                folder,
            };
            let given = Given::collect(words.iter().map(|&word| word.to_owned()), &setting);
            let seen = [
                start(&given, &around(Bytes(8 << 30))),
                for_any(&given, &around(Bytes(8 << 30))),
            ]
            .map(|added| {
                !added.flags.join(" ").contains("Xmx") && !added.flags.join(" ").contains("MaxRAM")
            });
            assert_eq!(seen[0], seen[1]);
            seen[0]
        };
        let none = Path::new("");
        for name in ["JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"] {
            assert!(is_seen(&[(name, "-XX:AllocateHeapAt=/mnt")], &["A"], none));
        }
        for word in ["@words", "-XX:VMOptionsFile=words", "-XX:Flags=flags"] {
            assert!(is_seen(&[], &[word, "A"], folder.path()), "{word}");
        }
        assert!(is_seen(
            &[("JDK_JAVA_OPTIONS", "@words")],
            &["A"],
            folder.path()
        ));
        // A file that we must not read may say it, too.
        assert!(is_seen(
            &[],
            &["-XX:VMOptionsFile=/proc/self/cmdline", "A"],
            none
        ));
        assert!(!is_seen(&[], &["A"], folder.path()));
        write(".hotspotrc", "+UseLargePages\n").unwrap();
        assert!(is_seen(&[], &["A"], folder.path()));
    }

    #[test]
    fn pointers_that_were_asked_to_be_compressed_stay_so() {
        let flags = |option: &str| {
            let given = Given::collect([option.to_owned()], &Setting::ours());
            start(&given, &around(Bytes(62 << 30))).flags.join(" ")
        };
        assert!(flags("-XX:+UseCompressedOops").contains("-Xmx31744m"));
        assert!(flags("-Xshare:on").contains("-Xmx31744m"));
        assert!(flags("-Xshare:auto").contains("-Xmx67456m"));
    }

    #[test]
    fn where_the_kernel_bounds_mappings_the_machine_keeps_its_own_size() {
        let bounded = Surroundings {
            mappings_bounded: true,
            ..around(Bytes(8 << 30))
        };
        let added = start(&Given::default(), &bounded);
        assert!(!added.flags.join(" ").contains("-Xmx"));
        assert!(added.notes.join(" ").contains("bounds what may be mapped"));
    }
}
