//! The interface file and the code agree: methods, errors, and every field with its type.

use plimsoll_unit::Bytes;
use plimsoll_wire::messages::{
    Adapt, Adapter, Attach, CgroupPath, Changed, Contain, Kind, Listing, Max, Name, Nothing, Order,
    Pinned, Principal, Priority, Refaulted, Refaults, Register, Registered, Released, Report,
    Revocations, Set, Statistics, Watch, Weight, Which,
};
use plimsoll_wire::page::{Level, Numbers};
use plimsoll_wire::varlink::{DESCRIPTION, ErrorName, INTERFACE, Method, service};
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The fields of one pair of parentheses: `name -> type`.
type Fields = BTreeMap<String, String>;

/// A parsed interface file.
#[derive(Debug, Default)]
struct Interface {
    name: String,
    types: BTreeMap<String, Fields>,
    enums: BTreeMap<String, BTreeSet<String>>,
    methods: BTreeMap<String, (Fields, Fields)>,
    errors: BTreeMap<String, Fields>,
}

fn parse(text: &str) -> Interface {
    let code: String = text
        .lines()
        .map(|line| line.split('#').next().unwrap_or(""))
        .collect::<Vec<_>>()
        .join("\n");
    let mut interface = Interface::default();
    let mut rest = code.trim();
    while !rest.is_empty() {
        let (keyword, tail) = rest.split_once(char::is_whitespace).unwrap();
        let end = tail
            .find(|c: char| !c.is_alphanumeric() && c != '.')
            .unwrap_or(tail.len());
        let name = tail[..end].to_owned();
        rest = tail[end..].trim_start();
        match keyword {
            "interface" => interface.name = name,
            "type" => {
                let (inside, after) = parenthesis(rest);
                rest = after;
                if inside.contains(':') {
                    drop(interface.types.insert(name, fields(inside)));
                } else {
                    let values = inside.split(',').map(|v| v.trim().to_owned()).collect();
                    interface.enums.insert(name, values);
                }
            }
            "method" => {
                let (asks, after) = parenthesis(rest);
                let (answers, after) = parenthesis(after.strip_prefix("->").unwrap().trim_start());
                rest = after;
                interface
                    .methods
                    .insert(name, (fields(asks), fields(answers)));
            }
            "error" => {
                let (inside, after) = parenthesis(rest);
                rest = after;
                interface.errors.insert(name, fields(inside));
            }
            other => panic!("unknown keyword {other:?}"),
        }
    }
    interface
}

fn parenthesis(text: &str) -> (&str, &str) {
    let inside = text.strip_prefix('(').unwrap();
    let end = inside.find(')').unwrap();
    (&inside[..end], inside[end + 1..].trim_start())
}

fn fields(inside: &str) -> Fields {
    inside
        .split(',')
        .filter(|field| !field.trim().is_empty())
        .map(|field| {
            let (name, kind) = field.split_once(':').unwrap();
            (name.trim().to_owned(), kind.trim().to_owned())
        })
        .collect()
}

/// Whether `value` has the declared type; `null` is valid where the type has a question mark.
fn fits(interface: &Interface, kind: &str, value: &Value) -> bool {
    if let Some(inner) = kind.strip_prefix('?') {
        return value.is_null() || fits(interface, inner, value);
    }
    if let Some(inner) = kind.strip_prefix("[]") {
        let items = value.as_array();
        return items.is_some_and(|items| items.iter().all(|item| fits(interface, inner, item)));
    }
    match kind {
        "int" => value.is_i64() || value.is_u64(),
        "string" => value.is_string(),
        "bool" => value.is_boolean(),
        named => match interface.enums.get(named) {
            Some(values) => value.as_str().is_some_and(|value| values.contains(value)),
            None => agrees(interface, &interface.types[named], value).is_ok(),
        },
    }
}

fn agrees(interface: &Interface, declared: &Fields, value: &Value) -> Result<(), String> {
    let object = value.as_object().ok_or("not an object")?;
    // A parameter that older brokers do not know is left out where it is absent.
    let newer = |field: &str| {
        let kind = declared.get(field).filter(|kind| kind.starts_with('?'));
        kind.is_some() && ["whole", "name"].contains(&field)
    };
    let have: BTreeSet<_> = object.keys().filter(|field| !newer(field)).collect();
    let want: BTreeSet<_> = declared.keys().filter(|field| !newer(field)).collect();
    if have != want {
        return Err(format!("the code has {have:?}, the file {want:?}"));
    }
    let there = |(field, _): &(&String, &String)| object.contains_key(*field);
    for (field, kind) in declared.iter().filter(there) {
        if !fits(interface, kind, &object[field]) {
            return Err(format!(
                "{field}: {kind} in the file, {} in the code",
                object[field]
            ));
        }
        let absent = object[field].is_null();
        if absent && newer(field) {
            return Err(format!("older brokers refuse {field}: null"));
        }
        if absent && !kind.starts_with('?') {
            return Err(format!("{field} may be absent in the code"));
        }
    }
    Ok(())
}

