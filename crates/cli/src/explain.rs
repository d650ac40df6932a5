//! `plimsoll explain`: why a principal may use as much as it may, who has the rest, and what would help.
//! The broker gives the numbers that it decided by; the sentences are a pure function of its listing.

use crate::args;
use crate::broker_connection::Control;
use crate::error::CliError;
use crate::json;
use crate::rows::{Faults, Order, rows, shown};
use crate::set::resolve;
use crate::size::Human;
use crate::terminal_text::{width, wrap};
use plimsoll_wire::messages::{Id, Kind, Listing, Principal};
use serde::Serialize;

/// Most others that are named.
const NAMED: usize = 4;
/// Bytes that make no difference to a reader.
const SLIGHT: u64 = 1 << 20;

/// The reason for the limit of a principal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// A group: its limit is the sum of those below it.
    Group,
    /// It has no process.
    NoProcess,
    /// Its own maximum, or that of a group above it.
    Maximum,
    /// It uses more than it should, and somebody lacks that.
    Owes,
    /// It uses more than it should, and cannot go lower.
    AtLeast,
    /// Allocation stalls within its limit.
    Stalls,
    /// It lacks memory that others still hold.
    Lacks,
    /// It wants no more.
    Content,
    /// Others lend it more than its share.
    Lent,
    /// Its weighted share.
    Share,
}

/// Another principal and what it holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Other {
    /// Its number.
    pub id: Id,
    /// Its name.
    pub name: String,
    /// The greater of its use and its limit, bytes.
    pub holds: u64,
    /// Bytes that it uses.
    pub uses: u64,
}

/// The answer. Fields may be added, but none is removed or changes its meaning.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// Its number.
    pub id: Id,
    /// Its name.
    pub name: String,
    /// Bytes that it uses, may use, can make use of, and is guaranteed by its weight.
    pub uses: u64,
    /// As above.
    pub limit: u64,
    /// As above.
    pub demand: u64,
    /// As above.
    pub share: u64,
    /// The reason for its limit.
    pub reason: Reason,
    /// The others that hold most, most first.
    pub others: Vec<Other>,
    /// Bytes that are shared out.
    pub budget: u64,
    /// Bytes of the budget that nobody uses.
    pub unused: u64,
    /// The same for people.
    pub sentences: Vec<String>,
}

/// Asks the broker, and prints the answer.
///
/// # Errors
/// When no broker answers, or when no principal or several have the name.
pub fn run(control: &mut Control, args: &args::Explain) -> Result<String, CliError> {
    let listing = control.list()?;
    let id = resolve(&listing, &args.which)?;
    let explanation =
        explain(&listing, id).ok_or_else(|| CliError::NoSuchPrincipal(id.to_string()))?;
    Ok(if args.json {
        json::pretty(&explanation)
    } else {
        text(&explanation)
    })
}

/// The sentences, wrapped.
pub fn text(explanation: &Explanation) -> String {
    let mut text = String::new();
    for sentence in &explanation.sentences {
        wrap(&mut text, "", sentence, 2, width());
    }
    text
}

/// Explains the limit of a principal; `None` when the listing does not have it.
pub fn explain(listing: &Listing, id: Id) -> Option<Explanation> {
    let line = line_to(&listing.principals, id)?;
    let it = *line.last()?;
    let reason = reason(&line);
    let others = others(listing, &line);
    let used: u64 = leaves(listing).map(|p| p.uses).fold(0, u64::saturating_add);
    let unused = listing.budget.saturating_sub(used);
    let mut sentences = vec![
        state(it),
        why(&line, reason),
        rest(listing, &others, unused),
    ];
    sentences.extend(help(&line, reason, &others));
    Some(Explanation {
        id,
        name: it.name.clone(),
        uses: it.uses,
        limit: it.limit,
        demand: it.demand,
        share: it.share,
        reason,
        others,
        budget: listing.budget,
        unused,
        sentences,
    })
}

/// The principals from the top down to that one.
fn line_to(siblings: &[Principal], id: Id) -> Option<Vec<&Principal>> {
    siblings.iter().find_map(|one| {
        if one.id == id {
            return Some(vec![one]);
        }
        let mut below = line_to(&one.children, id)?;
        below.insert(0, one);
        Some(below)
    })
}

fn leaves(listing: &Listing) -> impl Iterator<Item = &Principal> {
    let all = rows(listing, Order::Arrival, &Faults::new()).into_iter();
    all.map(|row| row.principal)
        .filter(|p| p.kind == Kind::Process)
}

