use super::*;
use plimsoll_map::Look;
use plimsoll_unit::MIB;

fn areas(areas: &[(Kind, u64, u64)]) -> Vec<AreaOf> {
    let area = |&(kind, resident, swapped): &(Kind, u64, u64)| AreaOf {
        kind,
        states: States {
            resident: resident * MIB,
            swapped: swapped * MIB,
            ..States::default()
        },
        estimated: Default::default(),
    };
    areas.iter().map(area).collect()
}

fn jvms(count: u64) -> Vec<AreaOf> {
    let lost = count.saturating_sub(6) * 100;
    areas(&[
        (Kind::Eden, 80 * count, 0),
        (Kind::Old, 160 * count - lost * 3 / 4, lost * 3 / 4),
        (Kind::Metaspace, 60 * count - lost / 4, lost / 4),
        (Kind::CodeCache, 40 * count, 0),
        (Kind::Stacks, count, 0),
        (Kind::Libraries, 20 * count, 0),
        (Kind::Malloc, 30 * count, 0),
    ])
}

fn breakdown() -> Breakdown {
    let bar = |count: u64| (format!("{count}\npinned"), jvms(count));
    Breakdown {
        title: "Memory of <JVMs> by area".into(),
        note: "256 MiB heap each".into(),
        across: "JVMs".into(),
        limit: 4000 * MIB,
        bars: [4, 6, 8, 10, 12].map(bar).into(),
    }
}

#[test]
fn what_is_in_swap_is_hatched_and_small_areas_lie_together() {
    let svg = breakdown().svg();
    for words in [
        "old", "eden", "in swap", "limit", "MiB", "JVMs", "12", "pinned",
    ] {
        assert!(svg.contains(&format!(">{words}<")), "{words}");
    }
    assert!(!svg.contains(">stacks<") && svg.contains(">other<"));
    assert!(svg.contains("&lt;JVMs&gt;"));
    if let Ok(path) = std::env::var("PLIMSOLL_SHOW") {
        std::fs::write(path, svg).expect("written");
    }
}

#[test]
fn nothing_and_too_much_are_pictures_too() {
    assert!(Breakdown::default().svg().starts_with("<svg"));
    let huge = areas(&[(Kind::Old, u64::MAX / MIB, u64::MAX / MIB)]);
    let mut breakdown = breakdown();
    breakdown.bars.push(("∞".into(), huge));
    assert!(breakdown.svg().len() < 1 << 20);
}

#[test]
fn what_programs_share_of_files_counts_once() {
    let process = |libraries: u64, shared: u64| {
        let mut process = Look {
            areas: areas(&[(Kind::Old, 100, 10), (Kind::Libraries, libraries, 0)]),
            ..Look::default()
        };
        process.areas[0].states.shared = Some(50 * MIB);
        process.areas[0].states.repeated = 20 * MIB;
        process.areas[1].states.shared = Some(shared * MIB);
        process
    };
    let report = Report::of(0, vec![process(30, 25), process(32, 30)], Vec::new());
    let sums = once(&report);
    let found: Vec<_> = sums
        .iter()
        .map(|area| {
            (
                area.kind,
                area.states.resident / MIB,
                area.states.swapped / MIB,
            )
        })
        .collect();
    assert_eq!(
        found,
        [(Kind::Old, 160, 20), (Kind::Libraries, 5 + 2 + 30, 0)]
    );
}