/// Checks one sample with every option given and one with none.
fn check<T: Serialize>(declared: &Fields, what: &str, full: &T, bare: &T) {
    let interface = parse(DESCRIPTION);
    for sample in [full, bare] {
        let value = serde_json::to_value(sample).unwrap();
        if let Err(difference) = agrees(&interface, declared, &value) {
            panic!("{what}: {difference}");
        }
    }
    let full = serde_json::to_value(full).unwrap();
    let bare = serde_json::to_value(bare).unwrap();
    for (field, kind) in declared {
        assert!(
            !full[field].is_null(),
            "{what}.{field}: the full sample leaves it out"
        );
        assert_eq!(
            kind.starts_with('?'),
            bare[field].is_null(),
            "{what}.{field} is {kind}"
        );
    }
}

fn collector() -> Statistics {
    Statistics {
        heap: Some(1),
        last_pause_us: Some(1),
        longest_pause_us: Some(1),
        faults: Some(1),
        absent: Some(1),
        summaries: Some(1),
        retained: Some(1),
        order: Some(Order::Larf),
    }
}

fn principal(children: Vec<Principal>) -> Principal {
    Principal {
        pid: Some(1),
        uid: Some(1),
        adapter: Some("self".into()),
        max: Some(1),
        working_set: Some(1),
        live: Some(1),
        collections: Some(1),
        collection_ms: Some(1),
        stall_rate: Some(1),
        collector: Some(collector()),
        page: Some("/p".into()),
        refaults: Some(refaults()),
        children,
        ..Principal::default()
    }
}

fn registered(cgroup: Option<String>) -> Registered {
    let (page, pressure) = ("/p".into(), "/s".into());
    Registered {
        id: 1,
        page,
        pressure,
        cgroup,
        weight: 1,
        priority: -1,
    }
}

#[test]
fn methods_and_errors_are_the_declared_ones() {
    let interface = parse(DESCRIPTION);
    assert_eq!(interface.name, INTERFACE);
    let coded: BTreeSet<_> = Method::ALL
        .iter()
        .map(|method| method.as_str().to_owned())
        .collect();
    let declared: BTreeSet<_> = interface
        .methods
        .keys()
        .map(|name| format!("{INTERFACE}.{name}"))
        .collect();
    assert_eq!(coded, declared);
    for method in Method::ALL {
        assert_eq!(Method::from_wire(method.as_str()), Some(method));
    }
    let standard = parse(service::DESCRIPTION);
    let declared: BTreeSet<_> = [&interface, &standard]
        .iter()
        .flat_map(|i| i.errors.keys().map(|name| format!("{}.{name}", i.name)))
        .collect();
    let coded: BTreeSet<_> = ErrorName::ALL
        .iter()
        .map(|name| name.as_str().to_owned())
        .collect();
    assert_eq!(coded, declared);
    for name in ErrorName::ALL {
        assert_eq!(ErrorName::from_wire(name.as_str()), name);
    }
    for (name, fields) in &interface.errors {
        assert_eq!(fields.keys().collect::<Vec<_>>(), ["message"], "{name}");
    }
}

/// One with all that a registration may say.
fn full_register() -> Register {
    Register {
        name: Name::new("n").unwrap(),
        kind: Kind::Group,
        pid: Some(1),
        parent: Some(1),
        weight: Some(Weight::LEAST),
        priority: Some(Priority::LEAST),
        max: Max::new(Bytes::mib(1)).unwrap(),
        cgroup: CgroupPath::new("/").ok(),
        adapter: Adapter::new("self").ok(),
        whole: Some(true),
    }
}

