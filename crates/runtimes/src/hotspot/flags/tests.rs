//! Which flags are added, and which are left out because the user gave others.

use super::*;
use crate::testing::with_variables;
use proptest::prelude::*;

/// The options from an environment and a command line.
fn given(variables: &[(&str, &str)], arguments: &[&str]) -> Given {
    let words = arguments.iter().map(|&word| word.to_owned());
    with_variables(variables, |setting| Given::collect(words, setting))
}

fn flags(arguments: &[&str], around: &Surroundings) -> Vec<String> {
    start(&given(&[], arguments), around).flags
}

fn two() -> Surroundings {
    Surroundings {
        budget: Some(Bytes::mib(1500)),
        memory: Some(Bytes(24 << 30)),
        processors: 2,
        group: None,
        beyond: Bytes::ZERO,
        cliff: false,
        own_rule: false,
        mappings_bounded: false,
        version: Some(17),
        known: Known::all(),
    }
}

#[test]
fn a_program_alone_can_use_the_budget() {
    assert!(flags(&["-jar", "a.jar"], &two()).contains(&"-Xmx1593m".to_owned()));
    assert!(flags(&["-XX:+UseSerialGC", "A"], &two()).contains(&"-Xmx4350m".to_owned()));
    let z = flags(&["-XX:+UseZGC", "A"], &two());
    assert!(z.contains(&"-Xmx1687m".to_owned()), "{z:?}");
    assert!(z.contains(&"-XX:SoftMaxHeapSize=1404m".to_owned()), "{z:?}");
}

#[test]
fn g1_grows_by_itself_in_the_smallest_steps() {
    // A percentage of a large maximum may be more than there is room for below a small limit.
    let mut around = two();
    around.budget = Some(Bytes(20 << 30));
    let added = flags(&["-XX:+UseG1GC", "A"], &around);
    assert!(
        added.contains(&"-XX:G1ExpandByPercentOfAvailable=0".to_owned()),
        "{added:?}"
    );
}

#[test]
fn what_the_user_gave_is_not_touched() {
    let added = flags(&["-Xmx200m", "-Xms10m", "-XX:+UseSerialGC", "A"], &two()).join(" ");
    assert!(
        !added.contains("-Xm") && !added.contains("NewRatio"),
        "{added}"
    );
    let added = flags(&["-Xmn20m", "A"], &two()).join(" ");
    assert!(!added.contains("G1MaxNewSizePercent"), "{added}");
}

#[test]
fn sizes_that_contradict_each_other_are_not_made() {
    // "Initial heap size set to a larger value than the maximum heap size" ends a machine.
    for (given, not) in [
        ("-Xmx16m", "-Xms"),
        ("-XX:MaxHeapSize=8388608", "-Xms"),
        ("-Xmxodd", "-Xms"),
        ("-Xms4g", "-Xmx"),
        ("-XX:InitialHeapSize=2T", "-Xmx"),
        ("-Xms0x80000000", "-Xmx"),
        ("-Xmsodd", "-Xmx"),
        ("-ms4g", "-Xmx"),
        // A soft maximum above the maximum ends a machine too; sizes of generations would be reduced.
        ("-XX:SoftMaxHeapSize=4g", "-Xmx"),
        ("-XX:SoftMaxHeapSize=odd", "-Xmx"),
        ("-XX:ErgoHeapSizeLimit=2g", "-Xmx"),
        ("-Xmn4g", "-Xmx"),
        ("-Xmn64m", "-Xms"),
        ("-XX:+AggressiveHeap", "-Xm"),
    ] {
        let added = flags(&[given, "A"], &two()).join(" ");
        assert!(!added.contains(not), "{given}: {added}");
    }
    let added = flags(&["-Xms1g", "A"], &two()).join(" ");
    assert!(added.contains("-Xmx1593m"), "{added}");
}

#[test]
fn a_machine_of_which_nothing_is_known_gets_no_size_that_could_contradict() {
    let added = for_any(&Given::default(), &two()).flags.join(" ");
    assert!(
        added.contains("-XX:MaxRAMPercentage=6.1035") && !added.contains("-Xm"),
        "{added}"
    );
    // A flag that another version or build does not know, or accepts only when unlocked, would end the
    // machine.
    let others = [
        "GCTimeRatio",
        "NewRatio",
        "UseG1",
        "NewSize",
        "Ignore",
        "Unlock",
        "ZUncommit",
        "Shenandoah",
    ];
    for others in others {
        assert!(!added.contains(others), "{added}");
    }
    let unknown = Surroundings {
        memory: None,
        ..two()
    };
    assert!(
        !for_any(&Given::default(), &unknown)
            .flags
            .join(" ")
            .contains("Percentage")
    );
}

