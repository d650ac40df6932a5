//! The vectors of `clients/vectors`, which clients in every language run.

use plimsoll_client::govern::{Govern, Governor, Own};
use plimsoll_client::{Ghost, Granted, messages};
use plimsoll_unit::{Bytes, Nanos};
use plimsoll_wire::page::{PAGE_SIZE, PageView, offset};
use plimsoll_wire::varlink::{Call, Method, Mode, Reply, encode_call};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::sync::atomic::AtomicU64;

fn cases(name: &str) -> Vec<Value> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../clients/vectors/");
    let text = std::fs::read_to_string(format!("{folder}{name}.json")).unwrap();
    let mut all: Value = serde_json::from_str(&text).unwrap();
    let Value::Array(cases) = all["cases"].take() else {
        panic!("{name}: no cases");
    };
    assert!(!cases.is_empty());
    cases
}

fn number(value: &Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("a number: {value}"))
}

fn bytes(value: &Value) -> Bytes {
    Bytes(number(value))
}

fn shown(rate: u64, govern: &Govern) -> Value {
    let report = govern.report.as_ref().map(|report| {
        json!({
            "allocation_rate": report.allocation_rate,
            "floor": report.floor,
            "reaction_ms": report.reaction_ms,
        })
    });
    json!({
        "rate": rate,
        "family": govern.family.0,
        "process_limit": govern.process_limit.0,
        "heap_limit": govern.heap_limit.0,
        "release_to": govern.release_to.map(|goal| goal.0),
        "may_release": govern.may_release,
        "report": report,
    })
}

#[test]
fn the_ghost_list_steps_as_the_vectors_say() {
    for case in cases("ghost") {
        let mut ghost = Ghost::new(Nanos(number(&case["begun"])));
        for step in case["steps"].as_array().unwrap() {
            if let Some(told) = step.get("evicted") {
                ghost.evicted(number(&told[0]), bytes(&told[1]), bytes(&told[2]));
            } else if let Some(told) = step.get("missed") {
                ghost.missed(number(&told[0]), Nanos(number(&told[1])));
            } else {
                let [now, expect] = [&step["worth"][0], &step["worth"][1]];
                let worth = ghost.worth(Nanos(number(now)));
                assert_eq!(json!(worth), *expect, "{}: {step}", case["name"]);
            }
        }
    }
}

#[test]
fn the_governor_steps_as_the_vectors_say() {
    for case in cases("governor") {
        let started = Nanos(number(&case["started"]));
        let mut governor = Governor::new(started, bytes(&case["allocated"]));
        for step in case["steps"].as_array().unwrap() {
            let now = Nanos(number(&step["now"]));
            let (granted, own) = (&step["granted"], &step["own"]);
            let rate = governor.measure(now, bytes(&step["allocated"]));
            let govern = governor.step(
                now,
                Granted {
                    limit: bytes(&granted["limit"]),
                    owed: bytes(&granted["owed"]),
                    uses: bytes(&granted["uses"]),
                },
                Own {
                    resident: bytes(&own["resident"]),
                    beside: bytes(&own["beside"]),
                    needs: bytes(&own["needs"]),
                    guard: bytes(&own["guard"]),
                },
            );
            let found = shown(rate, &govern);
            assert_eq!(found, step["expect"], "{} at {}", case["name"], now.0);
            if let Some(told) = step.get("released") {
                let [began, ended] = ["began", "ended"].map(|name| Nanos(number(&told[name])));
                governor.released(began, ended, bytes(&told["resident"]));
            }
        }
    }
}

