use super::*;
use crate::pages::{PageSet, runs_of};
use plimsoll_unit::Nanos;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::ops::Range;

const FILE: FileKey = FileKey {
    major: 8,
    minor: 1,
    inode: 7,
};

/// Nothing held; nothing cached but what is said.
#[derive(Default)]
struct World {
    held: PageSet,
    cached: PageSet,
    asked: u32,
    /// Where the page cache shows nothing.
    silent: Option<Cached>,
}

impl PageStates for World {
    fn held(&self, _: FileKey, block: u64) -> u16 {
        self.held.of_block(block)
    }

    fn cached(&mut self, _: FileKey, _: &Tracked, run: &Run) -> Cached {
        self.asked += 1;
        let asked = PageSet::of(vec![run.clone()]);
        let there = asked.pages() - asked.without(&self.cached).pages();
        self.silent.unwrap_or(Cached::Pages(there))
    }
}

fn view(pid: i32, key: FileKey, run: Run, present: &[Run]) -> View {
    View {
        pid,
        key,
        addresses: 0x10000..0x10000 + (run.end - run.start) * 4096,
        seen: run.end,
        run,
        present: present.to_vec(),
        frames: Vec::new(),
        path: "/lib/libx.so".into(),
    }
}

/// One round a second.
struct Story {
    evidence: Evidence,
    now: Nanos,
    world: World,
}

impl Story {
    fn new() -> Story {
        Story {
            evidence: Evidence::new(Nanos::seconds(10), Nanos::ZERO),
            now: Nanos::ZERO,
            world: World::default(),
        }
    }

    fn round(&mut self, views: &[View]) -> Round {
        self.now += Nanos::seconds(1);
        self.evidence.begin_round();
        for view in views {
            self.evidence.saw(view);
        }
        self.evidence.end(self.now, 0, &mut self.world)
    }

    fn simple(&mut self, present: &[Run]) -> Round {
        self.round(&[view(1, FILE, 0..100, present)])
    }

    fn refaults(&self, key: FileKey) -> f32 {
        let blocks = self.evidence.file(&key).map(|file| file.blocks.values());
        blocks
            .into_iter()
            .flatten()
            .map(|block| block.refaults)
            .sum()
    }
}

#[test]
fn a_page_that_goes_and_comes_back_is_a_refault() {
    let mut story = Story::new();
    assert_eq!(story.simple(&[0..20]).lost, 0);
    let round = story.simple(&[0..10]);
    assert_eq!((round.lost, round.refaults), (10, 0));
    let round = story.simple(&[0..15]);
    assert_eq!((round.lost, round.refaults), (0, 5));
    // Once lost and back it counts once.
    assert_eq!(story.simple(&[0..15]).refaults, 0);
    assert!(story.evidence.refaults_per_second() > 1.0);
}

#[test]
fn very_many_mappings_of_many_files_are_bounded() {
    let mut evidence = Evidence::new(Nanos::seconds(1), Nanos::ZERO);
    let key = |inode| FileKey { inode, ..FILE };
    let mut views: Vec<View> = (0..16)
        .map(|inode| view(1, key(inode), 0..1, &[]))
        .collect();
    evidence.begin_round();
    for number in 0..MAX_ALL_MAPPINGS {
        let view = &mut views[number % 16];
        view.addresses.start += 4096;
        evidence.saw(view);
    }
    assert!(!evidence.is_full());
    evidence.saw(&view(1, key(16), 0..1, &[]));
    assert!(evidence.is_full() && evidence.file(&key(16)).is_none());
    // As many in the next round.
    evidence.begin_round();
    evidence.saw(&view(1, key(16), 0..1, &[]));
    assert!(evidence.file(&key(16)).is_some());
}

