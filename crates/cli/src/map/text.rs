//! The map as text.

use super::number::Number;
use crate::rows::shown;
use crate::size::Human;
use crate::top::render::Colours;
use crate::words::columns;
use plimsoll_map::attribute::{AreaOf, Estimated};
use plimsoll_map::change::Change;
use plimsoll_map::who::Sharers;
use plimsoll_map::{Look, Report, States};
use std::fmt::Write as _;
use std::io::IsTerminal;

/// Columns left of the bar, without those of refaulted memory.
const FIXED: usize = 14 + 9 + 8 + 7 + 7 + 11 + 1;
/// Columns of refaulted memory. Where lines are too narrow for them, a line below the table has it.
const REFAULTED: usize = 10;
/// Without a terminal.
const USUAL_WIDTH: u16 = 80;
/// Narrower terminals wrap lines.
const NARROWEST: u16 = 60;

/// How to write.
pub(super) struct Style {
    /// Columns.
    width: usize,
    /// Whether to colour the bars. Their characters differ too.
    colours: bool,
}

impl Style {
    /// As wide as the terminal, or as asked.
    pub(super) fn of_terminal(width: Option<u16>) -> Style {
        let out = std::io::stdout();
        let width = width.or_else(|| columns(&out)).unwrap_or(USUAL_WIDTH);
        Style {
            width: usize::from(width.max(NARROWEST)),
            colours: out.is_terminal() && Colours::from_environment().0,
        }
    }
}

/// A state in a bar: its character, and its colour as a terminal has it.
const RESIDENT: (char, &str) = ('█', "32");
const SWAPPED: (char, &str) = ('▒', "31");
const CACHED: (char, &str) = ('·', "36");

/// All processes, and their sum if there are several.
pub(super) fn report(report: &Report, style: &Style) -> String {
    let mut text = String::new();
    for (index, look) in report.processes.iter().enumerate() {
        if index > 0 {
            text.push('\n');
        }
        add_process(&mut text, look, style);
    }
    if report.processes.len() > 1 {
        let _ = writeln!(text, "\nall {} processes", report.processes.len());
        add_table(&mut text, &report.areas, &report.total, style);
        add_notes(&mut text, &report.notes, style);
    }
    text
}

fn add_process(text: &mut String, look: &Look, style: &Style) {
    let runtime = look.runtime.as_deref();
    let runtime = runtime.map_or(String::new(), |runtime| format!(" ({runtime})"));
    let head = format!(
        "{} {}{runtime}, {} mapped",
        look.pid,
        shown(&look.name, 32),
        Human(look.total.size)
    );
    let left = style.width.saturating_sub(head.chars().count() + 2);
    let executable = shown(&look.executable.to_string_lossy(), left.max(8));
    let between = if executable.is_empty() { "" } else { ", " };
    let _ = writeln!(text, "{head}{between}{executable}");
    add_table(text, &look.areas, &look.total, style);
    if let Some(change) = &look.change {
        add_change(text, change);
    }
    if !has_column(&look.total, style) {
        add_refaulted(text, &look.areas, style);
    }
    add_sharers(text, &look.sharers, style);
    add_notes(text, &look.notes, style);
}

/// Whether the table has a column of refaulted memory: there was a look before, and there is room.
fn has_column(total: &States, style: &Style) -> bool {
    let compared = total.refaulted.is_some() || total.refaulted_unknown;
    compared && style.width >= FIXED + REFAULTED
}

fn add_table(text: &mut String, areas: &[AreaOf], total: &States, style: &Style) {
    let refaulted = has_column(total, style);
    let more = if refaulted { REFAULTED } else { 0 };
    let bar_width = style.width.saturating_sub(FIXED + more);
    if !areas.is_empty() {
        let _ = writeln!(
            text,
            "{:<14}{:>9}{:>8}{:>7}{:>7}{:>11}{:>more$} {}",
            "AREA",
            "RESIDENT",
            "SWAPPED",
            "CACHED",
            "SHARED",
            "REFERENCED",
            if refaulted { "REFAULTED" } else { "" },
            legend(bar_width),
        );
    }
    let longest = areas.iter().map(|area| length(&area.states)).max();
    let in_use = areas.iter().filter(|area| length(&area.states) > 0);
    for area in in_use {
        let bar = bar(&area.states, longest.unwrap_or(0), bar_width, style.colours);
        let row = row(area.kind.name(), &area.states, area.estimated, refaulted);
        let _ = writeln!(text, "{row} {bar}");
    }
    let row = row("total", total, Estimated::default(), refaulted);
    let _ = writeln!(text, "{row}");
}