/// The nearest one of the line whose maximum is used up by the limits below it.
fn full<'a>(line: &[&'a Principal]) -> Option<&'a Principal> {
    let is_full = |p: &&&Principal| {
        let limits = match p.kind {
            Kind::Group => p.limit,
            Kind::Process => p.limit.saturating_add(sum(&p.children, |p| p.limit)),
        };
        let held = limits.max(p.uses);
        p.max
            .is_some_and(|max| held.saturating_add(max / 64) >= max)
    };
    line.iter().rev().find(is_full).copied()
}

fn sum(principals: &[Principal], number: impl Fn(&Principal) -> u64) -> u64 {
    principals.iter().map(number).fold(0, u64::saturating_add)
}

fn reason(line: &[&Principal]) -> Reason {
    let Some(it) = line.last() else {
        return Reason::Share;
    };
    let wants_more = it.demand > it.limit.saturating_add(SLIGHT.max(it.limit / 64));
    match it {
        _ if it.kind == Kind::Group => Reason::Group,
        _ if it.pid.is_none() => Reason::NoProcess,
        _ if full(line).is_some() && (wants_more || it.owed > 0) => Reason::Maximum,
        _ if it.owed > 0 => Reason::Owes,
        _ if it.at_least => Reason::AtLeast,
        _ if it.doubted => Reason::Stalls,
        _ if it.lacks > SLIGHT => Reason::Lacks,
        _ if !wants_more => Reason::Content,
        _ if it.limit > it.share.saturating_add(SLIGHT) => Reason::Lent,
        _ => Reason::Share,
    }
}

fn others(listing: &Listing, line: &[&Principal]) -> Vec<Other> {
    let own = line.last().map(|it| it.id);
    let mut others: Vec<Other> = leaves(listing)
        .filter(|p| Some(p.id) != own)
        .map(|p| Other {
            id: p.id,
            name: p.name.clone(),
            holds: p.uses.max(p.limit),
            uses: p.uses,
        })
        .collect();
    others.sort_by_key(|other| (std::cmp::Reverse(other.holds), other.id));
    others
}

fn name(p: &Principal) -> String {
    format!("`{}`", shown(&p.name, 40))
}

fn state(it: &Principal) -> String {
    let owes = match it.owed {
        0 => String::new(),
        owed => format!(", and owes {}", Human(owed)),
    };
    format!(
        "{} (number {}, weight {}) uses {} and may use {}{owes}.",
        name(it),
        it.id,
        it.weight,
        Human(it.uses),
        Human(it.limit)
    )
}

fn why(line: &[&Principal], reason: Reason) -> String {
    let Some(it) = line.last() else {
        return String::new();
    };
    let share = Human(it.share);
    match reason {
        Reason::Group => "It is a group: its limit is the sum of those below it.".into(),
        Reason::NoProcess => "It has no process yet, and gets memory when it has one.".into(),
        Reason::Maximum => {
            let full = full(line).unwrap_or(it);
            let max = Human(full.max.unwrap_or(0));
            if full.id == it.id {
                format!("That is because its maximum is {max}.")
            } else {
                format!(
                    "That is because the maximum of {}, above it, is {max}.",
                    name(full)
                )
            }
        }
        Reason::Owes => format!(
            "It should come down to {}: another program is near its limit and wants more, or the budget \
             shrank. Its guaranteed share is {share}.",
            Human(it.target)
        ),
        Reason::AtLeast => format!(
            "It should have {}, but cannot go lower than it is. It keeps that while nobody waits for what \
             is guaranteed to them.",
            Human(it.target)
        ),
        Reason::Stalls => {
            "It waits for memory although it keeps to its limit, so the limit does not rise \
                           meanwhile."
                .into()
        }
        Reason::Lacks => format!(
            "It wants more, and should get {} more. Others still hold that, and were asked for it. Its \
             guaranteed share is {share}.",
            Human(it.lacks)
        ),
        Reason::Content => {
            "It wants no more than that: the rest is for those who can make use of it.".into()
        }
        Reason::Lent => format!(
            "Its guaranteed share by weight is {share}. The rest is lent by others, who want less than \
             theirs."
        ),
        Reason::Share => format!(
            "That is its share by weight ({share}) of what is free now, among those who want memory."
        ),
    }
}

fn rest(listing: &Listing, others: &[Other], unused: u64) -> String {
    let told: Vec<String> = others
        .iter()
        .filter(|other| other.holds > SLIGHT)
        .take(NAMED)
        .map(|other| {
            let name = shown(&other.name, 40);
            if other.holds > other.uses.saturating_add(SLIGHT) {
                format!(
                    "`{name}` uses {} of {}",
                    Human(other.uses),
                    Human(other.holds)
                )
            } else {
                format!("`{name}` uses {}", Human(other.uses))
            }
        })
        .collect();
    let left = others.iter().filter(|other| other.holds > SLIGHT).count();
    let more = match left.saturating_sub(told.len()) {
        0 => String::new(),
        more => format!(", {more} more less than these"),
    };
    let others = if told.is_empty() {
        "nobody else has any".to_owned()
    } else {
        told.join(", ") + &more
    };
    format!(
        "Of the budget of {}, {others}; {} are used by nobody. Programs outside use {}.",
        Human(listing.budget),
        Human(unused),
        Human(listing.outsiders)
    )
}