#[test]
fn a_page_in_another_frame_went_and_came_back() {
    let mut story = Story::new();
    let framed = |first: u16| View {
        frames: (first..first + 20).collect(),
        ..view(1, FILE, 0..100, std::slice::from_ref(&(10..30)))
    };
    assert_eq!(story.round(&[framed(100)]).refaults, 0);
    assert_eq!(story.round(&[framed(100)]).refaults, 0);
    assert_eq!(story.round(&[framed(500)]).refaults, 20);
    let block = story.evidence.file(&FILE).unwrap().blocks[&0];
    assert_eq!(block.refaulted(), 0b1111_1100_0000_0000);
    // A page whose frame is hidden for once shows nothing.
    let mut hidden = framed(500);
    hidden.frames[3] = 0;
    assert_eq!(story.round(&[hidden]).refaults, 0);
    assert_eq!(story.round(&[framed(500)]).refaults, 0);
    // All majors are accounted for by what was seen; the rest are faults on swap.
    story.now += Nanos::seconds(1);
    story.evidence.begin_round();
    story.evidence.saw(&framed(900));
    let round = story.evidence.end(story.now, 1000, &mut story.world);
    assert_eq!((round.refaults, story.evidence.scale()), (20, 1.0));
    assert!(story.evidence.waited());
    // The kernel moves pages in memory, for which no program waits.
    for step in 0..100u16 {
        story.round(&[framed(2000 + 50 * step)]);
    }
    assert!(story.refaults(FILE) > 20.0 && !story.evidence.waited());
    // The kernel may move held pages.
    story.world.held = PageSet::of(vec![0..100]);
    assert_eq!(story.round(&[framed(1300)]).refaults, 0);
}

#[test]
fn a_page_that_was_lost_once_is_no_reason_to_hold_it() {
    let mut story = Story::new();
    let framed = |first: u16| View {
        frames: (first..first + 20).collect(),
        ..view(1, FILE, 0..100, std::slice::from_ref(&(10..30)))
    };
    let mut round = |first| (story.round(&[framed(first)]).refaults, story.refaults(FILE));
    round(100);
    // Memory was short once.
    assert_eq!(round(200), (20, 0.0));
    for _ in 0..30 {
        assert_eq!(round(200), (0, 0.0));
    }
    // It was long ago when it is short again.
    assert_eq!(round(300), (20, 0.0));
    // Soon again: from now on the pages count.
    assert_eq!(round(400), (20, 20.0));
    assert!(round(500).1 > 30.0);
}

#[test]
fn a_page_that_was_away_for_a_round_and_is_in_another_frame_came_back() {
    let framed = |first: u16| View {
        frames: (first..first + 20).collect(),
        ..view(1, FILE, 0..100, std::slice::from_ref(&(10..30)))
    };
    let mut story = Story::new();
    // When it was looked at, it was in the cache still.
    story.world.cached = PageSet::of(vec![0..100]);
    story.round(&[framed(100)]);
    for _ in 0..2 {
        assert_eq!(story.simple(&[]).lost, 0);
    }
    assert_eq!(story.round(&[framed(500)]).refaults, 20);
    // Not if it was unmapped meanwhile.
    story.simple(&[]);
    story.round(&[]);
    assert_eq!(story.round(&[framed(900)]).refaults, 0);
}

#[test]
fn of_a_run_that_is_cached_in_part_the_rest_was_evicted() {
    for cached in [0..4, 12..20, 0..12] {
        let mut story = Story::new();
        let rest = 20 - (cached.end - cached.start);
        story.world.cached = PageSet::of(vec![cached]);
        story.simple(&[0..20]);
        assert_eq!(story.simple(&[]).lost, rest);
        assert_eq!(story.simple(&[0..20]).refaults, rest);
    }
    // Every second page of many is cached: the questions have an end.
    let mut story = Story::new();
    story.world.cached = PageSet::of((0..8192).step_by(2).map(|page| page..page + 1).collect());
    let mapped = |present: &[Run]| view(1, FILE, 0..8192, present);
    story.round(&[mapped(&[0..8192])]);
    assert!(story.round(&[mapped(&[])]).lost > 0);
    let asked = u64::from(story.world.asked);
    assert!(asked <= 1 + MAX_HALVING / 128, "{asked}");
}

#[test]
fn what_was_not_asked_about_is_not_lost_and_what_can_not_be_known_is() {
    for (silent, lost) in [(Cached::NotAsked, 0), (Cached::Unknown, 20)] {
        let mut story = Story::new();
        story.simple(&[0..20]);
        story.world.silent = Some(silent);
        assert_eq!(story.simple(&[]).lost, lost);
        assert_eq!(story.simple(&[0..20]).refaults, lost);
        // In a later round it is asked about.
        story.world.silent = None;
        assert_eq!(story.simple(&[]).lost, 20);
    }
}

