//! Values are checked when read: random texts and numbers in every field of every message are
//! accepted exactly when the checks accept them, and refused with the error of their field.

use plimsoll_unit::Bytes;
use plimsoll_wire::messages::{
    Adapt, Attach, Max, Priority, Register, Released, Report, Set, Watch, Weight, Which,
};
use plimsoll_wire::varlink::{Call, ErrorName, WireError};
use plimsoll_wire::{checks, fuzz};
use proptest::prelude::*;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

type Checked = Result<(), WireError>;

/// The result of a call with these parameters: nothing, or its refusal.
fn read<T: DeserializeOwned>(parameters: &Value) -> Checked {
    let message = json!({"method": "io.plimsoll.X", "parameters": parameters}).to_string();
    fuzz::fuzz_call(message.as_bytes());
    let call = Call::parse(message.as_bytes())?;
    call.parameters::<T>().map(|_| ())
}

/// Valid and invalid names, adapters and paths, with all kinds of characters.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        2 => any::<String>(),
        2 => "[a-z0-9-]{0,40}",
        2 => "(/[a-z.]{0,6}){0,5}",
        1 => "[a-z\u{80}-\u{a0}\u{200e}-\u{2029}\u{202a}-\u{202e}\u{2066}-\u{2069}\u{feff}\"\\\\]{0,12}",
        1 => (0usize..70_000).prop_map(|length| "x".repeat(length)),
    ]
}

/// Numbers around every bound and far from all bounds.
fn number() -> impl Strategy<Value = i64> {
    let bounds: [i64; 12] = [
        -101, -100, -1, 0, 1, 99, 100, 101, 10_000, 10_001, 60_000, 60_001,
    ];
    prop_oneof![
        prop::sample::select(bounds.to_vec()),
        Just(i64::from(i32::MAX)),
        Just(i64::from(u32::MAX)),
        any::<i64>(),
    ]
}

fn unsigned(number: i64, check: fn(u32) -> Checked) -> bool {
    u32::try_from(number).is_ok_and(|number| check(number).is_ok())
}

/// Checks that a value is read exactly when it is `good`, and otherwise refused with that error.
fn taken_when(good: bool, read: Checked, error: ErrorName) -> Result<(), TestCaseError> {
    match read {
        Ok(()) => prop_assert!(good, "it should have been refused"),
        Err(refused) => {
            prop_assert!(!good, "{}", refused);
            prop_assert_eq!(refused.name, error);
            prop_assert!(!refused.message.contains('\u{1f}'), "{}", refused);
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn texts_are_taken_exactly_when_their_checks_take_them(text in text()) {
        // A message over the longest length is cut off before it is parsed.
        prop_assume!(text.len() < 60_000);
        let registered = |field: &str| {
            let mut parameters = json!({"name": "n"});
            parameters[field] = json!(text);
            read::<Register>(&parameters)
        };
        taken_when(checks::name(&text).is_ok(), registered("name"), ErrorName::BadName)?;
        let adapter = checks::adapter(&text).is_ok();
        taken_when(adapter, registered("adapter"), ErrorName::BadName)?;
        taken_when(adapter, read::<Adapt>(&json!({"id": 1, "adapter": text})), ErrorName::BadName)?;
        let path = checks::cgroup(&text).is_ok();
        taken_when(path, registered("cgroup"), ErrorName::BadCgroup)?;
        let kind = ["process", "group"].contains(&text.as_str());
        taken_when(kind, registered("kind"), ErrorName::InvalidParameter)?;
    }

    #[test]
    fn numbers_are_taken_exactly_when_their_checks_take_them(number in number()) {
        let in_set = |field: &str| read::<Set>(&json!({"id": 1, field: number}));
        let in_register = |field: &str| read::<Register>(&json!({"name": "n", field: number}));
        let weight = Weight::new(number).is_ok();
        for read in [in_set("weight"), in_set("own_weight"), in_register("weight")] {
            taken_when(weight, read, ErrorName::BadWeight)?;
        }
        let priority = Priority::new(number).is_ok();
        for read in [in_set("priority"), in_set("own_priority"), in_register("priority")] {
            taken_when(priority, read, ErrorName::BadPriority)?;
        }
        let error = match u32::try_from(number) {
            Ok(_) => ErrorName::NoSuchProcess,
            Err(_) => ErrorName::InvalidParameter,
        };
        let pid = unsigned(number, checks::pid);
        taken_when(pid, in_register("pid"), error)?;
        taken_when(pid, read::<Attach>(&json!({"id": 1, "pid": number})), error)?;
        let interval = u64::try_from(number).is_ok_and(|number| checks::interval_ms(number).is_ok());
        let watch = read::<Watch>(&json!({"interval_ms": number}));
        taken_when(interval, watch, ErrorName::InvalidParameter)?;
    }

    #[test]
    fn a_text_in_the_place_of_a_number_is_refused(text in text(), at in 0usize..9) {
        prop_assume!(text.len() < 60_000);
        let fields = [
            "live", "demand", "floor", "collections", "reaction_ms", "allocation_rate",
            "collection_ms", "stalls", "worth",
        ];
        let field = fields[at];
        let refused = read::<Report>(&json!({"id": 1, field: text})).unwrap_err();
        prop_assert_eq!(refused.name, ErrorName::InvalidParameter);
        prop_assert_eq!(refused.subject.as_deref(), Some(field));
        let released = read::<Released>(&json!({"id": 1, "bytes": text}));
        let which = read::<Which>(&json!({"id": text}));
        prop_assert!(released.is_err() && which.is_err());
    }

    #[test]
    fn a_field_of_any_name_is_refused_and_named_harmlessly(name in any::<String>()) {
        let known = ["id", "adapter"].contains(&name.as_str());
        let refused = read::<Adapt>(&json!({"id": 1, &name: 5}));
        prop_assert!(known || refused.is_err());
        if let Err(refused) = refused {
            prop_assert!(refused.subject.is_none_or(|subject| subject.len() < 1000));
        }
    }
}

#[test]
fn refusals_say_the_same_before_a_call_is_sent_and_when_it_is_read() {
    for (parameters, check) in [
        (json!({"name": ""}), checks::name("")),
        (json!({"name": "n", "weight": 0}), Weight::new(0).map(drop)),
        (
            json!({"name": "n", "priority": 101}),
            Priority::new(101).map(drop),
        ),
        (json!({"name": "n", "max": 1}), Max::new(Bytes(1)).map(drop)),
        (json!({"name": "n", "pid": 0}), checks::pid(0)),
        (json!({"name": "n", "cgroup": "x"}), checks::cgroup("x")),
        (json!({"name": "n", "adapter": "A"}), checks::adapter("A")),
    ] {
        assert_eq!(read::<Register>(&parameters), check, "{parameters}");
    }
    let watch = read::<Watch>(&json!({"interval_ms": 1}));
    assert_eq!(watch, checks::interval_ms(1));
}
