//! The map as text.

mod list;

use super::number::Number;
use crate::rows::shown;
use crate::size::Human;
use crate::terminal_text;
use crate::top::render::Colours;
use plimsoll_map::attribute::{AreaOf, Estimated};
use plimsoll_map::change::Change;
use plimsoll_map::sharers::Sharers;
use plimsoll_map::{Look, Report, States};
use std::fmt::Write as _;
use std::io::IsTerminal;

/// Columns of what is in each table: the area and what is resident, and a blank before the bar.
const FIXED: usize = 14 + 9 + 1;
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
        let width = width
            .or_else(|| terminal_text::columns(&out))
            .unwrap_or(USUAL_WIDTH);
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

/// All processes; of several a line for each first, and their sum. `sum`: nothing of each but the line.
pub(super) fn report(report: &Report, sum: bool, style: &Style) -> String {
    let mut text = String::new();
    let are_several = report.processes.len() > 1;
    if are_several {
        list::add(&mut text, &report.processes, style.width);
    }
    for look in report.processes.iter().filter(|_| !are_several || !sum) {
        if are_several {
            text.push('\n');
        }
        add_process(&mut text, look, style);
    }
    if are_several {
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
    let has_refaulted = add_table(text, &look.areas, &look.total, style);
    if let Some(change) = &look.change {
        add_change(text, change);
    }
    if !has_refaulted {
        add_refaulted(text, &look.areas, style);
    }
    add_sharers(text, &look.sharers, style);
    add_notes(text, &look.notes, style);
}

/// A column that is left out where it says nothing.
struct Column {
    head: &'static str,
    width: usize,
    number: fn(&States, Estimated) -> Number,
}

const SWAPPED_COLUMN: Column = Column {
    head: "SWAPPED",
    width: 8,
    number: |states, estimated| Number::of(Some(states.swapped), estimated.swapped),
};
const CACHED_COLUMN: Column = Column {
    head: "CACHED",
    width: 7,
    number: |states, _| Number::cached(states),
};
const SHARED_COLUMN: Column = Column {
    head: "SHARED",
    width: 7,
    number: |states, estimated| Number::of(states.shared, estimated.shared),
};
const REFERENCED_COLUMN: Column = Column {
    head: "REFERENCED",
    width: 11,
    number: |states, estimated| Number::of(states.referenced, estimated.referenced),
};
/// There where there was a look before. Where lines are too narrow for it, a line below the table has it.
const REFAULTED_COLUMN: Column = Column {
    head: "REFAULTED",
    width: 10,
    number: |states, _| Number::refaulted(states),
};

/// The columns that say something: not 0 or unknown everywhere, and what is referenced not everywhere what
/// is resident.
fn columns(areas: &[AreaOf], total: &States, style: &Style) -> Vec<Column> {
    let rows = || areas.iter().map(|area| &area.states).chain([total]);
    let says = |column: &Column| {
        rows().any(|states| {
            let number = (column.number)(states, Estimated::default());
            !matches!(number, Number::Unknown | Number::Exact(0))
        })
    };
    let mut columns = vec![SWAPPED_COLUMN, CACHED_COLUMN, SHARED_COLUMN];
    if rows().any(|states| states.referenced != Some(states.resident)) {
        columns.push(REFERENCED_COLUMN);
    }
    columns.retain(says);
    let width: usize = columns.iter().map(|column| column.width).sum();
    let compared = total.refaulted.is_some() || total.refaulted_unknown;
    if compared && style.width >= FIXED + width + REFAULTED_COLUMN.width {
        columns.push(REFAULTED_COLUMN);
    }
    columns
}

/// Tells whether it has a column of refaulted memory.
fn add_table(text: &mut String, areas: &[AreaOf], total: &States, style: &Style) -> bool {
    let columns = columns(areas, total, style);
    let width: usize = columns.iter().map(|column| column.width).sum();
    let bar_width = style.width.saturating_sub(FIXED + width);
    if !areas.is_empty() {
        let heads: String = columns
            .iter()
            .map(|column| format!("{:>width$}", column.head, width = column.width))
            .collect();
        let legend = legend(bar_width);
        let _ = writeln!(text, "{:<14}{:>9}{heads} {legend}", "AREA", "RESIDENT");
    }
    let longest = areas.iter().map(|area| length(&area.states)).max();
    let in_use = areas.iter().filter(|area| length(&area.states) > 0);
    for area in in_use {
        let bar = bar(&area.states, longest.unwrap_or(0), bar_width, style.colours);
        let row = row(area.kind.name(), &area.states, area.estimated, &columns);
        let _ = writeln!(text, "{row} {bar}");
    }
    let row = row("total", total, Estimated::default(), &columns);
    let _ = writeln!(text, "{row}");
    columns
        .iter()
        .any(|column| column.head == REFAULTED_COLUMN.head)
}

/// The meaning of the characters of a bar, as far as there is room for it. Narrow terminals have no bars.
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
                number => Some(format!("{} of {name}", number.human())),
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

fn row(name: &str, states: &States, estimated: Estimated, columns: &[Column]) -> String {
    let resident = Number::of(Some(states.resident), estimated.resident).human();
    let rest = columns.iter().map(|column| {
        let number = (column.number)(states, estimated).human();
        format!("{number:>width$}", width = column.width)
    });
    format!("{name:<14}{resident:>9}{}", rest.collect::<String>())
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
            if colours {
                bar.push_str(&format!("\x1b[{colour}m{piece}\x1b[0m"));
            } else {
                bar.push_str(&piece);
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

    /// A look with one area that has this many refaulted bytes.
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
            swapped: 4096,
            cached: states.cached.or(Some(4096)),
            shared: Some(4096),
            referenced: Some(4096),
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
        report(&Report::of(0, vec![look], Vec::new()), false, &style)
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
    fn columns_that_say_nothing_are_left_out() {
        let heads = |states: States| {
            let area = AreaOf {
                kind: Kind::Malloc,
                states,
                estimated: Estimated::default(),
            };
            let style = Style {
                width: 80,
                colours: false,
            };
            let columns = columns(&[area], &states, &style);
            columns.iter().map(|column| column.head).collect::<Vec<_>>()
        };
        let mut states = States {
            resident: 8192,
            shared: Some(0),
            referenced: Some(8192),
            ..States::default()
        };
        assert_eq!(heads(states), [""; 0]);
        states.referenced = Some(4096);
        assert_eq!(heads(states), ["REFERENCED"]);
        (states.swapped, states.referenced) = (4096, Some(0));
        assert_eq!(heads(states), ["SWAPPED"]);
        (states.cached_unknown, states.cached, states.refaulted) = (true, Some(0), Some(0));
        assert_eq!(heads(states), ["SWAPPED", "CACHED", "REFAULTED"]);
    }

    #[test]
    fn of_several_a_line_for_each_comes_first_and_with_sum_nothing_else_of_them() {
        let look = |pid, kind, resident| {
            let states = States {
                resident,
                ..States::default()
            };
            Look {
                pid,
                name: "x".into(),
                total: states,
                areas: vec![AreaOf {
                    kind,
                    states,
                    estimated: Estimated::default(),
                }],
                ..Look::default()
            }
        };
        let looks = vec![
            look(7, Kind::Old, 2 << 20),
            look(8, Kind::FreeHeap, 3 << 20),
        ];
        let both = Report::of(0, looks, Vec::new());
        let style = Style {
            width: 80,
            colours: false,
        };
        let short = report(&both, true, &style);
        let rows: Vec<Vec<&str>> = short
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(
            rows[0],
            ["PID", "NAME", "RUNTIME", "RESIDENT", "HEAP", "FREE"]
        );
        assert_eq!(rows[1], ["8", "x", "-", "3.00M", "-", "3.00M"]);
        assert_eq!(rows[2], ["7", "x", "-", "2.00M", "2.00M", "-"]);
        assert_eq!((rows[3].len(), rows[4][..2].join(" ")), (0, "all 2".into()));
        assert!(!short.contains("mapped"), "{short}");
        let long = report(&both, false, &style);
        assert!(
            long.starts_with(&short[..short.find("\n\n").unwrap()]),
            "{long}"
        );
        assert_eq!(long.matches("mapped").count(), 2, "{long}");
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