#[test]
fn what_is_known_is_followed_when_there_is_no_room_for_more() {
    let mut file = Tracked::default();
    let mut world = World::default();
    let mut round = |views: &[(View, usize)]| {
        let mut round = Round::default();
        file.begin_round();
        let whole: Vec<bool> = views
            .iter()
            .map(|(view, room)| file.saw(view, *room))
            .collect();
        let mut halving = MAX_HALVING;
        let keep = (1.0, 1.0);
        file.end(FILE, keep, Count::All, &mut world, &mut halving, &mut round);
        (whole, round)
    };
    let framed = |present: Run, frames: &[Range<u16>]| View {
        frames: frames.iter().cloned().flatten().collect(),
        ..view(1, FILE, 0..100, std::slice::from_ref(&present))
    };
    let (whole, _) = round(&[(framed(16..32, &[100..116]), 1)]);
    assert_eq!(whole, [true]);
    // A block before the known one, and one behind it.
    let all = framed(0..48, &[500..516, 100..116, 600..616]);
    let (whole, round) = round(&[(all, 0)]);
    assert_eq!(whole, [false]);
    assert_eq!((round.lost, round.refaults, round.present), (0, 0, 16));
}

#[test]
fn a_page_that_comes_back_in_its_frame_was_never_read_again() {
    let mut story = Story::new();
    let all = View {
        frames: (100..120).collect(),
        ..view(1, FILE, 0..100, std::slice::from_ref(&(10..30)))
    };
    let none = view(1, FILE, 0..100, &[]);
    story.round(std::slice::from_ref(&all));
    // The page cache does not say, as on an overlay.
    assert_eq!(story.round(std::slice::from_ref(&none)).lost, 20);
    assert_eq!(story.round(std::slice::from_ref(&all)).refaults, 0);
    // Read again, and seen in two processes.
    story.round(std::slice::from_ref(&none));
    let moved = |pid| View {
        pid,
        frames: (500..520).collect(),
        ..all.clone()
    };
    assert_eq!(story.round(&[moved(1), moved(2)]).refaults, 20);
}

#[test]
fn a_mapping_that_is_seen_in_part_loses_pages_there_alone() {
    let mut story = Story::new();
    let part = |present: &[Run], seen| View {
        seen,
        ..view(1, FILE, 0..100, present)
    };
    story.round(&[part(&[0..20, 40..60], 60)]);
    // Fewer present runs lie at the front, so the look goes less far.
    assert_eq!(story.round(&[part(&[0..10], 30)]).lost, 10);
    // Unseen pages are neither lost nor new.
    let round = story.round(&[part(&[0..10, 40..60], 80)]);
    assert_eq!((round.lost, round.refaults), (0, 0));
    assert_eq!(story.round(&[part(&[0..10], 80)]).lost, 20);
}

#[test]
fn a_process_that_cannot_be_looked_at_keeps_what_it_had() {
    let mut story = Story::new();
    story.simple(&[0..20]);
    assert_eq!(story.simple(&[0..10]).lost, 10);
    for _ in 0..3 {
        story.now += Nanos::seconds(1);
        story.evidence.begin_round();
        story.evidence.missed(1);
        story.evidence.missed(2);
        let round = story.evidence.end(story.now, 0, &mut story.world);
        assert_eq!((round.lost, round.refaults, round.present), (0, 0, 10));
        let file = story.evidence.file(&FILE).unwrap();
        assert!(file.is_mapped() && file.seen_at.is_some());
    }
    assert_eq!(story.simple(&[0..20]).refaults, 10);
    // It exited meanwhile.
    assert_eq!(story.round(&[]).lost, 0);
    assert!(!story.evidence.file(&FILE).unwrap().is_mapped());
}