#[test]
fn parameters_are_the_declared_ones() {
    let interface = parse(DESCRIPTION);
    let asks = |method: &str| &interface.methods[method].0;
    // The kind has a default on the wire, which a Rust `Option` would not express.
    let mut declared = asks("Register").clone();
    assert_eq!(
        declared.insert("kind".into(), "Kind".into()).unwrap(),
        "?Kind"
    );
    check(
        &declared,
        "Register",
        &full_register(),
        &Register::default(),
    );
    let least = Attach {
        id: 1,
        pid: 1,
        whole: None,
    };
    let attach = Attach {
        whole: Some(true),
        ..least
    };
    check(asks("Attach"), "Attach", &attach, &least);
    let contain = Contain {
        id: 1,
        cgroup: CgroupPath::new("/a/b").unwrap(),
    };
    check(asks("Contain"), "Contain", &contain, &contain);
    let adapt = Adapt {
        id: 1,
        adapter: Adapter::new("self").ok(),
        name: Name::new("cache").ok(),
    };
    check(asks("Adapt"), "Adapt", &adapt, &Adapt::default());
    let report = Report {
        id: 1,
        live: Some(1),
        allocation_rate: Some(1),
        collection_speed: Some(1),
        demand: Some(1),
        floor: Some(1),
        reaction_ms: Some(1),
        collections: Some(1),
        collection_ms: Some(1),
        stalls: Some(1),
        worth: Some(1),
        collector: Some(collector()),
    };
    check(asks("Report"), "Report", &report, &Report::default());
    let which = Which { id: 1 };
    check(asks("Subscribe"), "Subscribe", &which, &which);
    let released = Released { id: 1, bytes: 1 };
    check(asks("Released"), "Released", &released, &released);
    let set = Set {
        id: 1,
        weight: Some(Weight::LEAST),
        priority: Some(Priority::LEAST),
        max: Max::new(Bytes::mib(1)).ok(),
        own_weight: Some(Weight::LEAST),
        own_priority: Some(Priority::LEAST),
        parent: Some(1),
    };
    check(asks("Set"), "Set", &set, &Set::default());
    let watch = Watch { interval_ms: 100 };
    check(asks("Watch"), "Watch", &watch, &watch);
    check(asks("List"), "List", &Nothing {}, &Nothing {});
    check(asks("Reload"), "Reload", &Nothing {}, &Nothing {});
}

fn refaults() -> Refaults {
    Refaults {
        file_ns: Some(1),
        anon_ns: Some(1),
        swappiness: Some(60),
        ..Refaults::default()
    }
}

fn pinned() -> Pinned {
    Pinned {
        why: Some("there is no swap".into()),
        ..Pinned::default()
    }
}

#[test]
fn replies_are_the_declared_ones() {
    let interface = parse(DESCRIPTION);
    let answers = |method: &str| &interface.methods[method].1;
    let full = registered(Some("/c".into()));
    check(answers("Register"), "Registered", &full, &registered(None));
    let changed = Changed::default();
    check(answers("Subscribe"), "Changed", &changed, &changed);
    let listing = Listing {
        principals: vec![principal(vec![principal(vec![]), Principal::default()])],
        pinned: Some(pinned()),
        ..Listing::default()
    };
    check(answers("List"), "Listing", &listing, &Listing::default());
    check(answers("Watch"), "Listing", &listing, &Listing::default());
    let (full, bare) = (principal(vec![]), Principal::default());
    check(&interface.types["Principal"], "Principal", &full, &bare);
    check(
        &interface.types["Pinned"],
        "Pinned",
        &pinned(),
        &Pinned::default(),
    );
    let counts = Revocations::default();
    check(
        &interface.types["Revocations"],
        "Revocations",
        &counts,
        &counts,
    );
    let pages = Refaulted::default();
    check(&interface.types["Refaulted"], "Refaulted", &pages, &pages);
    let (full, bare) = (collector(), Statistics::default());
    check(&interface.types["Statistics"], "Statistics", &full, &bare);
    let numbers = Numbers::default();
    check(&interface.types["Numbers"], "Numbers", &numbers, &numbers);
    for method in [
        "Attach", "Contain", "Adapt", "Report", "Released", "Set", "Reload",
    ] {
        check(answers(method), method, &Nothing {}, &Nothing {});
    }
}

#[test]
fn enumerations_are_the_declared_ones() {
    let interface = parse(DESCRIPTION);
    let words = |values: Vec<Value>| -> BTreeSet<String> {
        values
            .iter()
            .map(|value| value.as_str().unwrap().to_owned())
            .collect()
    };
    let levels = [Level::Normal, Level::Warning, Level::Critical];
    let levels = levels
        .iter()
        .map(|level| serde_json::to_value(level).unwrap())
        .collect();
    assert_eq!(words(levels), interface.enums["Level"]);
    let kinds = [Kind::Process, Kind::Group];
    let kinds = kinds
        .iter()
        .map(|kind| serde_json::to_value(kind).unwrap())
        .collect();
    assert_eq!(words(kinds), interface.enums["Kind"]);
    let orders = [
        Order::Larf,
        Order::Mqrr,
        Order::Nothing,
        Order::Withdrawn,
        Order::Unknown,
    ];
    let orders = orders
        .iter()
        .map(|order| serde_json::to_value(order).unwrap())
        .collect();
    assert_eq!(words(orders), interface.enums["Order"]);
    let newer: Statistics = serde_json::from_str("{\"order\": \"oldest_first\"}").unwrap();
    assert_eq!(newer.order, Some(Order::Unknown));
}
