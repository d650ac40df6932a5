//! Reads bytes as mappings, labels, and what a kernel tells of pages: runs in any order, too long, twice,
//! or of nothing that was asked for. The sums are those of the mappings all the same.

#![no_main]

use plimsoll_unit::PAGE;
use plimsoll_kernel::smaps::{Addresses, Area, FileKey};
use plimsoll_map::attribute::attribute;
use plimsoll_map::count::count;
use plimsoll_map::tally::Pages;
use plimsoll_map::parts::cut;
use plimsoll_map::labels::Label;
use plimsoll_map::{Kind, States};


/// The bytes of an input, followed by zeros without end.
struct Input<'a>(std::slice::Iter<'a, u8>);

impl Input<'_> {
    fn byte(&mut self) -> u64 {
        u64::from(self.0.next().copied().unwrap_or(0))
    }

    /// Bytes of a few pages, rarely of very many.
    fn pages(&mut self) -> u64 {
        match self.byte() {
            255 => self.byte() << 36,
            pages => pages * PAGE,
        }
    }
}

/// Runs that are told of every range, from where it begins.
struct Told(Vec<(u64, u64, u64)>, bool);

impl Told {
    fn tell(&self, range: &Addresses, mask: u64, tell: &mut dyn FnMut(Addresses, u64) -> bool) -> bool {
        for (skip, length, categories) in &self.0 {
            let start = range.start.saturating_add(*skip);
            if !tell(start..start.saturating_add(*length), categories & mask) {
                break;
            }
        }
        self.1
    }
}

impl Pages for Told {
    fn each(&self, range: &Addresses, tell: &mut dyn FnMut(Addresses, u64) -> bool) -> bool {
        self.tell(range, u64::MAX, tell)
    }

    fn each_word(&self, range: &Addresses, tell: &mut dyn FnMut(Addresses, u64) -> bool) -> bool {
        self.tell(range, !(1 << 5), tell)
    }

    fn hides_zeros(&self) -> bool {
        self.0.len() % 2 == 1
    }
}

fn mappings(input: &mut Input<'_>) -> Vec<Area> {
    let mut at = PAGE;
    let mut all = Vec::new();
    for _ in 0..input.byte() % 8 {
        at += input.byte() % 4 * PAGE;
        // Pages are told anew for each 128 MiB of a file that is mapped twice, which a kernel cannot do
        // for more than there is memory. With 16 TiB such an input took 15 s.
        let size = input.pages().clamp(PAGE, 1 << 38);
        let rss = input.pages().min(size);
        let flags = input.byte();
        all.push(Area {
            addresses: at..at + size,
            shared_mapping: flags & 1 != 0,
            writable: flags & 2 != 0,
            offset: input.pages(),
            file: FileKey { inode: flags >> 2 & 3, ..FileKey::default() },
            rss,
            anonymous: input.pages(),
            referenced: input.pages(),
            private: input.pages().min(rss),
            swap: input.pages().min(size - rss),
            ..Area::default()
        });
        at += size;
    }
    all
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut input = Input(bytes.iter());
    let mappings = mappings(&mut input);
    let label = |input: &mut Input<'_>| {
        let start = PAGE + input.pages();
        Label {
            addresses: start..start + input.pages() + input.byte(),
            kind: Kind::ALL[input.byte() as usize % Kind::ALL.len()],
        }
    };
    let labels: Vec<Label> = (0..input.byte() % 16).map(|_| label(&mut input)).collect();
    let run = |input: &mut Input<'_>| {
        let mut bytes = || input.pages() % (1 << 30);
        (bytes(), bytes(), input.byte() << 1)
    };
    let runs = (0..input.byte() % 32).map(|_| run(&mut input)).collect();
    let told = Told(runs, input.byte() % 8 != 7);
    let parts = cut(&mappings, &labels);
    let counted = count(&mappings, &parts, &told, None);
    let picture = attribute(&mappings, &parts, &counted, &[], &mut |_, _| {});
    let sum = |of: fn(&Area) -> u64| mappings.iter().map(of).sum::<u64>();
    let of_areas = |of: fn(&States) -> u64| picture.areas.iter().map(|area| of(&area.states)).sum::<u64>();
    assert_eq!(picture.total.resident, sum(|area| area.rss));
    assert_eq!(picture.total.swapped, sum(|area| area.swap));
    assert_eq!(picture.total.anonymous, sum(|area| area.anonymous.min(area.rss)));
    assert_eq!(of_areas(|states| states.resident), picture.total.resident);
    assert_eq!(of_areas(|states| states.swapped), picture.total.swapped);
});
