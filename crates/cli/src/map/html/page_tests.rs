use super::samples::{jvm, small};
use super::*;
use plimsoll_map::Kind;
use proptest::prelude::*;

fn shown(title: &str, looks: Vec<Look>) -> Shown {
    Shown {
        looks,
        ..Shown::titled(title)
    }
}

fn minute() -> Shown {
    shown(
        "java (4711), HotSpot",
        (0..=60).map(|n| jvm(f64::from(n))).collect(),
    )
}

/// Tags that are opened and closed in order, and quotes in pairs within each: what a browser needs to
/// read a page as it was meant.
fn is_well_formed(page: &str) {
    const SINGLE: [&str; 2] = ["!doctype", "meta"];
    let mut open: Vec<&str> = Vec::new();
    for piece in page.split('<').skip(1) {
        let (tag, text) = piece.split_once('>').expect("a tag ends");
        assert!(!text.contains('>'), "{piece}");
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        let name = tag
            .split([' ', '/'])
            .find(|word| !word.is_empty())
            .unwrap_or_default();
        match tag {
            _ if tag.starts_with('/') => assert_eq!(open.pop(), Some(name), "{tag}"),
            _ if tag.ends_with('/') || SINGLE.contains(&name) => {}
            _ => open.push(name),
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn a_page_needs_nothing_else_and_runs_nothing() {
    let page = page(&[minute()], None);
    is_well_formed(&page);
    for forbidden in [
        "<script", "http:", "https:", "@import", "src=", "href=", "onload", "refresh",
    ] {
        assert!(!page.contains(forbidden), "{forbidden}");
    }
    assert!(page.contains("prefers-color-scheme:dark"));
    assert_eq!(page.matches("<svg viewBox").count(), 3);
    if let Ok(path) = std::env::var("PLIMSOLL_SHOW") {
        std::fs::write(path, page).expect("written");
    }
}

#[test]
fn refaults_have_a_column_after_a_second_look() {
    let mut process = minute();
    let without = page(std::slice::from_ref(&process), None);
    assert!(!without.contains("refaulted") && !without.contains("came back"));
    let back = |bytes, unknown| Back { bytes, unknown };
    let old = back(Some(12 << 20), false);
    process.refaulted.insert(Kind::Old, old);
    process
        .refaulted
        .insert(Kind::Libraries, back(Some(8 << 20), false));
    let with = page(std::slice::from_ref(&process), None);
    is_well_formed(&with);
    assert!(with.contains(">refaulted</text>") && with.contains(">12.0 MiB</text>"));
    assert!(
        with.contains("<b>20.0 MiB</b> left memory and came back"),
        "{with}"
    );
    // A part of it is not known.
    process
        .refaulted
        .insert(Kind::Libraries, back(Some(8 << 20), true));
    process.refaulted.insert(Kind::Archives, back(None, true));
    let part = page(&[process], None);
    for words in [
        ">12.0 MiB</text>",
        ">≥8.00 MiB</text>",
        ">≥20.0 MiB</text>",
        " at least <b>20.0 MiB</b> left memory",
    ] {
        assert!(part.contains(words), "{words}: {part}");
    }
}

#[test]
fn what_is_estimated_unknown_or_nothing_is_told_apart_as_in_the_table() {
    let mut look = small(0.0);
    for area in &mut look.areas {
        if area.kind == Kind::Malloc {
            area.estimated.resident = true;
            area.estimated.referenced = true;
            area.states.shared = Some(0);
        }
    }
    let page = page(&[shown("small", vec![look])], None);
    is_well_formed(&page);
    for words in [
        ">~132 KiB</text>",
        ">~44 KiB</text>",
        "malloc, in memory: ~132 KiB",
        // Nothing is in swap, and what is cached is not known of memory without a file.
        ">0</text>",
        ">-</text>",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
    assert!(!page.contains(">–</text>"));
}

#[test]
fn while_it_grows_it_is_read_again() {
    let page = page(&[minute()], Some(5));
    assert!(page.contains("http-equiv=\"refresh\" content=\"5\""));
}

#[test]
fn every_area_and_state_is_drawn_and_named() {
    let process = minute();
    let page = page(std::slice::from_ref(&process), None);
    for area in &process.looks[60].areas {
        assert!(
            page.contains(&format!(">{}</text>", area.kind.name())),
            "{:?}",
            area.kind
        );
    }
    for state in [State::Resident, State::Swapped, State::Cached] {
        assert!(page.contains(&format!(">{}</text>", state.name())));
        let old = paint(Kind::Old, state);
        assert_eq!(
            page.contains(&format!("class=\"{old}\"")),
            state != State::Cached
        );
    }
    assert!(
        page.contains(">seconds</text>")
            && page.contains(">MiB in memory above the line, in swap below it</text>")
    );
    assert!(page.contains("<b>1.50 GiB</b> in memory and <b>744 MiB</b> in swap"));
}

#[test]
fn hostile_names_stay_text() {
    let hostile = "</title><script>alert(1)</script>\"'\u{202e}\u{1b}[2J";
    let mut process = shown(hostile, vec![small(0.0)]);
    process.notes = vec![hostile.repeat(1000), hostile.to_owned()];
    let page = page(&[process], None);
    is_well_formed(&page);
    assert!(!page.contains("<script") && !page.contains('\u{202e}') && !page.contains('\u{1b}'));
    assert!(page.len() < 40_000);
}

#[test]
fn no_page_has_a_character_that_no_terminal_gets() {
    use plimsoll_picture::svg::escape;
    use plimsoll_wire::checks::is_printable;
    for c in ('\0'..=char::MAX).filter(|c| !is_printable(*c)) {
        assert!(!escape(c.encode_utf8(&mut [0; 4])).contains(c), "{c:?}");
    }
}

#[test]
fn one_look_has_no_picture_over_time_and_no_look_says_why() {
    let one = page(&[shown("sleep (12)", vec![small(0.0)])], None);
    assert_eq!(one.matches("<svg viewBox").count(), 2);
    assert!(!one.contains(">seconds</text>"));
    let mut gone = shown("process 13", Vec::new());
    gone.notes = vec!["no process has the number 13".into()];
    let none = page(&[gone], None);
    is_well_formed(&none);
    assert!(
        none.contains("There is no map of it") && none.contains("no process has the number 13")
    );
    is_well_formed(&page(&[], None));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// A page stays small and whole, whatever the processes are like.
    #[test]
    fn any_process_is_a_page_of_bounded_size(
        pieces in prop::collection::vec((0u64..1 << 30, 1u64..5000, 0usize..20, 0usize..4), 0..1500),
        looks in 1usize..40,
        flicker in any::<u64>(),
    ) {
        let look = |number: usize| {
            let mut space = Space::default();
            let mut at = 0u64;
            for (index, (gap, pages, kind, state)) in pages_of(&pieces, flicker, number).enumerate() {
                at += gap << 12;
                if index % 7 != number % 7 {
                    space.add(at..at + (pages << 12), Kind::ALL[kind], State::ALL[state]);
                }
                at += pages << 12;
            }
            Look { seconds: number as f64 / 3.0, space, ..Look::default() }
        };
        let process = shown("any", (0..looks).map(look).collect());
        let page = page(&[process.clone(), process], None);
        is_well_formed(&page);
        prop_assert!(page.matches("<rect").count() < 5000, "{}", page.matches("<rect").count());
        prop_assert!(page.len() < 2 << 20);
    }
}

fn pages_of(
    pieces: &[(u64, u64, usize, usize)],
    flicker: u64,
    number: usize,
) -> impl Iterator<Item = (u64, u64, usize, usize)> {
    let shift = (flicker >> (number % 60)) as usize % 20;
    pieces
        .iter()
        .enumerate()
        .map(move |(index, &(gap, pages, kind, state))| {
            (
                gap,
                pages,
                (kind + shift * index) % 20,
                (state + shift * index) % 4,
            )
        })
}