#[test]
fn a_file_of_another_container_at_the_same_path_inherits_nothing() {
    let other = FileKey { inode: 8, ..FILE };
    let mut story = Story::new();
    for _ in 0..5 {
        story.simple(&[0..16]);
        story.simple(&[]);
    }
    let both = [
        view(1, FILE, 0..100, &[0..16]),
        view(2, other, 0..100, &[0..16]),
    ];
    story.round(&both);
    assert!(story.refaults(FILE) > 16.0);
    assert_eq!(story.refaults(other), 0.0);
}

#[test]
fn what_is_new_is_no_refault() {
    let mut story = Story::new();
    for end in [10, 20, 30] {
        let round = story.simple(std::slice::from_ref(&(0..end)));
        assert_eq!((round.lost, round.refaults), (0, 0));
    }
}

#[test]
fn an_exit_and_an_unmapping_lose_nothing() {
    let mut story = Story::new();
    let both = [view(1, FILE, 0..100, &[0..50]), view(2, FILE, 0..100, &[])];
    story.round(&both);
    // Process 1 exits. Process 2 has the file mapped, but never had the pages.
    assert_eq!(story.round(&both[1..]).lost, 0);
    // It uses them now for the first time.
    let round = story.round(&[view(2, FILE, 0..100, &[0..50])]);
    assert_eq!(round.refaults, 0);
    // It maps less than before.
    let round = story.round(&[view(2, FILE, 0..20, &[0..20])]);
    assert_eq!(round.lost, 0);
}

#[test]
fn a_page_that_another_process_still_has_is_not_lost() {
    let mut story = Story::new();
    let full = |pid| view(pid, FILE, 0..100, &[0..50]);
    story.round(&[full(1), full(2)]);
    let round = story.round(&[full(1), view(2, FILE, 0..100, &[])]);
    assert_eq!(round.lost, 0);
}

#[test]
fn what_is_still_cached_was_not_evicted() {
    let mut story = Story::new();
    story.world.cached = PageSet::of(vec![0..100]);
    story.simple(&[0..20]);
    assert_eq!(story.simple(&[]).lost, 0);
    assert_eq!(story.simple(&[0..20]).refaults, 0);
}

#[test]
fn what_is_held_keeps_its_evidence_and_gains_none() {
    let mut story = Story::new();
    for _ in 0..5 {
        story.simple(&[0..16]);
        story.simple(&[]);
    }
    let before = story.refaults(FILE);
    story.world.held = PageSet::of(vec![0..16]);
    for _ in 0..10 {
        story.simple(&[]);
        assert_eq!(story.simple(&[0..16]).refaults, 0);
    }
    let after = story.refaults(FILE);
    assert!(after > before / 2.0 && after < before, "{before} {after}");
    story.world.held = PageSet::default();
    for _ in 0..30 {
        story.simple(&[0..16]);
    }
    assert!(story.refaults(FILE) < after / 5.0);
}

#[test]
fn a_new_file_at_the_same_path_inherits() {
    let new = FileKey { inode: 8, ..FILE };
    let mut story = Story::new();
    for _ in 0..5 {
        story.simple(&[0..16, 32..48]);
        story.simple(&[]);
    }
    let old = story.refaults(FILE);
    story.round(&[view(2, new, 0..100, &[0..16])]);
    // Refaults of the pages that it uses itself, and no others.
    let heir = story.refaults(new);
    assert!(heir > old / 3.0 && heir < old * 0.7, "{old} {heir}");
    assert!(!story.evidence.file(&FILE).is_some_and(Tracked::is_mapped));
    for _ in 0..40 {
        story.round(&[view(2, new, 0..100, &[0..16])]);
    }
    assert!(story.evidence.file(&FILE).is_none(), "it is forgotten");
}

/// A file whose pages 10 to 30 were read again several times, as frames show, and is not mapped any more.
fn with_frames(story: &mut Story) {
    for step in 0..5u16 {
        story.round(&[framed(1, FILE, 100 * (step + 1))]);
    }
    story.round(&[]);
}

/// Pages 10 to 30, in frames from the first one on.
fn framed(pid: i32, key: FileKey, first: u16) -> View {
    View {
        frames: (first..first + 20).collect(),
        ..view(pid, key, 0..100, std::slice::from_ref(&(10..30)))
    }
}

