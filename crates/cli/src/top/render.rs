//! Draws one frame from the state alone.

use super::columns::{self, Columns, fitting};
use super::page;
use super::state::State;
use crate::rows::{Faults, Row, ending, level, remarks, shown, total};
use crate::size::Human;
use plimsoll_wire::messages::Listing;
use plimsoll_wire::page::Level;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

/// The shortest end of a path that tells anything.
const LEAST_PATH: usize = 12;
/// Rows above the table: two lines of figures, the bar, the column heads.
const HEAD: u16 = 4;

/// Whether colours may be used. Without colours only marks show the levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Colours(
    /// False under `NO_COLOR`.
    pub bool,
);

impl Colours {
    /// As <https://no-color.org> has it.
    pub fn from_environment() -> Colours {
        Colours(std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()))
    }

    fn paint(self, colour: Color) -> Style {
        if self.0 {
            Style::new().fg(colour)
        } else {
            Style::new()
        }
    }
}

/// Rows that fit between head and foot on a screen of this height.
pub fn page(height: u16) -> usize {
    usize::from(height.saturating_sub(HEAD + 1))
}

/// Draws everything.
pub fn frame(frame: &mut Frame<'_>, state: &State, colours: Colours) {
    let [figures, bar, heads, table, foot] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(0),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    let Some(listing) = state.listing() else {
        frame.render_widget(Paragraph::new("waiting for the broker"), figures);
        frame.render_widget(foot_line(state, foot.width), foot);
        return;
    };
    let width = usize::from(figures.width);
    frame.render_widget(Paragraph::new(figure_lines(listing, state, width)), figures);
    frame.render_widget(bar_line(listing, bar.width, colours), bar);
    if state.help {
        frame.render_widget(Paragraph::new(help_lines()), table);
    } else if let Some(principal) = state.selected().filter(|_| state.collector) {
        let style = Style::new().add_modifier(Modifier::REVERSED);
        let head = Line::from(page::head(principal, usize::from(heads.width)));
        frame.render_widget(Paragraph::new(head).style(style), heads);
        let lines = page::lines(principal, listing).into_iter();
        let lines: Vec<Line<'_>> = lines.map(Line::from).collect();
        frame.render_widget(Paragraph::new(lines), table);
    } else {
        draw_table(frame, state, colours, heads, table);
    }
    frame.render_widget(foot_line(state, foot.width), foot);
}

fn figure_lines(listing: &Listing, state: &State, width: usize) -> Vec<Line<'static>> {
    let count = state.rows().len();
    let beyond = match listing.left_out {
        0 => String::new(),
        left_out => format!(" of {}", left_out.saturating_add(count as u64)),
    };
    let plural = if count == 1 { "" } else { "s" };
    let name = "plimsoll";
    let mut parts = [
        format!(" {}", shown(&listing.version, 16)),
        format!("  {} {}", listing.domain, Human(listing.capacity)),
        format!("  {count}{beyond} principal{plural}"),
        format!(", sorted by {}", state.order.name()),
    ];
    // The path is what is shortened first, at its front: its end tells groups apart.
    let all: usize = parts.iter().map(|part| part.chars().count()).sum();
    let over = (name.len() + all).saturating_sub(width);
    let path = listing.domain.chars().count().saturating_sub(over);
    let path = ending(&listing.domain, path.max(LEAST_PATH));
    parts[1] = format!("  {path} {}", Human(listing.capacity));
    let head = fitting(&parts, &[3, 0, 2], "", width.saturating_sub(name.len()));
    let number = |name: &str, bytes: u64| format!("{name} {}", Human(bytes));
    let figures = [
        number("outsiders", listing.outsiders),
        number("reserve", listing.reserve),
        number("budget", listing.budget),
        number("uses", total(listing, |p| p.uses)),
        number("owed", total(listing, |p| p.owed)),
    ];
    vec![
        Line::from(vec![
            Span::styled(name, Style::new().add_modifier(Modifier::BOLD)),
            Span::raw(head),
        ]),
        Line::from(fitting(&figures, &[1, 0, 4, 3], "  ", width)),
    ]
}

/// The capacity as a bar: outsiders, principals, what is free, the reserve.
fn bar_line(listing: &Listing, width: u16, colours: Colours) -> Line<'static> {
    let inner = usize::from(width.saturating_sub(2));
    let capacity = listing.capacity.max(1) as f64;
    let cells = |bytes: u64| ((bytes as f64 / capacity) * inner as f64).round() as usize;
    let reserve = cells(listing.reserve).min(inner);
    let outsiders = cells(listing.outsiders).min(inner - reserve);
    let used = cells(total(listing, |p| p.uses)).min(inner - reserve - outsiders);
    let free = inner - reserve - outsiders - used;
    Line::from(vec![
        Span::raw("["),
        Span::styled("▒".repeat(outsiders), colours.paint(Color::Blue)),
        Span::styled("█".repeat(used), colours.paint(Color::Green)),
        Span::raw(" ".repeat(free)),
        Span::styled("░".repeat(reserve), colours.paint(Color::Yellow)),
        Span::raw("]"),
    ])
}

