//! Reads bytes as looks at processes, round by round, and chooses what to hold of them: never more than the
//! bounds, never a page of a file that no process has mapped, and refaults only of what was seen before.

#![no_main]

use plimsoll_unit::{Nanos, SECOND};
use plimsoll_kernel::smaps::FileKey;
use plimsoll_pin::Evidence;
use plimsoll_pin::refaults::{PageStates, Cached, Tracked};
use plimsoll_pin::mapped_pages::View;
use plimsoll_pin::pages::{PageSet, Run, runs_of};
use plimsoll_pin::rank::{Bounds, Candidate, choose};
use std::collections::BTreeMap;


/// The bytes of an input, followed by zeros without end.
struct Input<'a>(std::slice::Iter<'a, u8>);

impl Input<'_> {
    fn byte(&mut self) -> u64 {
        u64::from(self.0.next().copied().unwrap_or(0))
    }
}

/// The held pages, and the state of all others in the page cache.
#[derive(Default)]
struct World {
    held: BTreeMap<FileKey, PageSet>,
    cached: Option<Cached>,
}

impl PageStates for World {
    fn held(&self, file: FileKey, block: u64) -> u16 {
        self.held.get(&file).map_or(0, |set| set.of_block(block))
    }

    fn cached(&mut self, _: FileKey, _: &Tracked, _: &Run) -> Cached {
        self.cached.unwrap_or(Cached::Unknown)
    }
}

fn key(inode: u64) -> FileKey {
    FileKey { inode, ..FileKey::default() }
}

fn view(input: &mut Input<'_>) -> View {
    let (who, first) = (input.byte(), input.byte());
    let run = first..first + input.byte() % 64;
    let mask = (input.byte() << 8 | input.byte()) as u16;
    let present: Vec<Run> = runs_of(first / 16, mask).collect();
    let outside = PageSet::of(present.clone()).without(&PageSet::of(vec![run.clone()]));
    let present = PageSet::of(present).without(&outside);
    let seen = run.end.saturating_sub(input.byte() % 8).max(run.start);
    let told = input.byte();
    let frames = (0..present.pages() * (told & 1)).map(|n| (told + n) as u16).collect();
    View {
        pid: (who & 3) as i32 + 1,
        key: key(who >> 2 & 3),
        addresses: 0x1000 * first..0x1000 * (first + 64),
        run,
        seen,
        present: present.runs().to_vec(),
        frames,
        path: ["/a", "/b", "/a (deleted)", ""][(who >> 4 & 3) as usize].into(),
    }
}

fn candidates(evidence: &Evidence, held: &BTreeMap<FileKey, PageSet>) -> Vec<Candidate> {
    let mut all = Vec::new();
    for (key, file) in evidence.files() {
        for (number, block) in &file.blocks {
            let held = held.get(key).map_or(0, |set| set.of_block(*number));
            all.push(Candidate {
                file: *key,
                block: *number,
                pages: (evidence.worth(block) | held) & file.mapped().of_block(*number),
                held,
                value: evidence.rate_of(block) * evidence.scale(),
                domain: (key.inode % 2) as usize,
                user: (key.inode % 3) as usize,
            });
        }
    }
    all
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut input = Input(bytes.iter());
    let mut evidence = Evidence::new(Nanos::seconds(10), Nanos::ZERO);
    let mut world = World::default();
    let mut now = 0;
    for _ in 0..16 {
        now += input.byte() * SECOND / 16;
        evidence.begin_round();
        let how = input.byte();
        for _ in 0..how % 4 {
            evidence.saw(&view(&mut input));
        }
        if how & 16 != 0 {
            evidence.missed((how & 3) as i32 + 1);
        }
        world.cached = match how & 0xa0 {
            0xa0 => Some(Cached::NotAsked),
            0x20 => Some(Cached::Pages(how & 3)),
            _ => None,
        };
        let round = evidence.end(Nanos(now), input.byte(), &mut world);
        assert!(round.refaults <= round.present);
        assert!(evidence.refaults_per_second() >= 0.0 && evidence.scale().is_finite());
        let all = candidates(&evidence, &world.held);
        let bounds = Bounds {
            pages: input.byte(),
            runs: (input.byte() % 16) as usize,
            domains: vec![input.byte(), input.byte()],
        };
        let chosen = choose(&all, &bounds);
        let pages = |domain: u64| {
            let of = chosen.iter().filter(|(key, _)| key.inode % 2 == domain);
            of.map(|(_, set)| set.pages()).sum::<u64>()
        };
        assert!(pages(0) + pages(1) <= bounds.pages);
        assert!(pages(0) <= bounds.domains[0] && pages(1) <= bounds.domains[1]);
        assert!(chosen.values().map(|set| set.runs().len()).sum::<usize>() <= bounds.runs);
        assert!(chosen.keys().all(|key| evidence.file(key).is_some_and(Tracked::is_mapped)));
        if how & 64 != 0 {
            world.held = chosen;
        }
    }
});