#[test]
fn of_a_new_file_what_is_in_use_is_worth_holding_until_it_is_known_better() {
    let new = FileKey { inode: 8, ..FILE };
    let mut story = Story::new();
    with_frames(&mut story);
    let worth = |story: &Story| {
        let block = story.evidence.file(&new).unwrap().blocks[&0];
        (block.is_inherited(), story.evidence.worth(&block))
    };
    story.round(&[framed(2, new, 700)]);
    // Frames show that nothing of it came back yet.
    assert_eq!(worth(&story), (true, 0b1111_1100_0000_0000));
    // Two of its pages are lost again and again, which counts from the second time on.
    let mut part = framed(2, new, 700);
    part.frames[0..2].copy_from_slice(&[900, 901]);
    story.round(&[part.clone()]);
    assert_eq!(worth(&story), (true, 0b1111_1100_0000_0000));
    part.frames[0..2].copy_from_slice(&[910, 911]);
    story.round(&[part]);
    assert_eq!(worth(&story), (false, 0b0000_1100_0000_0000));
}

#[test]
fn of_a_new_file_what_is_used_later_inherits_too_for_a_while() {
    let new = FileKey { inode: 8, ..FILE };
    let mut story = Story::new();
    with_frames(&mut story);
    let old = story.refaults(FILE);
    story.round(&[view(2, new, 0..100, &[])]);
    assert_eq!(story.refaults(new), 0.0);
    story.round(&[framed(2, new, 700)]);
    let heir = story.refaults(new);
    assert!(heir > old / 2.0 && heir < old, "{old} {heir}");

    let mut story = Story::new();
    with_frames(&mut story);
    for _ in 0..60 {
        story.round(&[view(2, new, 0..100, &[])]);
    }
    story.round(&[framed(2, new, 700)]);
    assert_eq!(story.refaults(new), 0.0);
}

#[test]
fn what_is_not_used_any_more_is_forgotten() {
    let mut story = Story::new();
    story.simple(&[0..100]);
    for _ in 0..120 {
        story.simple(std::slice::from_ref(&(0..16)));
    }
    let file = story.evidence.file(&FILE).unwrap();
    let lost = file.blocks.values().filter(|block| block.wanted() == 0);
    // Lost pages are remembered as long as they are mapped: they may still come back.
    assert_eq!(lost.count(), 6);
    assert_eq!(file.pids().into_iter().collect::<Vec<_>>(), [1]);
}

#[test]
fn major_faults_set_the_scale() {
    let mut story = Story::new();
    assert_eq!(story.evidence.scale(), 1.0);
    for step in 0..10u64 {
        story.now += Nanos::seconds(1);
        story.evidence.begin_round();
        let present = if step % 2 == 0 { 0..16 } else { 0..0 };
        story.evidence.saw(&view(1, FILE, 0..100, &[present]));
        story.evidence.end(story.now, 80, &mut story.world);
    }
    // 64 pages in 10 rounds were seen to come back, of 800 faults.
    let scale = story.evidence.scale();
    assert!(scale > 8.0 && scale < 20.0, "{scale}");
    assert!((story.evidence.majors_per_second() - 80.0).abs() < 1.0);
}

proptest! {
    /// Evidence never covers more than the pages that were seen.
    #[test]
    fn refaults_are_never_more_than_what_came_back(
        rounds in proptest::collection::vec(
            proptest::collection::vec((1i32..4, 0u64..60, 0u64..60, any::<u32>()), 0..4), 1..30),
    ) {
        let mut story = Story::new();
        let mut ever = BTreeSet::new();
        for views in rounds {
            let views: Vec<View> = views
                .into_iter()
                .map(|(pid, start, length, mask)| {
                    let run = start..start + length;
                    let pages = PageSet::of(runs_of(start / 16, mask as u16).collect());
                    let outside = pages.without(&PageSet::of(vec![run.clone()]));
                    view(pid, FILE, run, pages.without(&outside).runs())
                })
                .collect();
            let present: BTreeSet<u64> =
                views.iter().flat_map(|v| v.present.iter().cloned().flatten()).collect();
            let known = present.intersection(&ever).count() as u64;
            let round = story.round(&views);
            prop_assert!(round.refaults <= known);
            prop_assert_eq!(round.present, present.len() as u64);
            ever.extend(present);
        }
    }
}