fn draw_table(frame: &mut Frame<'_>, state: &State, colours: Colours, heads: Rect, area: Rect) {
    let columns = columns::of(state, usize::from(area.width));
    let style = Style::new().add_modifier(Modifier::REVERSED);
    frame.render_widget(Paragraph::new(columns.head()).style(style), heads);
    let faults = state.faults();
    let lines: Vec<Line<'_>> = state
        .rows()
        .into_iter()
        .skip(state.offset)
        .take(usize::from(area.height))
        .map(|row| row_line(row, state, &faults, &columns, colours))
        .collect();
    if lines.is_empty() {
        let hint = "no principals: start a program with `plimsoll run PROGRAM`";
        frame.render_widget(Paragraph::new(hint), area);
        return;
    }
    frame.render_widget(Paragraph::new(lines), area);
}

fn row_line<'a>(
    row: Row<'a>,
    state: &State,
    faults: &Faults,
    columns: &Columns,
    colours: Colours,
) -> Line<'a> {
    let p = row.principal;
    let (mark, colour) = match p.level {
        Level::Normal => (' ', None),
        Level::Warning => ('!', Some(Color::Yellow)),
        Level::Critical => ('*', Some(Color::Red)),
    };
    let text = columns.row(row, mark, faults);
    let mut style = colour.map_or(Style::new(), |colour| colours.paint(colour));
    if p.level != Level::Normal {
        style = style.add_modifier(Modifier::BOLD);
    }
    if state.selected == Some(p.id) {
        style = style.add_modifier(Modifier::REVERSED);
    }
    // A remark that has no room is left out; it is never cut.
    let room = columns.history.saturating_sub(1);
    let mut told = String::from(" ");
    let remarks = remarks(p);
    let floor = Some(level(p)).filter(|&level| level == "floor");
    for remark in remarks
        .split(", ")
        .filter(|remark| !remark.is_empty())
        .chain(floor)
    {
        if told.chars().count() + remark.chars().count() <= room {
            told += &format!("{remark} ");
        }
    }
    let left = columns.history.saturating_sub(told.chars().count());
    let history = sparkline(&state.history(p.id, left), p.limit);
    Line::from(vec![
        Span::styled(text, style),
        Span::styled(if room > 0 { told } else { String::new() }, style),
        Span::styled(history, colours.paint(Color::Cyan)),
    ])
}

/// The use over time, relative to the highest use or the present limit.
fn sparkline(history: &[Option<u64>], limit: u64) -> String {
    const STEPS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = history
        .iter()
        .flatten()
        .copied()
        .max()
        .unwrap_or(0)
        .max(limit)
        .max(1);
    let step = |uses: u64| STEPS[((uses as f64 / most as f64) * 7.0).round() as usize & 7];
    history.iter().map(|uses| uses.map_or(' ', step)).collect()
}

fn help_lines() -> Vec<Line<'static>> {
    [
        " ID       its number, for `plimsoll set`    PID    its process",
        " WT(PRIO) weight against its siblings, and priority class where it is not 0",
        " USES     bytes accounted to it (a group: to all below it)",
        " LIMIT    bytes it may use now          COULD  bytes it could have if it asked",
        " OWES     bytes it must give back       WSET   bytes it touched recently",
        " FLT/S    major faults a second         HISTORY what it used, newest right",
        " N stalls/s  it waited for memory within its limit, which does not rise meanwhile",
        " floor    it has more than it should, and cannot go lower",
        " agent    a Java program has our agent in it",
        " !        at its limit, or owing with time left     *  owing and late",
        " the bar  ▒ outsiders  █ principals  ░ reserve",
        "",
        " up down page-up page-down home end   select a row",
        " + -      more or less weight, by a tenth",
        " p P      higher or lower priority",
        " s        sort by arrival, name, uses, owes, faults",
        " g enter  the row's details: what its collector tells, and what is read again",
        " h        this help        q        quit",
    ]
    .into_iter()
    .map(Line::from)
    .collect()
}

fn foot_line(state: &State, width: u16) -> Line<'static> {
    const KEYS: [&str; 7] = [
        "↑↓ select",
        "+- weight",
        "pP priority",
        "s sort",
        "g details",
        "h help",
        "q quit",
    ];
    match &state.message {
        Some(message) => {
            let style = Style::new().add_modifier(Modifier::BOLD);
            Line::from(Span::styled(shown(message, 500), style))
        }
        None => {
            let dropped = [2, 3, 1, 0, 4];
            Line::from(fitting(
                &KEYS.map(str::to_owned),
                &dropped,
                "  ",
                width.into(),
            ))
        }
    }
}

#[cfg(test)]
#[path = "render_tests.rs"]
mod tests;