#[test]
fn what_comes_after_the_class_is_the_programs() {
    let added = flags(
        &["-cp", "-Xmx9m", "A", "-Xmx200m", "-XX:+UseSerialGC"],
        &two(),
    )
    .join(" ");
    assert!(
        added.contains("-Xmx1593m") && !added.contains("NewRatio"),
        "{added}"
    );
}

#[test]
fn one_processor_means_serial() {
    let one = Surroundings {
        processors: 1,
        ..two()
    };
    assert!(flags(&["A"], &one).contains(&"-XX:-ShrinkHeapInSteps".to_owned()));
    assert!(
        flags(&["-XX:ActiveProcessorCount=1", "A"], &two()).contains(&"-XX:NewRatio=3".to_owned())
    );
}

#[test]
fn compressed_pointers_are_kept() {
    let big = |gib: u64| Surroundings {
        budget: Some(Bytes(gib << 30)),
        ..two()
    };
    assert!(flags(&["A"], &big(40)).contains(&format!("-Xmx{}m", 31 << 10)));
    assert!(flags(&["A"], &big(64)).contains(&format!("-Xmx{}m", 68 << 10)));
    assert!(flags(&["-XX:+UseSerialGC", "A"], &big(20)).contains(&format!("-Xmx{}m", 31 << 10)));
    let limited = Surroundings {
        mappings_bounded: true,
        ..two()
    };
    assert!(!flags(&["A"], &limited).join(" ").contains("-Xmx"));
}

#[test]
fn options_in_variables_and_after_values_are_seen() {
    for name in ["JAVA_TOOL_OPTIONS", LAUNCHER, "_JAVA_OPTIONS"] {
        for value in [
            "-Xmx2g",
            "-Dname=\"My App\" -Xmx2g",
            "'-Dname=My App' '-Xmx2g'",
            "-XX:MaxRAMPercentage=50",
        ] {
            let given = given(&[(name, value)], &["-jar", "a.jar"]);
            let added = start(&given, &two()).flags.join(" ");
            assert!(!added.contains("-Xmx"), "{name}={value}: {added}");
        }
    }
    let value = "--add-opens java.base/java.lang=ALL-UNNAMED -Xmx2g";
    let given = given(&[(LAUNCHER, value)], &["-jar", "a.jar"]);
    let added = start(&given, &two()).flags.join(" ");
    assert!(!added.contains("-Xmx"), "{added}");
    let opens = "--add-opens java.base/java.nio=ALL-UNNAMED -Xms2g -jar a.jar";
    let added = flags(&opens.split(' ').collect::<Vec<_>>(), &two()).join(" ");
    assert!(!added.contains("-Xm"), "{added}");
}

#[test]
fn a_flag_whose_name_was_given_is_left_out() {
    for (collector, value) in [
        ("-XX:+UseG1GC", "-XX:GCTimeRatio=9"),
        ("-XX:+UseG1GC", "-XX:-ExplicitGCInvokesConcurrent"),
        ("-XX:+UseG1GC", "-XX:G1MaxNewSizePercent=50"),
        ("-XX:+UseG1GC", "-XX:G1ExpandByPercentOfAvailable=20"),
        ("-XX:+UseSerialGC", "-XX:+ShrinkHeapInSteps"),
        ("-XX:+UseSerialGC", "-XX:MarkSweepDeadRatio=5"),
        ("-XX:+UseSerialGC", "-XX:NewRatio=1"),
        (
            "-XX:+UseParallelGC",
            "-XX:-UseAdaptiveSizePolicyWithSystemGC",
        ),
        ("-XX:+UseZGC", "-XX:ZUncommitDelay=300"),
        ("-XX:+UseZGC", "-XX:+ZProactive"),
        ("-XX:+UseZGC", "-XX:SoftMaxHeapSize=100m"),
        ("-XX:+UseShenandoahGC", "-XX:ShenandoahLearningSteps=5"),
    ] {
        let name = value.trim_start_matches("-XX:");
        let name = name.trim_start_matches(['+', '-']);
        let name = name.split('=').next().unwrap();
        let without = flags(&[collector, "A"], &two()).join(" ");
        assert!(without.contains(name), "{name}: {without}");
        let variable = given(&[("JAVA_TOOL_OPTIONS", value)], &[collector, "A"]);
        let added = start(&variable, &two()).flags.join(" ");
        assert!(!added.contains(name), "{name}: {added}");
    }
    let given = given(&[("JAVA_TOOL_OPTIONS", "-XX:+ShrinkHeapInSteps")], &[]);
    let added = for_any(&given, &two()).flags.join(" ");
    assert!(!added.contains("ShrinkHeapInSteps"), "{added}");
}