/// What the characters of a bar mean, as far as there is room for it. Rows of a narrow terminal have no bar.
fn legend(width: usize) -> String {
    let states = [(RESIDENT, "RAM"), (SWAPPED, "swap"), (CACHED, "cache")];
    let mut legend = String::new();
    for ((character, _), name) in states {
        let piece = format!("{character} {name} ");
        if legend.chars().count() + piece.chars().count() <= width + 1 {
            legend.push_str(&piece);
        }
    }
    legend.trim_end().to_owned()
}

/// A line about what came back since the last look, if anything did.
fn add_refaulted(text: &mut String, areas: &[AreaOf], style: &Style) {
    let back: Vec<String> = areas
        .iter()
        .filter_map(|area| {
            let name = area.kind.name();
            match Number::refaulted(&area.states) {
                Number::Unknown if area.states.refaulted_unknown => {
                    Some(format!("unknown of {name}"))
                }
                Number::Unknown | Number::Exact(0) => None,
                number => Some(format!("{} of {name}", human(number))),
            }
        })
        .collect();
    if !back.is_empty() {
        add_item(text, &format!("refaulted: {}", back.join(", ")), style);
    }
}

/// A line about what happened since the last look.
fn add_change(text: &mut String, change: &Change) {
    let _ = write!(
        text,
        "in {:.1} s: {} major faults, {} minor",
        change.seconds, change.major_faults, change.minor_faults
    );
    if let (Some(file), Some(anon)) = (change.refaulted_file, change.refaulted_anon) {
        let _ = write!(
            text,
            "; came back to its group: {} of files, {} from swap",
            Human(file),
            Human(anon)
        );
    }
    text.push('\n');
}

/// Most files whose sharers are shown, and most names for one file.
const MAX_SHARED: usize = 20;
const MAX_NAMES: usize = 8;

fn add_sharers(text: &mut String, files: &[Sharers], style: &Style) {
    for file in files.iter().take(MAX_SHARED) {
        let names: Vec<String> = file
            .processes
            .iter()
            .take(MAX_NAMES)
            .map(|process| format!("{} {}", process.pid, shown(&process.name, 16)))
            .collect();
        let more = file.processes.len() - names.len() + file.more;
        let with = match (names.is_empty(), more) {
            (true, _) => "no process that we may look into".to_owned(),
            (_, 0) => names.join(", "),
            _ => format!("{}, and {more} more", names.join(", ")),
        };
        let name = shown(&file.name, 200);
        add_item(
            text,
            &format!("{} of {name} shared with {with}", Human(file.shared)),
            style,
        );
    }
}

fn row(name: &str, states: &States, estimated: Estimated, refaulted: bool) -> String {
    let more = match refaulted {
        true => format!("{:>REFAULTED$}", human(Number::refaulted(states))),
        false => String::new(),
    };
    let number = |bytes, estimated| human(Number::of(bytes, estimated));
    format!(
        "{name:<14}{:>9}{:>8}{:>7}{:>7}{:>11}{more}",
        number(Some(states.resident), estimated.resident),
        number(Some(states.swapped), estimated.swapped),
        human(Number::cached(states)),
        number(states.shared, estimated.shared),
        number(states.referenced, estimated.referenced),
    )
}

fn human(number: Number) -> String {
    number.text(|bytes| Human(bytes).to_string())
}

/// The bytes that a bar shows.
fn length(states: &States) -> u64 {
    states
        .resident
        .saturating_add(states.swapped)
        .saturating_add(states.cached_only())
}

