//! Draws one frame from the state alone.

use super::page;
use super::state::State;
use crate::rows::{Faults, Row, level, remarks, shown, standing, total};
use crate::size::Human;
use plimsoll_wire::messages::Listing;
use plimsoll_wire::page::Level;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

/// Columns right of the name, history excluded.
const FIXED: usize = 1 + 9 + 7 * 6 - 1;
/// The name column on the narrowest screen.
const NAME_WIDTH: usize = 18;
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
        frame.render_widget(foot_line(state), foot);
        return;
    };
    frame.render_widget(Paragraph::new(figure_lines(listing, state)), figures);
    frame.render_widget(bar_line(listing, bar.width, colours), bar);
    if state.help {
        frame.render_widget(Paragraph::new(help_lines()), table);
    } else if let Some(principal) = state.selected().filter(|_| state.collector) {
        let style = Style::new().add_modifier(Modifier::REVERSED);
        let head = Line::from(page::head(principal, usize::from(heads.width)));
        frame.render_widget(Paragraph::new(head).style(style), heads);
        let lines: Vec<Line<'_>> = page::lines(principal).into_iter().map(Line::from).collect();
        frame.render_widget(Paragraph::new(lines), table);
    } else {
        draw_table(frame, state, colours, heads, table);
    }
    frame.render_widget(foot_line(state), foot);
}

fn figure_lines(listing: &Listing, state: &State) -> Vec<Line<'static>> {
    let count = state.rows().len();
    let beyond = match listing.left_out {
        0 => String::new(),
        left_out => format!(" of {}", left_out.saturating_add(count as u64)),
    };
    let owed = total(listing, |p| p.owed);
    vec![
        Line::from(vec![
            Span::styled("plimsoll", Style::new().add_modifier(Modifier::BOLD)),
            Span::raw(format!(
                " {}  {} {}  {count}{beyond} principal{}, sorted by {}",
                shown(&listing.version, 16),
                shown(&listing.domain, 30),
                Human(listing.capacity),
                if count == 1 { "" } else { "s" },
                state.order.name(),
            )),
        ]),
        Line::from(format!(
            "outsiders {}  reserve {}  budget {}  uses {}  owed {}",
            Human(listing.outsiders),
            Human(listing.reserve),
            Human(listing.budget),
            Human(total(listing, |p| p.uses)),
            Human(owed),
        )),
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
    let widths = Widths::of(usize::from(area.width));
    let style = Style::new().add_modifier(Modifier::REVERSED);
    frame.render_widget(Paragraph::new(head_line(widths)).style(style), heads);
    let faults = state.faults();
    let lines: Vec<Line<'_>> = state
        .rows()
        .into_iter()
        .skip(state.offset)
        .take(usize::from(area.height))
        .map(|row| row_line(row, state, &faults, widths, colours))
        .collect();
    if lines.is_empty() {
        let hint = "no principals: start a program with `plimsoll run PROGRAM`";
        frame.render_widget(Paragraph::new(hint), area);
        return;
    }
    frame.render_widget(Paragraph::new(lines), area);
}

/// The widths of names and histories, which share the columns that are not fixed.
#[derive(Clone, Copy)]
struct Widths {
    name: usize,
    history: usize,
}

impl Widths {
    fn of(width: usize) -> Widths {
        let spare = width.saturating_sub(FIXED + NAME_WIDTH);
        let extra_name = spare.saturating_sub(10).min(60) / 3;
        Widths {
            name: NAME_WIDTH + extra_name,
            history: spare - extra_name,
        }
    }
}

fn head_line(widths: Widths) -> String {
    format!(
        " {:<name$}{:>9}{:>7}{:>7}{:>7}{:>7}{:>7}{:>6} {:<history$}",
        "NAME",
        "WT(PRIO)",
        "USES",
        "LIMIT",
        "COULD",
        "OWES",
        "WSET",
        "FLT/S",
        "HISTORY",
        name = widths.name,
        history = widths.history.saturating_sub(1),
    )
}

fn row_line<'a>(
    row: Row<'a>,
    state: &State,
    faults: &Faults,
    widths: Widths,
    colours: Colours,
) -> Line<'a> {
    let p = row.principal;
    let (mark, colour) = match p.level {
        Level::Normal => (' ', None),
        Level::Warning => ('!', Some(Color::Yellow)),
        Level::Critical => ('*', Some(Color::Red)),
    };
    let indent = (row.depth * 2).min(widths.name / 2);
    let name = shown(&p.name, widths.name - indent);
    let rate = faults
        .get(&p.id)
        .map_or_else(|| "-".to_owned(), |&rate| rate_text(rate));
    let working_set = p
        .working_set
        .map_or_else(|| "-".to_owned(), |b| Human(b).to_string());
    let text = format!(
        "{mark}{:indent$}{:<width$}{:>9}{:>7}{:>7}{:>7}{:>7}{:>7}{:>6} ",
        "",
        name,
        standing(p),
        Human(p.uses),
        Human(p.limit),
        Human(p.available),
        Human(p.owed),
        working_set,
        rate,
        width = widths.name - indent,
    );
    let mut style = colour.map_or(Style::new(), |colour| colours.paint(colour));
    if p.level != Level::Normal {
        style = style.add_modifier(Modifier::BOLD);
    }
    if state.selected == Some(p.id) {
        style = style.add_modifier(Modifier::REVERSED);
    }
    let floor = (level(p) == "floor").then(|| "floor ".to_owned());
    let remarks = match remarks(p) {
        none if none.is_empty() => floor.unwrap_or_default(),
        some => format!("{some} {}", floor.unwrap_or_default()),
    };
    let history = widths.history.saturating_sub(1 + remarks.len());
    let history = sparkline(&state.history(p.id, history), p.limit);
    Line::from(vec![
        Span::styled(text, style),
        Span::styled(remarks, style),
        Span::styled(history, colours.paint(Color::Cyan)),
    ])
}

fn rate_text(rate: f64) -> String {
    match rate {
        r if r < 0.05 => "0".into(),
        r if r < 99.5 => format!("{r:.1}"),
        r if r < 99_999.0 => format!("{r:.0}"),
        r => format!("{:.0}k", r / 1000.0),
    }
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
        " g enter  the row's collector: pauses, faults, what it passes over in swap",
        " h        this help        q        quit",
    ]
    .into_iter()
    .map(Line::from)
    .collect()
}

fn foot_line(state: &State) -> Line<'static> {
    const KEYS: &str = "↑↓ select  +- weight  pP priority  s sort  g collector  h help  q quit";
    match &state.message {
        Some(message) => {
            let style = Style::new().add_modifier(Modifier::BOLD);
            Line::from(Span::styled(shown(message, 500), style))
        }
        None => Line::from(KEYS),
    }
}

#[cfg(test)]
#[path = "render_tests.rs"]
mod tests;