/// Reads flags in the order in which the machine reads them, and asserts that experimental ones come only
/// while they are unlocked. Returns whether they are locked after the last flag.
fn locked_at_the_end(flags: &[String]) -> bool {
    let mut open = false;
    for flag in flags {
        match flag.as_str() {
            UNLOCK => open = true,
            LOCK => open = false,
            flag => {
                let special = EXPERIMENTAL.iter().any(|name| flag.contains(name));
                assert!(open || !special, "{flag} is locked: {flags:?}");
            }
        }
    }
    !open
}

#[test]
fn experimental_flags_of_the_users_stay_locked_unless_unlocked() {
    for collector in ["-XX:+UseG1GC", "-XX:+UseShenandoahGC", "-XX:+UseSerialGC"] {
        assert!(
            locked_at_the_end(&flags(&[collector, "A"], &two())),
            "{collector}"
        );
        // On the command line, the user's flag comes after ours.
        assert!(
            locked_at_the_end(&flags(&[collector, UNLOCK, "A"], &two())),
            "{collector}"
        );
    }
    for name in ["JAVA_TOOL_OPTIONS", LAUNCHER] {
        let added = start(&given(&[(name, UNLOCK)], &["A"]), &two())
            .flags
            .join(" ");
        assert!(
            added.contains("G1Max") && !added.contains("Unlock"),
            "{added}"
        );
    }
    let late = start(&given(&[("_JAVA_OPTIONS", UNLOCK)], &["A"]), &two());
    assert!(locked_at_the_end(&late.flags));
}

#[test]
fn a_build_is_given_only_what_it_knows() {
    let nothing = Surroundings {
        known: Known::default(),
        ..two()
    };
    assert_eq!(flags(&["A"], &nothing), ["-Xms32m", "-Xmx1593m"]);
    let eleven = Surroundings {
        version: Some(11),
        known: Known::all().without(&["SoftMaxHeapSize", "ZUncommitDelay"]),
        ..two()
    };
    let added = flags(&["A"], &eleven).join(" ");
    // There a concurrent cycle would not resize the heap.
    assert!(
        added.contains("GCTimeRatio") && !added.contains("ExplicitGC"),
        "{added}"
    );
    // A collector without levers gets no sizes, as without us.
    for collector in ["Z", "ConcMarkSweep", "Epsilon"] {
        let added = flags(&[&format!("-XX:+Use{collector}GC"), "A"], &eleven);
        assert_eq!(added, Vec::<String>::new(), "{collector}");
    }
    let added = flags(&["-XX:+UseShenandoahGC", "A"], &eleven).join(" ");
    assert!(
        added.contains("-XX:ShenandoahSoftMaxHeapSize=") && !added.contains("-XX:SoftMax"),
        "{added}"
    );
}

#[test]
fn a_group_bounds_the_heap_whatever_the_budget_is() {
    for collector in ["Serial", "Parallel", "G1", "Z", "Shenandoah"] {
        let collector = format!("-XX:+Use{collector}GC");
        for (group, most) in [(8192, 7584), (512, 384), (256, 144), (128, 64), (64, 32)] {
            let around = Surroundings {
                memory: Some(Bytes::mib(group)),
                group: Some(Bytes::mib(group)),
                ..two()
            };
            let around = Surroundings {
                budget: Some(Bytes(21 << 30)),
                ..around
            };
            let added = flags(&[&collector, "A"], &around);
            assert!(
                added.contains(&format!("-Xmx{most}m")),
                "{group}: {added:?}"
            );
            let soft = added
                .iter()
                .find_map(|flag| flag.strip_prefix("-XX:SoftMaxHeapSize="));
            let soft = soft.map(|size| size.trim_end_matches('m').parse::<u64>().unwrap());
            assert!(soft.is_none_or(|soft| soft <= most), "{added:?}");
        }
        let tiny = Surroundings {
            group: Some(Bytes::mib(40)),
            ..two()
        };
        let added = flags(&[&collector, "A"], &tiny).join(" ");
        assert!(!added.contains("-Xm"), "{added}");
    }
}

