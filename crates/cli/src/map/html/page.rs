//! The page: for each process its pictures, one below the other, and the notes.

use super::band::band;
use super::bars::bars;
use super::stacks::stacks;
use super::{Back, Look, Shown};
use crate::size::with_unit;
use plimsoll_map::Kind;
use plimsoll_picture::page::document;
use plimsoll_picture::scale::number;
use plimsoll_picture::shade;
use plimsoll_picture::svg::{escape, shortened};
use std::fmt::Write as _;

/// Longest name of a process, characters.
const LONGEST_TITLE: usize = 200;
/// Longest note, characters, and most notes of a process.
const LONGEST_NOTE: usize = 600;
const MOST_NOTES: usize = 100;

/// Most boxes of all maps of address spaces.
const MOST_BOXES: usize = 4000;

/// Below the heading.
const BY_ADDRESS: &str = "\
Each row is a piece of the address space, as high as the most memory that it held; its colour is the area \
and the state of most of it. A light strip is a gap between addresses in which something is mapped and \
nothing is held. The first address of each stretch stands at the right.";

/// A page of HTML that needs no other file. `again` is after how many seconds a browser should read
/// it again, while looks are still added.
pub fn page(processes: &[Shown], again: Option<u64>) -> String {
    let kinds = kinds(processes);
    let titles: Vec<&str> = processes.iter().map(|one| one.title.as_str()).collect();
    let title = shortened(&titles.join(", "), LONGEST_TITLE);
    let colours: Vec<_> = kinds
        .iter()
        .map(|&kind| (kind as usize, kind.colour()))
        .collect();
    let patterns = shade::patterns(&colours);
    let mut text = format!("<svg class=\"patterns\" aria-hidden=\"true\">{patterns}</svg>\n");
    let boxes = MOST_BOXES / processes.len().max(1);
    for process in processes {
        section(&mut text, process, &kinds, boxes);
    }
    let title = format!("Memory of {title}");
    document(&title, &shade::style(&colours), again, &text)
}

/// The areas that any look has, and the one that legends are drawn with.
fn kinds(processes: &[Shown]) -> Vec<Kind> {
    let looks = || processes.iter().flat_map(|one| &one.looks);
    let of_pictures = looks().flat_map(|look| look.areas.iter().map(|area| area.kind));
    let of_parts = looks().flat_map(|look| look.space.parts().iter().map(|part| part.kind));
    let of_empty = looks().flat_map(|look| look.space.empty().iter().map(|(_, kind)| *kind));
    let mut kinds: Vec<Kind> = of_pictures
        .chain(of_parts)
        .chain(of_empty)
        .chain([Kind::Other])
        .collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}

fn section(text: &mut String, process: &Shown, kinds: &[Kind], boxes: usize) {
    let title = escape(&shortened(&process.title, LONGEST_TITLE));
    let _ = writeln!(text, "<section>\n<h1>{title}</h1>");
    let Some(last) = process.looks.last() else {
        text.push_str("<p>There is no map of it.</p>\n");
        notes(text, &process.notes);
        text.push_str("</section>\n");
        return;
    };
    let _ = writeln!(text, "<p>{}</p>", summary(process, last));
    let _ = writeln!(
        text,
        "<h2>Where its memory is</h2>\n{}",
        bars(last, &process.refaulted)
    );
    if let Some(stacks) = stacks(&process.looks, kinds) {
        let _ = writeln!(text, "<h2>Over time</h2>\n{stacks}");
    }
    if let Some(band) = band(&process.looks, boxes) {
        let _ = writeln!(
            text,
            "<h2>By address</h2>\n<p class=\"faint\">{BY_ADDRESS}</p>\n{band}"
        );
    }
    notes(text, &process.notes);
    text.push_str("</section>\n");
}

/// The sentence on top.
fn summary(process: &Shown, last: &Look) -> String {
    let looks = &process.looks;
    let total = &last.total;
    let first = looks.first().map_or(0.0, |look| look.seconds);
    let mut text = format!(
        "<b>{}</b> in memory and <b>{}</b> in swap, of {} mapped.",
        with_unit(total.resident),
        with_unit(total.swapped),
        with_unit(total.size)
    );
    if looks.len() > 1 {
        let seconds = ((last.seconds - first) * 10.0).round() / 10.0;
        let _ = write!(
            text,
            " {} looks in {} seconds; the last one is shown first.",
            looks.len(),
            number(seconds)
        );
    }
    let back = Back::sum(&process.refaulted);
    if let Some(bytes) = back.bytes.filter(|&bytes| bytes > 0) {
        let least = if back.unknown { "at least " } else { "" };
        let _ = write!(
            text,
            " {least}<b>{}</b> left memory and came back, in all looks.",
            with_unit(bytes)
        );
    }
    text
}

fn notes(text: &mut String, notes: &[String]) {
    if notes.is_empty() {
        return;
    }
    text.push_str("<h2>Notes</h2>\n<ul>\n");
    for note in notes.iter().take(MOST_NOTES) {
        let _ = writeln!(text, "<li>{}</li>", escape(&shortened(note, LONGEST_NOTE)));
    }
    if let Some(more) = notes.len().checked_sub(MOST_NOTES).filter(|more| *more > 0) {
        let _ = writeln!(text, "<li>and {more} more</li>");
    }
    text.push_str("</ul>\n");
}
