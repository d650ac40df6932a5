//! Made-up heaps.

use super::*;
use crate::runtimes::random_memory::{Noise, noise};
use proptest::prelude::*;

const START: u64 = 0xc0_0000_0000;

/// A span of objects, one of a stack, one of the collector's, and one that is not in use.
fn heap(is_go_1_21: bool) -> Noise {
    let mut process = Noise::still(START..START + (8 << 20));
    let list = START + (7 << 20);
    process.write(START + 128, &[list, 4, 8]);
    for (index, state, size) in [(0, 1, 64), (1, 2, 2048), (2, 2, 0), (3, 0, 0)] {
        let span = list + 4096 + index * 160;
        process.write(list + 8 * index, &[span]);
        let start = START + (1 << 20) + index * 16384;
        process.write(span + 24, &[start, 2]);
        let (flags, rest) = if is_go_1_21 { (104, 112) } else { (96, 104) };
        process.write(span + flags, &[state << 24 | 10 << 16]);
        process.write(span + rest, &[size, start + 16384]);
    }
    process
}

fn label(process: &Noise) -> Labels {
    let mut labels = Labels::default();
    label_heap(
        &process.snapshot(),
        process,
        &process.variables(),
        &mut labels,
    );
    process.check(&labels);
    labels
}

#[test]
fn spans_of_both_layouts_are_told_by_their_state() {
    for is_go_1_21 in [false, true] {
        let labels = label(&heap(is_go_1_21)).labels;
        let kinds: Vec<Kind> = labels.iter().map(|label| label.kind).collect();
        let spans = [Kind::Heap, Kind::Stacks, Kind::Collector];
        assert_eq!(kinds[..3], spans);
        let arena = START..START + (8 << 20);
        assert!(labels[3].addresses == arena && kinds[3] == Kind::FreeHeap);
    }
}

#[test]
fn an_arena_without_a_span_is_free() {
    let mut process = heap(false);
    process.map(START + ARENA..START + 2 * ARENA);
    let before = label(&process).labels.len();
    let list = START + (6 << 20);
    let number = (START + (1 << 47)) / ARENA;
    process.write(list, &[number, number + 1]);
    process.write(START + 256, &[list, 2, 2]);
    let labels = label(&process).labels;
    assert_eq!(labels.len(), before + 1);
    assert_eq!(labels[4].addresses, START + ARENA..START + 2 * ARENA);
    assert_eq!(labels[4].kind, Kind::FreeHeap);
}

#[test]
fn without_a_list_only_the_documented_place_is_heap() {
    let process = Noise::still(START..START + (8 << 20));
    let labels = label(&process);
    assert_eq!(labels.labels.len(), 1);
    assert_eq!(labels.labels[0].kind, Kind::Heap);
    assert_eq!(labels.notes.len(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn whatever_is_there_labels_stay_in_mappings(process in noise()) {
        label(&process);
    }

    #[test]
    fn whatever_changes_labels_stay_in_mappings(
        is_go_1_21 in any::<bool>(),
        changes in proptest::collection::vec(any::<(usize, u64)>(), 1..6),
    ) {
        let mut process = heap(is_go_1_21);
        process.change(&changes);
        label(&process);
    }
}
