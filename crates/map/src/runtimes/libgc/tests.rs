//! Made-up heaps.

use super::*;
use crate::runtimes::random_memory::{Noise, noise};
use proptest::prelude::*;

const START: u64 = 0x40_0000_0000;
const HEAP: u64 = START + (4 << 20);

/// Two sections of 1 MiB. The second block and its 15 neighbours are free. The list is a variable,
/// or one points to it.
fn heap(is_variable: bool) -> Noise {
    let mut process = Noise::still(START..START + (16 << 20));
    process.write(START, &[2 << 20]);
    let sections = [HEAP, 1 << 20, HEAP + (1 << 20), 1 << 20];
    if is_variable {
        process.write(START + 80, &sections);
    } else {
        let list = START + (1 << 20);
        process.write(START + 80, &[list]);
        process.write(list, &sections);
    }
    let index = START + (2 << 20);
    process.write(START + 200, &[index]);
    let headers = index + 0x4000;
    process.write(index, &[headers, headers + 64]);
    process.write(index + 8192, &[0, 0, HEAP >> 22, 0]);
    process.write(headers, &[0, 0, HEAP, 0, 32]);
    process.write(headers + 64, &[0, 0, 0, 4 << 8, 16 * 4096]);
    process
}

fn label(process: &Noise, size: Option<u64>) -> Labels {
    let mut labels = Labels::default();
    let snapshot = process.snapshot();
    let words = Words::new(&snapshot, process);
    label_sections(&snapshot, &words, &process.variables(), size, &mut labels);
    process.check(&labels);
    labels
}

#[test]
fn sections_and_their_free_blocks_are_told() {
    for is_variable in [false, true] {
        for size in [None, Some(2 << 20)] {
            let labels = label(&heap(is_variable), size).labels;
            assert_eq!(labels.len(), 3);
            assert_eq!(labels[0].addresses, HEAP + 4096..HEAP + 17 * 4096);
            assert_eq!(labels[0].kind, Kind::FreeHeap);
            assert_eq!(labels[1].addresses, HEAP..HEAP + (1 << 20));
            assert_eq!(labels[2].addresses, HEAP + (1 << 20)..HEAP + (2 << 20));
        }
        assert_eq!(label(&heap(is_variable), Some(1 << 21 | 4096)).labels, []);
    }
}

/// A heap of four superpages, and its table. The second superpage is free.
fn places() -> Noise {
    let mut process = Noise::still(START..START + (16 << 20));
    let (metadata, free, committed) = (HEAP - (1 << 20), HEAP - 8192, START + 512);
    process.write(committed, &[4 << 14]);
    process.write(free, &[2]);
    let magic = u64::from_le_bytes(*b"plimsoll");
    let end = HEAP + (8 << 20);
    process.write(
        START,
        &[magic, 1, metadata, HEAP, end, free, committed, 1 << 14],
    );
    process
}

fn label_places(process: &Noise) -> Labels {
    let mut labels = Labels::default();
    let snapshot = process.snapshot();
    let words = Words::new(&snapshot, process);
    if let Some(places) = Places::read(&words, START) {
        places.label(&words, &Ranges::allocated(&snapshot), &mut labels);
    }
    process.check(&labels);
    labels
}

#[test]
fn the_drop_in_s_table_tells_heap_free_heap_and_metadata() {
    let labels = label_places(&places()).labels;
    assert_eq!(labels.len(), 3);
    assert_eq!(labels[0].addresses, HEAP + (1 << 14)..HEAP + (2 << 14));
    assert_eq!(labels[1].addresses, HEAP..HEAP + (4 << 14));
    assert_eq!(labels[2].addresses, HEAP - (1 << 20)..HEAP);
    let kinds: Vec<Kind> = labels.iter().map(|label| label.kind).collect();
    assert_eq!(kinds, [Kind::FreeHeap, Kind::Heap, Kind::Collector]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn whatever_is_there_labels_stay_in_mappings(process in noise()) {
        label(&process, None);
    }

    #[test]
    fn whatever_changes_labels_stay_in_mappings(
        is_variable in any::<bool>(),
        changes in proptest::collection::vec(any::<(usize, u64)>(), 1..6),
    ) {
        let mut process = heap(is_variable);
        process.change(&changes);
        label(&process, None);
        let mut process = places();
        process.change(&changes);
        label_places(&process);
    }
}