#[test]
fn a_program_alone_can_use_all_of_a_group_that_the_broker_shares_out() {
    let added = |words: &[&str], cliff, beyond: u64| {
        let around = Surroundings {
            budget: Some(Bytes::mib(1440)),
            memory: Some(Bytes::mib(1500)),
            group: Some(Bytes::mib(1500)),
            cliff,
            beyond: Bytes::mib(beyond),
            ..two()
        };
        flags(&[words, &["A"]].concat(), &around)
    };
    for (collector, max) in [
        ("Serial", 4176),
        ("Parallel", 1440),
        ("G1", 1530),
        ("Z", 1620),
        ("Shenandoah", 1800),
    ] {
        let collector = format!("-XX:+Use{collector}GC");
        let with = |more: &[&str], cliff, beyond| {
            let added = added(&[&[collector.as_str()], more].concat(), cliff, beyond);
            let soft = added
                .iter()
                .find_map(|flag| flag.strip_prefix("-XX:SoftMaxHeapSize="));
            let soft = soft.map(|size| size.trim_end_matches('m').parse::<u64>().unwrap());
            assert!(soft.is_none_or(|soft| soft <= 1310), "{added:?}");
            let max = added.iter().find_map(|flag| flag.strip_prefix("-Xmx"));
            max.map(|max| max.trim_end_matches('m').parse::<u64>().unwrap())
        };
        assert_eq!(with(&[], false, 4096), Some(max), "{collector}");
        // Where little can be paged out, the kernel would kill what outgrows it.
        assert_eq!(with(&[], false, 100), Some(max.min(1410)), "{collector}");
        assert_eq!(with(&[], false, 0), Some(1310), "{collector}");
        assert_eq!(with(&[], true, 0), Some(1150), "{collector}");
        for unsteered in UNSTEERED {
            assert_eq!(with(&[unsteered], false, 4096), Some(1310), "{collector}");
        }
    }
}

/// The flags that an option sets. Each flag has one name, however the option is spelled.
fn sets(option: &str) -> Vec<&str> {
    let begins = |short: &[&str]| short.iter().any(|short| option.starts_with(short));
    if begins(&["-Xmx", "-mx"]) {
        return vec!["MaxHeapSize"];
    }
    if begins(&["-Xms", "-ms"]) {
        return vec!["InitialHeapSize", "MinHeapSize"];
    }
    if begins(&["-Xmn"]) {
        return vec!["NewSize", "MaxNewSize"];
    }
    let name = option.trim_start_matches("-XX:");
    let name = name.trim_start_matches(['+', '-']);
    name.split('=').take(1).collect()
}

const POOL: [&str; 24] = [
    "-Xmx2g",
    "-mx1g",
    "-Xms64m",
    "-ms64m",
    "-Xmn8m",
    "-XX:MaxHeapSize=1g",
    "-XX:InitialHeapSize=8m",
    "-XX:MinHeapSize=8m",
    "-XX:NewSize=8m",
    "-XX:NewRatio=4",
    "-XX:SoftMaxHeapSize=1g",
    "-XX:MaxRAMPercentage=10",
    "-XX:InitialRAMPercentage=1",
    "-XX:GCTimeRatio=12",
    "-XX:-ExplicitGCInvokesConcurrent",
    "-XX:G1MaxNewSizePercent=60",
    "-XX:-UnlockExperimentalVMOptions",
    "-XX:ZUncommitDelay=300",
    "-XX:+ShrinkHeapInSteps",
    "-XX:ShenandoahUncommitDelay=1",
    "-XX:+UseSerialGC",
    "-XX:+UseG1GC",
    "-XX:+UseZGC",
    "-XX:+UseShenandoahGC",
];

