//! Programs compute the same under every plan and every kind of heap.

use super::{PLANS, number, run};
use plimsoll_unit::MIB;

fn same_under_every_plan(heap: &str) {
    let mut first = None;
    for plan in PLANS {
        let told = run(&format!(
            "--plan {plan} --heap {heap} --threads 2 gcbench 11 2"
        ));
        let checked = number(&told, "/said/checked");
        assert_eq!(*first.get_or_insert(checked), checked, "{plan}");
        assert_eq!(number(&told, "/said/failed"), 0, "{plan}");
        assert!(number(&told, "/pauses") > 0, "{plan} collects: {told}");
    }
}

#[test]
fn isla_vista() {
    same_under_every_plan("isla-vista:64m");
}

#[test]
fn a_heap_that_doubles_until_the_kernel_stalls_it() {
    same_under_every_plan("after-stalls:128m");
}

#[test]
fn memory_is_given_back_after_every_full_collection_and_nothing_breaks() {
    for plan in PLANS {
        let heap = format!("--plan {plan} --heap isla-vista:48m --give-back full --threads 2");
        let told = run(&format!("{heap} live 8m 60000"));
        assert_eq!(number(&told, "/said/checked"), 60_000 * 4 * 30, "{plan}");
        assert!(number(&told, "/figures/full") >= 2, "{plan}: {told}");
        let (given, after) = (
            number(&told, "/figures/given_back"),
            number(&told, "/after"),
        );
        // The other plans have no space that is known to be safe for this.
        let gives = ["SemiSpace", "GenCopy", "GenImmix", "Immix", "StickyImmix"].contains(&plan);
        assert_eq!(given > MIB, gives, "{plan}: {given}");
        assert!(!gives || after < 30 * MIB, "{plan}: {after} of 48 MiB stay");
    }
}