/// The numbers on a page of the bytes that are given in hexadecimal; the rest of the page is zero.
#[test]
fn pages_read_as_the_vectors_say() {
    for case in cases("pages") {
        let text = case["bytes"].as_str().unwrap();
        let digits = text.as_bytes().as_chunks::<2>().0;
        let given = digits.iter().map(|two| {
            let two = std::str::from_utf8(two).unwrap();
            u8::from_str_radix(two, 16).unwrap()
        });
        let mut page = [0u8; PAGE_SIZE];
        page.iter_mut().zip(given).for_each(|(to, from)| *to = from);
        let words: [AtomicU64; PAGE_SIZE / 8] = std::array::from_fn(|word| {
            let mut raw = [0; 8];
            raw.copy_from_slice(&page[word * 8..word * 8 + 8]);
            AtomicU64::new(u64::from_le_bytes(raw))
        });
        let view = PageView::of_words(&words);
        let found = match (view.check(), view.read()) {
            (Err(_), _) => json!("not a page"),
            (Ok(()), None) => json!("no numbers"),
            (Ok(()), Some(reading)) => json!({
                "id": u64::from_le_bytes(page[offset::ID..offset::ID + 8].try_into().unwrap()),
                "numbers": reading.numbers,
                "heartbeat": reading.heartbeat,
                "generation": reading.generation,
                "stale": reading.is_stale(Nanos(number(&case["now"]))),
            }),
        };
        assert_eq!(found, case["expect"], "{}", case["name"]);
    }
}

/// `null` is the same as an absent field.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let known = fields.iter().filter(|(_, field)| !field.is_null());
            let known = known.map(|(name, field)| (name.clone(), without_nulls(field)));
            Value::Object(known.collect())
        }
        other => other.clone(),
    }
}

/// The parameters of a call as our type reads them, encoded again as a call.
fn again<T: Serialize + DeserializeOwned>(call: &Call<'_>) -> Vec<u8> {
    let parameters: T = call.parameters().unwrap();
    let mode = match (call.more, call.oneway) {
        (true, _) => Mode::More,
        (_, true) => Mode::Oneway,
        _ => Mode::Once,
    };
    let mut out = Vec::new();
    encode_call(&mut out, &call.method, &parameters, mode).unwrap();
    out
}

#[test]
fn calls_are_written_as_the_vectors_say() {
    for case in cases("calls") {
        let text = case["message"].as_str().unwrap();
        let call = Call::parse(text.as_bytes()).unwrap();
        let encoded = match Method::from_wire(&call.method) {
            Some(Method::Register) => again::<messages::Register>(&call),
            Some(Method::Attach) => again::<messages::Attach>(&call),
            Some(Method::Report) => again::<messages::Report>(&call),
            Some(Method::Subscribe) => again::<messages::Which>(&call),
            Some(Method::Released) => again::<messages::Released>(&call),
            Some(Method::Set) => again::<messages::Set>(&call),
            other => panic!("{other:?} is not a call of a client"),
        };
        let (end, written) = encoded.split_last().unwrap();
        assert_eq!(*end, 0, "a message ends with a NUL byte");
        let written: Value = serde_json::from_slice(written).unwrap();
        let given: Value = serde_json::from_str(text).unwrap();
        assert_eq!(
            without_nulls(&written),
            without_nulls(&given),
            "{}",
            case["name"]
        );
    }
}

fn read<T: Serialize + DeserializeOwned>(reply: &Reply<'_>) -> Value {
    match reply.result::<T>() {
        Ok(parameters) => json!({ "continues": reply.continues, "parameters": parameters }),
        Err(error) => json!({ "error": error.name.as_str(), "message": error.message }),
    }
}

#[test]
fn replies_are_read_as_the_vectors_say() {
    for case in cases("replies") {
        let text = case["message"].as_str().unwrap();
        let reply = Reply::parse(text.as_bytes()).unwrap();
        let found = match case["to"].as_str() {
            Some("Register") => read::<messages::Registered>(&reply),
            Some("Subscribe") => read::<messages::Changed>(&reply),
            _ => read::<messages::Nothing>(&reply),
        };
        assert_eq!(without_nulls(&found), case["expect"], "{}", case["name"]);
    }
}
