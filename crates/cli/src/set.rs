//! `plimsoll set`: changes a principal, given by name or number.

use crate::args;
use crate::broker_connection::Control;
use crate::error::CliError;
use crate::rows::{Faults, Order, find, rows, shown};
use crate::size::Human;
use plimsoll_unit::Bytes;
use plimsoll_wire::messages::{Id, Listing, Max, Set};
use plimsoll_wire::varlink::WireError;
use std::fmt::Write as _;

/// Asks the broker to change a principal.
///
/// # Errors
/// When no broker answers, when no principal or several have the name, or when the broker refuses.
pub fn run(control: &mut Control, args: &args::Set) -> Result<(), CliError> {
    let listing = control.list()?;
    let parent = args
        .parent
        .as_deref()
        .map(|parent| resolve(&listing, parent))
        .transpose()?;
    let id = resolve(&listing, &args.which)?;
    if let Some(parent) = parent {
        check_parent(&listing, id, parent)?;
    }
    let max = args
        .max
        .map(|max| Max::or_none(max.bytes(Bytes(listing.capacity))));
    let refused = |error: WireError| CliError::Refused(error.message);
    let set = Set {
        id,
        weight: args.weight,
        priority: args.priority,
        own_weight: args.own_weight,
        own_priority: args.own_priority,
        max: max.transpose().map_err(refused)?,
        parent,
    };
    control.set(&set)?;
    if !args.quiet {
        crate::output::say(format_args!("{}", changes(&listing, &set)));
    }
    Ok(())
}

/// Refuses a parent that is the principal itself or below it, by its names.
fn check_parent(listing: &Listing, id: Id, parent: Id) -> Result<(), CliError> {
    let all = rows(listing, Order::Arrival, &Faults::new());
    let Some(at) = all.iter().position(|row| row.principal.id == id) else {
        return Ok(());
    };
    let own = all[at];
    let name = shown(&own.principal.name, 64);
    if id == parent {
        return Err(CliError::Usage(format!(
            "`{name}` cannot be its own parent"
        )));
    }
    let below = all[at + 1..].iter().take_while(|row| row.depth > own.depth);
    match below.into_iter().find(|row| row.principal.id == parent) {
        None => Ok(()),
        Some(found) => Err(CliError::Usage(format!(
            "`{name}` cannot move below `{}`, which is below it",
            shown(&found.principal.name, 64)
        ))),
    }
}

/// The changes: each value before and after.
fn changes(listing: &Listing, set: &Set) -> String {
    let name = |id: Id| {
        let found = find(listing, id);
        found.map_or_else(|| id.to_string(), |p| format!("`{}`", shown(&p.name, 64)))
    };
    let before = find(listing, set.id).cloned().unwrap_or_default();
    let bound =
        |max: Option<Bytes>| max.map_or_else(|| "none".to_owned(), |max| Human(max.0).to_string());
    let mut changed = Vec::new();
    if let Some(weight) = set.weight {
        changed.push(format!("weight {} -> {weight}", before.weight));
    }
    if let Some(priority) = set.priority {
        changed.push(format!("priority {} -> {priority}", before.priority));
    }
    // Listings do not tell the values before.
    if let Some(weight) = set.own_weight {
        changed.push(format!("own weight {weight}"));
    }
    if let Some(priority) = set.own_priority {
        changed.push(format!("own priority {priority}"));
    }
    if let Some(max) = set.max {
        changed.push(format!(
            "max {} -> {}",
            bound(before.max.map(Bytes)),
            bound(max.bytes())
        ));
    }
    if let Some(parent) = set.parent {
        changed.push(format!("now below {}", name(parent)));
    }
    format!("{}: {}", name(set.id), changed.join(", "))
}

/// Finds a principal by name, or else by number.
///
/// # Errors
/// When no principal or several have the name.
pub fn resolve(listing: &Listing, which: &str) -> Result<Id, CliError> {
    let all = rows(listing, Order::Arrival, &Faults::new());
    let named: Vec<_> = all
        .iter()
        .filter(|row| row.principal.name == which)
        .collect();
    match named.as_slice() {
        [only] => return Ok(only.principal.id),
        [] => {}
        several => {
            let mut candidates = String::new();
            for row in several {
                let p = row.principal;
                let pid = p.pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string());
                let name = shown(&p.name, 64);
                let _ = writeln!(
                    candidates,
                    "  {}  {name}  pid {pid}  uses {}",
                    p.id,
                    Human(p.uses)
                );
            }
            let candidates = candidates.trim_end().to_owned();
            return Err(CliError::Ambiguous {
                name: which.to_owned(),
                candidates,
            });
        }
    }
    let number: Option<Id> = which.parse().ok();
    all.iter()
        .map(|row| row.principal.id)
        .find(|&id| Some(id) == number)
        .ok_or_else(|| CliError::NoSuchPrincipal(shown(which, 64)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::tests::sample;
    use plimsoll_wire::messages::{Priority, Weight};

    #[test]
    fn finds_by_name_then_by_number() {
        let mut listing = sample();
        assert_eq!(resolve(&listing, "search").unwrap(), 4);
        assert_eq!(resolve(&listing, "3").unwrap(), 3);
        listing.principals[0].name = "3".into();
        assert_eq!(resolve(&listing, "3").unwrap(), 1);
    }

    #[test]
    fn several_of_a_name_are_listed() {
        let mut listing = sample();
        listing.principals[0].name = "search".into();
        let error = resolve(&listing, "search").unwrap_err().to_string();
        assert!(error.contains("  1  search  pid 99  uses 64.0M"), "{error}");
        assert!(
            error.contains("  4  search  pid 4712  uses 900M"),
            "{error}"
        );
    }

    #[test]
    fn a_parent_below_is_refused_by_name() {
        let refused = |id, parent| {
            let refused = check_parent(&sample(), id, parent);
            refused.map_err(|error| error.to_string())
        };
        assert_eq!(refused(2, 2), Err("`demo` cannot be its own parent".into()));
        let below = "`demo` cannot move below `search`, which is below it";
        assert_eq!(refused(2, 4), Err(below.into()));
        assert_eq!(
            (refused(4, 1), refused(2, 1), refused(1, 2)),
            (Ok(()), Ok(()), Ok(()))
        );
    }

    #[test]
    fn what_was_changed_is_told() {
        let set = Set {
            id: 4,
            weight: Weight::new(10).ok(),
            own_weight: Weight::new(30).ok(),
            own_priority: Priority::new(-2).ok(),
            max: Max::or_none(Bytes::ZERO).ok(),
            parent: Some(1),
            ..Set::default()
        };
        assert_eq!(
            changes(&sample(), &set),
            "`search`: weight 40 -> 10, own weight 30, own priority -2, max 1.00G -> none, \
             now below `an editor with a rather long name`"
        );
    }

    #[test]
    fn nobody_is_said() {
        let error = resolve(&sample(), "x\x1b[2J").unwrap_err().to_string();
        assert_eq!(
            error,
            "no principal is called `x?[2J`; `plimsoll ps` lists them"
        );
        assert!(resolve(&sample(), "99").is_err());
    }
}