/// Advice that would give it more memory; none where it has all that it wants.
fn help(line: &[&Principal], reason: Reason, others: &[Other]) -> Option<String> {
    let it = line.last()?;
    let weight = (it.weight.saturating_mul(2)).min(10_000);
    let more_weight = format!(
        "`plimsoll set {} --weight {weight}` would double its share against its siblings",
        it.id
    );
    Some(match reason {
        Reason::Group | Reason::NoProcess | Reason::Content | Reason::AtLeast => return None,
        Reason::Maximum => {
            let full = full(line).unwrap_or(it);
            format!(
                "A higher maximum would help: `plimsoll set {} --max SIZE`.",
                full.id
            )
        }
        Reason::Stalls => {
            "Less memory of programs that are not under the broker would help, or swap.".into()
        }
        Reason::Owes | Reason::Lacks | Reason::Lent | Reason::Share if others.is_empty() => {
            "Less memory of programs outside would help: nobody else shares the budget.".into()
        }
        Reason::Lent => {
            format!("To keep what is lent when others want it, more weight: {more_weight}.")
        }
        Reason::Owes | Reason::Lacks | Reason::Share => {
            format!("More weight would help: {more_weight}.")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::tests::sample;

    use plimsoll_unit::MIB;

    /// The principal that `sample` calls `index`, changed.
    fn of_index(change: impl Fn(&mut Principal)) -> Explanation {
        let mut listing = sample();
        let index = &mut listing.principals[1].children[1];
        index.demand = u64::MAX;
        change(index);
        explain(&listing, 3).expect("it is there")
    }

    #[test]
    fn each_limit_has_its_reason() {
        type Case = (fn(&mut Principal), Reason, &'static str);
        let cases: [Case; 9] = [
            (|_| {}, Reason::Share, "set 3 --weight 20"),
            (|p| p.limit = 300 * MIB, Reason::Lent, "lent by others"),
            (|p| p.demand = 214 * MIB, Reason::Content, "wants no more"),
            (|p| p.lacks = 50 * MIB, Reason::Lacks, "50.0M more"),
            (|p| p.owed = 50 * MIB, Reason::Owes, "and owes 50.0M"),
            (|p| p.at_least = true, Reason::AtLeast, "cannot go lower"),
            (|p| p.doubted = true, Reason::Stalls, "does not rise"),
            (|p| p.pid = None, Reason::NoProcess, "no process"),
            (|p| p.max = Some(214 * MIB), Reason::Maximum, "set 3 --max"),
        ];
        for (change, reason, words) in cases {
            let explanation = of_index(change);
            let all = explanation.sentences.join(" ");
            assert_eq!(explanation.reason, reason, "{all}");
            assert!(all.contains(words), "{reason:?}: {all}");
        }
    }

    #[test]
    fn a_maximum_above_it_is_named() {
        let mut listing = sample();
        listing.principals[1].max = Some(1071 * MIB);
        listing.principals[1].children[1].demand = u64::MAX;
        let explanation = explain(&listing, 3).expect("it is there");
        assert_eq!(explanation.reason, Reason::Maximum);
        let all = explanation.sentences.join(" ");
        assert!(
            all.contains("maximum of `demo`, above it, is 1.05G"),
            "{all}"
        );
        assert!(all.contains("set 2 --max"), "{all}");
    }

    #[test]
    fn it_fits_a_terminal_and_says_who_has_the_rest() {
        let explanation = of_index(|_| {});
        let text = text(&explanation);
        assert!(
            text.lines().all(|line| line.chars().count() <= width()),
            "{text}"
        );
        let expected = "\
`index` (number 3, weight 10) uses 212M and may use 214M.
That is its share by weight (214M) of what is free now, among those who want
  memory.
Of the budget of 3.24G, `search` uses 900M, `an editor with a rather long name`
  uses 64.0M of 90.0M; 2.09G are used by nobody. Programs outside use 700M.
More weight would help: `plimsoll set 3 --weight 20` would double its share
  against its siblings.
";
        assert_eq!(text, expected);
        let value: serde_json::Value = serde_json::from_str(&json::pretty(&explanation)).unwrap();
        assert_eq!(value["reason"], "share");
        assert_eq!(value["others"][0]["name"], "search");
    }

    #[test]
    fn names_cannot_steer_the_terminal() {
        let explanation = of_index(|p| p.name = "a\u{1b}[2J".into());
        assert!(text(&explanation).contains("`a?[2J`"));
    }
}