/// A bar of at most `width` characters, which an area of `longest` bytes would fill.
fn bar(states: &States, longest: u64, width: usize, colours: bool) -> String {
    let pieces = [
        (states.resident, RESIDENT),
        (states.swapped, SWAPPED),
        (states.cached_only(), CACHED),
    ];
    let (mut before, mut drawn) = (0u128, 0);
    let mut bar = String::new();
    for (bytes, (character, colour)) in pieces {
        before += u128::from(bytes);
        let until = (before * width as u128).div_ceil(u128::from(longest.max(1))) as usize;
        let cells = until.min(width).saturating_sub(drawn);
        drawn += cells;
        if cells > 0 {
            let piece: String = std::iter::repeat_n(character, cells).collect();
            match colours {
                true => bar.push_str(&format!("\x1b[{colour}m{piece}\x1b[0m")),
                false => bar.push_str(&piece),
            }
        }
    }
    bar
}

fn add_notes(text: &mut String, notes: &[String], style: &Style) {
    for note in notes {
        add_item(text, note, style);
    }
}

/// A sentence in lines of the given width, the first one marked.
fn add_item(text: &mut String, sentence: &str, style: &Style) {
    let mut line = String::from("-");
    for word in shown(sentence, 4000).split(' ') {
        if line.chars().count() + 1 + word.chars().count() > style.width && line.len() > 1 {
            let _ = writeln!(text, "{line}");
            line = String::from(" ");
        }
        let _ = write!(line, " {word}");
    }
    let _ = writeln!(text, "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_map::Kind;

    /// A look with one area, of which that much is refaulted.
    fn text(refaulted: Option<u64>, width: usize) -> String {
        let states = States {
            refaulted,
            ..States::default()
        };
        text_of(states, width)
    }

    fn text_of(states: States, width: usize) -> String {
        let states = States {
            size: 4 << 20,
            resident: 2 << 20,
            ..states
        };
        let area = AreaOf {
            kind: Kind::Old,
            states,
            estimated: Estimated::default(),
        };
        let look = Look {
            total: states,
            areas: vec![area],
            ..Look::default()
        };
        let style = Style {
            width,
            colours: false,
        };
        report(&Report::of(0, vec![look], Vec::new()), &style)
    }

    #[test]
    fn refaulted_memory_has_a_column_or_a_line() {
        let first = text(None, 80);
        assert!(!first.to_lowercase().contains("refaulted"), "{first}");
        let wide = text(Some(1 << 20), 80);
        let rows: Vec<&str> = wide.lines().collect();
        assert!(rows[1].contains("REFERENCED REFAULTED █ RAM"), "{wide}");
        assert!(rows[2].ends_with(" 1.00M █████████████"), "{wide}");
        assert!(!wide.contains("refaulted:"), "{wide}");
        let narrow = text(Some(1 << 20), 60);
        assert!(!narrow.contains("REFAULTED"), "{narrow}");
        assert!(narrow.contains("- refaulted: 1.00M of old\n"), "{narrow}");
        for (text, width) in [(&first, 80), (&wide, 80), (&narrow, 60)] {
            let fits = text.lines().all(|line| line.chars().count() <= width);
            assert!(fits, "{text}");
        }
    }

    #[test]
    fn what_is_known_of_a_part_only_is_marked() {
        let mut states = States {
            refaulted: Some(1 << 20),
            refaulted_unknown: true,
            cached: Some(3 << 20),
            cached_unknown: true,
            ..States::default()
        };
        let wide = text_of(states, 80);
        let old = wide.lines().nth(2).unwrap();
        assert!(
            old.contains(" ≥3.00M ") && old.contains(" ≥1.00M █"),
            "{wide}"
        );
        assert!(
            wide.lines().all(|line| line.chars().count() <= 80),
            "{wide}"
        );
        let narrow = text_of(states, 60);
        assert!(narrow.contains("- refaulted: ≥1.00M of old\n"), "{narrow}");
        (states.refaulted, states.cached) = (None, None);
        let narrow = text_of(states, 60);
        assert!(narrow.contains("- refaulted: unknown of old\n"), "{narrow}");
    }
}