proptest! {
    #[test]
    fn whatever_is_given_anywhere_is_not_overridden(
        chosen in proptest::collection::vec((0..POOL.len(), 0..4usize), 0..6)
    ) {
        let mut places = vec![String::new(); 4];
        for &(option, place) in &chosen {
            places[place].push_str(POOL[option]);
            // In a variable, a word that is no option does not end the options; nor does the value of an
            // option.
            places[place].push_str(["\n", " ", " --add-opens a/b=c ", " '-Da=b c' "][place]);
        }
        let variables = [
            ("JAVA_TOOL_OPTIONS", places[3].as_str()),
            (LAUNCHER, places[2].as_str()),
            ("_JAVA_OPTIONS", places[1].as_str()),
        ];
        let arguments: Vec<&str> = places[0].split('\n').filter(|word| !word.is_empty()).collect();
        let all = given(&variables, &arguments);
        for added in [start(&all, &two()), for_any(&all, &two())] {
            for ours in &added.flags {
                for &(option, _) in &chosen {
                    let theirs = POOL[option];
                    let both = sets(ours).iter().any(|name| sets(theirs).contains(name));
                    let lock = [UNLOCK, LOCK].contains(&ours.as_str());
                    prop_assert!(!both || ours == theirs || lock, "{ours} beside {theirs}");
                }
            }
        }
    }
}

#[test]
fn where_nothing_can_be_paged_out_room_is_left_for_native_memory() {
    let in_group = |mib: u64, cliff: bool| {
        let around = Surroundings {
            group: Some(Bytes::mib(mib)),
            cliff,
            ..two()
        };
        let added = flags(&["-XX:+UseG1GC", "A"], &around);
        let max = added.iter().find_map(|flag| flag.strip_prefix("-Xmx"));
        let mib = max.and_then(|max| max.strip_suffix('m'));
        mib.and_then(|mib| mib.parse::<u64>().ok())
            .expect("is given")
    };
    assert_eq!((in_group(512, false), in_group(512, true)), (384, 256));
    assert_eq!(in_group(1024, true), 1024 - 96 - 64 - 160);
    // Never less than the size that Java chooses by itself.
    assert_eq!((in_group(240, true), in_group(300, true)), (120, 126));
}

#[test]
fn a_small_heap_of_g1_is_resized_while_the_program_stands() {
    let concurrent = "-XX:+ExplicitGCInvokesConcurrent".to_owned();
    let g1 = |words: &[&str], around: &Surroundings| {
        let all: Vec<&str> = ["-XX:+UseG1GC"].iter().chain(words).copied().collect();
        flags(&all, around).contains(&concurrent)
    };
    assert!(g1(&["A"], &two()) && g1(&["-Xmx2g", "A"], &two()));
    assert!(!g1(&["-Xmx500m", "A"], &two()));
    let small = Surroundings {
        budget: Some(Bytes::mib(800)),
        ..two()
    };
    assert!(!g1(&["A"], &small));
}

#[test]
fn a_machine_that_sizes_itself_until_a_shortage_is_given_only_levers() {
    let alone = Surroundings {
        budget: None,
        own_rule: true,
        ..two()
    };
    assert_eq!(
        flags(&["-XX:+UseSerialGC", "A"], &alone),
        ["-Xms32m", "-XX:-ShrinkHeapInSteps"]
    );
    assert_eq!(
        flags(&["-XX:+UseParallelGC", "A"], &alone),
        ["-Xms32m", "-XX:+UseAdaptiveSizePolicyWithSystemGC"]
    );
    assert_eq!(
        flags(&["-XX:+UseZGC", "A"], &alone),
        ["-XX:ZUncommitDelay=1"]
    );
    assert!(flags(&["-XX:+UseShenandoahGC", "A"], &alone).is_empty());
    let g1 = flags(&["-XX:+UseG1GC", "A"], &alone);
    assert!(g1.contains(&"-XX:GCTimeRatio=1".to_owned()), "{g1:?}");
    assert!(!g1.iter().any(|flag| flag.starts_with("-Xm")), "{g1:?}");
    let given = ["-XX:+ShrinkHeapInSteps", "-Xms64m", "-XX:+UseSerialGC", "A"];
    assert!(flags(&given, &alone).is_empty(), "the user's flags win");
    for first in ["-Xmx20m", "-XX:NewSize=40m"] {
        let added = flags(&[first, "-XX:+UseSerialGC", "A"], &alone);
        assert_eq!(
            added,
            ["-XX:-ShrinkHeapInSteps"],
            "32 MiB do not fit {first}"
        );
    }
}
