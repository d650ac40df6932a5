//! Framing, calls, replies and errors: valid ones, invalid ones, and arbitrary bytes.

use plimsoll_wire::messages::{
    Attach, Changed, Kind, Listing, Name, Nothing, Principal, Priority, Register, Report, Set,
    Statistics, Watch, Weight,
};
use plimsoll_wire::page::Numbers;
use plimsoll_wire::varlink::{
    Call, Decoder, EncodeError, ErrorName, FramingError, MAX_MESSAGE, MAX_REPLY, Method, Mode,
    Reply, WireError, encode_call, encode_error, encode_reply, service,
};
use plimsoll_wire::{checks, fuzz};
use proptest::prelude::*;

fn refusal<T: serde::de::DeserializeOwned + std::fmt::Debug>(parameters: &str) -> WireError {
    let message = format!("{{\"method\":\"io.plimsoll.X\",\"parameters\":{parameters}}}");
    Call::parse(message.as_bytes())
        .unwrap()
        .parameters::<T>()
        .unwrap_err()
}

fn first(bytes: &[u8]) -> Vec<u8> {
    let mut decoder = Decoder::new(MAX_REPLY);
    decoder.push(bytes);
    decoder.next_message().unwrap().unwrap().to_vec()
}

#[test]
fn a_call_goes_over_and_back() {
    let register = Register {
        name: Name::new("caf\u{e9} \"x\"").unwrap(),
        pid: Some(7),
        weight: Weight::new(10).ok(),
        ..Register::default()
    };
    let mut out = Vec::new();
    encode_call(&mut out, Method::Register.as_str(), &register, Mode::Once).unwrap();
    encode_call(&mut out, Method::List.as_str(), &Nothing {}, Mode::Oneway).unwrap();
    encode_call(
        &mut out,
        Method::Watch.as_str(),
        &Watch { interval_ms: 500 },
        Mode::More,
    )
    .unwrap();
    let mut decoder = Decoder::default();
    decoder.push(&out);
    let call = Call::parse(decoder.next_message().unwrap().unwrap()).unwrap();
    assert_eq!(Method::from_wire(&call.method), Some(Method::Register));
    assert_eq!(call.parameters::<Register>().unwrap(), register);
    assert!(!call.more && !call.oneway);
    let call = Call::parse(decoder.next_message().unwrap().unwrap()).unwrap();
    assert!(call.oneway && !call.more);
    let call = Call::parse(decoder.next_message().unwrap().unwrap()).unwrap();
    assert!(call.more && Method::from_wire(&call.method) == Some(Method::Watch));
    assert_eq!(decoder.next_message(), Ok(None));
    assert_eq!(decoder.pending(), 0);
}

#[test]
fn what_is_not_known_of_a_collector_is_passed_over_and_what_is_wrong_refused() {
    let told = |collector: &str| format!("{{\"id\":1,\"collector\":{collector}}}");
    let call = |parameters: &str| {
        let message = format!("{{\"method\":\"io.plimsoll.X\",\"parameters\":{parameters}}}");
        Call::parse(message.as_bytes())
            .unwrap()
            .parameters::<Report>()
            .unwrap()
    };
    let later = call(&told("{\"heap\":5,\"of_a_later_version\":true}"));
    assert_eq!(later.collector.unwrap().heap, Some(5));
    assert_eq!(call(&told("null")).collector, None);
    for wrong in ["{\"faults\":-1}", "{\"heap\":\"5\"}", "7"] {
        let error = refusal::<Report>(&told(wrong));
        assert_eq!(error.name, ErrorName::InvalidParameter, "{wrong}");
    }
}

#[test]
fn absent_parameters_are_empty_ones() {
    let call = Call::parse(br#"{"method":"io.plimsoll.List"}"#).unwrap();
    call.parameters::<Nothing>().unwrap();
    let call = Call::parse(br#"{"method":"io.plimsoll.Register","parameters":null}"#).unwrap();
    let nameless = call.parameters::<Register>().unwrap_err();
    assert_eq!(nameless.name, ErrorName::BadName);
    let call = Call::parse(br#"{"method":"io.plimsoll.Set","parameters":null}"#).unwrap();
    assert_eq!(call.parameters::<Set>().unwrap(), Set::default());
}

#[test]
fn a_truncated_message_waits_and_an_oversized_one_is_refused() {
    let mut decoder = Decoder::default();
    decoder.push(b"{\"method\":");
    assert_eq!(decoder.next_message(), Ok(None));
    decoder.push(b"\"a.b\"}\0{");
    assert_eq!(
        decoder.next_message(),
        Ok(Some(&b"{\"method\":\"a.b\"}"[..]))
    );
    assert_eq!(decoder.next_message(), Ok(None));
    assert_eq!(decoder.pending(), 1);
    let too_long = Err(FramingError::TooLong { max: MAX_MESSAGE });
    for _ in 0..MAX_MESSAGE / 1024 {
        decoder.push(&[b' '; 1024]);
        if decoder.next_message() != Ok(None) {
            break;
        }
    }
    assert_eq!(decoder.next_message(), too_long);
    decoder.push(b"}\0{}\0");
    assert_eq!(decoder.next_message(), too_long, "it stays in error");
    assert_eq!(decoder.pending(), 0, "and holds nothing");
}

#[test]
fn a_decoder_gives_its_memory_back() {
    let mut decoder = Decoder::default();
    let mut message = vec![b' '; MAX_MESSAGE];
    message.extend(b"\0{");
    decoder.push(&message);
    assert!(decoder.next_message().unwrap().is_some());
    assert_eq!(decoder.next_message(), Ok(None));
    assert_eq!(decoder.pending(), 1);
    assert!(decoder.held() <= 4096, "{}", decoder.held());
    decoder.push(b"}\0");
    assert_eq!(decoder.next_message(), Ok(Some(&b"{}"[..])));
    assert_eq!(decoder.next_message(), Ok(None));
    assert!(decoder.held() <= 4096, "{}", decoder.held());
}

#[test]
fn the_longest_message_is_taken_and_one_byte_more_is_not() {
    for (length, taken) in [(MAX_MESSAGE, true), (MAX_MESSAGE + 1, false)] {
        let mut decoder = Decoder::default();
        let mut message = vec![b' '; length];
        message.push(0);
        decoder.push(&message);
        assert_eq!(decoder.next_message().is_ok(), taken);
    }
    let mut decoder = Decoder::default();
    decoder.push(b"\0");
    assert_eq!(decoder.next_message(), Err(FramingError::Empty));
}

#[test]
fn what_is_not_a_call_is_refused_with_a_reason() {
    let refused = |message: &[u8]| Call::parse(message).unwrap_err().to_string();
    assert!(refused(b"{\"method\":\"\xff\"}").contains("UTF-8 at byte 11"));
    assert!(refused(b"[]").contains("not a JSON object"));
    assert!(refused(b"[\"io.plimsoll.List\"]").contains("not a JSON object"));
    assert!(refused(b"{}").contains("method"));
    assert!(refused(b"{\"method\":1}").contains("not a call"));
    assert!(refused(b"{\"method\":\"a\",\"method\":\"b\"}").contains("duplicate"));
    assert!(refused(b"{\"method\":\"a\"} x").contains("not a call"));
    assert!(refused(b"").contains("not a JSON object"));
}

#[test]
fn deep_nesting_ends_in_an_error_and_not_in_the_stack() {
    let deep = "[".repeat(30_000) + &"]".repeat(30_000);
    let error = refusal::<Register>(&format!("{{\"name\":{deep}}}"));
    assert!(error.message.len() < 400);
    let deep = "{\"children\":[".repeat(4_000) + "{}" + &"]}".repeat(4_000);
    let message = format!("{{\"parameters\":{{\"principals\":[{deep}]}}}}");
    let reply = Reply::parse(message.as_bytes()).unwrap();
    assert!(
        reply
            .result::<Listing>()
            .unwrap_err()
            .message
            .contains("recursion")
    );
    let open = "[".repeat(60_000);
    assert!(Call::parse(format!("{{\"parameters\":{open}").as_bytes()).is_err());
}

#[track_caller]
fn assert_names(error: &WireError, name: ErrorName, field: &str) {
    assert_eq!(error.name, name, "{error}");
    assert!(error.message.contains(field), "{error}");
    assert!(!error.message.contains(" at line "), "{error}");
}

#[test]
fn errors_name_the_field() {
    use ErrorName::{BadMax, BadName, BadPriority, BadWeight, InvalidParameter};
    for (message, name, field) in [
        (r#"{"weight":-5}"#, BadWeight, "weight"),
        (r#"{"weight":1e99}"#, BadWeight, "weight"),
        (r#"{"weight":1.5}"#, BadWeight, "weight"),
        (r#"{"priority":"high"}"#, BadPriority, "priority"),
        (r#"{"name":7}"#, BadName, "name"),
        (r#"{"name":"x","pid":-1}"#, InvalidParameter, "pid"),
        (r#"{"wieght":1}"#, InvalidParameter, "wieght"),
        (r#"{"kind":"pod"}"#, InvalidParameter, "kind"),
    ] {
        assert_names(&refusal::<Register>(message), name, field);
    }
    for (message, field) in [
        (r#"{"id":1}"#, "pid"),
        (r#"{"id":1,"pid":99999999999}"#, "pid"),
        ("[1,2]", "object"),
    ] {
        assert_names(&refusal::<Attach>(message), InvalidParameter, field);
    }
    assert_names(&refusal::<Set>(r#"{"id":1,"max":-1}"#), BadMax, "max");
    let pid = refusal::<Attach>(r#"{"id":1,"pid":true}"#);
    assert_eq!(pid.subject.as_deref(), Some("pid"));
}

#[test]
fn replies_and_errors_go_over_and_back() {
    let changed = Changed {
        id: 3,
        generation: 4,
        numbers: Numbers {
            limit: u64::MAX,
            ..Numbers::default()
        },
    };
    let mut out = Vec::new();
    encode_reply(&mut out, &changed, true).unwrap();
    let message = first(&out);
    let reply = Reply::parse(&message).unwrap();
    assert!(reply.continues && reply.error.is_none());
    assert_eq!(reply.result::<Changed>().unwrap(), changed);

    let errors = [
        WireError::new(ErrorName::Cycle, "4 is below 3"),
        WireError::about("pid", "pid: give one"),
        WireError::unknown_method("io.plimsoll.Fly"),
        WireError::unknown_method("com.example.Fly"),
        WireError::expected_more("io.plimsoll.Watch"),
    ];
    for error in errors {
        out.clear();
        encode_error(&mut out, &error);
        let message = first(&out);
        let reply = Reply::parse(&message).unwrap();
        assert_eq!(reply.error.as_deref(), Some(error.name.as_str()));
        assert_eq!(reply.result::<Nothing>().unwrap_err(), error);
    }
}

#[test]
fn errors_that_we_do_not_know_keep_their_name() {
    let raw = br#"{"error":"io.plimsoll.Newer","parameters":{"message":"m","more":[1]}}"#;
    let error = Reply::parse(raw).unwrap().result::<Nothing>().unwrap_err();
    assert_eq!(
        (error.name, &*error.message),
        (ErrorName::Other, "io.plimsoll.Newer: m")
    );
    let error = Reply::parse(br#"{"error":"io.plimsoll.Cycle"}"#).unwrap();
    let error = error.result::<Nothing>().unwrap_err();
    assert_eq!(
        (error.name, &*error.message),
        (ErrorName::Cycle, "io.plimsoll.Cycle")
    );
}

#[test]
fn unknown_methods_tell_interfaces_from_methods() {
    let name = |method| WireError::unknown_method(method).name;
    assert_eq!(name("io.plimsoll.Fly"), ErrorName::MethodNotFound);
    assert_eq!(name("org.varlink.service.Fly"), ErrorName::MethodNotFound);
    assert_eq!(name("com.example.Fly"), ErrorName::InterfaceNotFound);
    assert_eq!(name("Fly"), ErrorName::InterfaceNotFound);
    assert_eq!(name(""), ErrorName::InterfaceNotFound);
    assert!(WireError::unknown_method(&"\n".repeat(9999)).message.len() < 300);
    assert_eq!(Method::from_wire("io.plimsollXList"), None);
    assert_eq!(Method::from_wire("io.plimsoll."), None);
}

#[test]
fn what_is_too_long_to_send_is_not_half_sent() {
    let asked = service::Interface {
        interface: "x".repeat(MAX_MESSAGE),
    };
    let mut out = b"before".to_vec();
    let method = service::GET_INTERFACE_DESCRIPTION;
    let error = encode_call(&mut out, method, &asked, Mode::Once);
    assert!(matches!(error, Err(EncodeError::TooLong { .. })));
    assert_eq!(out, b"before");
}

#[test]
fn the_service_describes_itself() {
    let info = service::info("1.2.3");
    for interface in &info.interfaces {
        let asked = service::Interface {
            interface: interface.clone(),
        };
        let description = service::describe(&asked).unwrap().description;
        assert!(description.contains(&format!("\ninterface {interface}\n")));
    }
    let asked = service::Interface {
        interface: "a.b".into(),
    };
    assert_eq!(
        service::describe(&asked).unwrap_err().name,
        ErrorName::InterfaceNotFound
    );
}

#[test]
fn names_weights_and_the_rest_are_checked() {
    for good in [
        "x",
        "caf\u{e9}",
        "a b/c:d",
        &"n".repeat(64),
        "\u{65e5}\u{672c}",
    ] {
        checks::name(good).unwrap();
        assert_eq!(checks::mend_name(good), good);
    }
    for bad in [
        "",
        "a\nb",
        "\u{1b}[2J",
        "a\u{202e}b",
        "x\0",
        &"n".repeat(65),
        "\u{2028}",
        "c1\u{9b}2J",
        "\u{61c}",
    ] {
        assert_eq!(checks::name(bad).unwrap_err().name, ErrorName::BadName);
        checks::name(&checks::mend_name(bad)).unwrap();
    }
    for good in ["self", "hotspot", "libgc", "0-9", &"a".repeat(32)] {
        checks::adapter(good).unwrap();
    }
    for bad in [
        "",
        "Self",
        "a b",
        "a\"b",
        "\u{e9}",
        &"a".repeat(33),
        &"a".repeat(60_000),
    ] {
        assert_eq!(checks::adapter(bad).unwrap_err().name, ErrorName::BadName);
    }
    assert!(Weight::new(1).is_ok() && Weight::new(10_000).is_ok());
    assert!(Weight::new(0).is_err() && Weight::new(10_001).is_err());
    assert!(Priority::new(-100).is_ok() && Priority::new(100).is_ok());
    assert!(Priority::new(-101).is_err() && Priority::new(i32::MAX).is_err());
    assert!(checks::interval_ms(100).is_ok() && checks::interval_ms(99).is_err());
    assert!(checks::pid(1).is_ok() && checks::pid(0).is_err() && checks::pid(u32::MAX).is_err());
    assert!(checks::cgroup("/a/b").is_ok());
    for bad in ["a", "/a/../b", "/a\nb", "", &"/x".repeat(3000)] {
        assert_eq!(checks::cgroup(bad).unwrap_err().name, ErrorName::BadCgroup);
    }
    let kind: Kind = serde_json::from_str("\"group\"").unwrap();
    assert_eq!(kind, Kind::Group);
}

/// Streams that often resemble messages closely enough to get past the first checks.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        3 => Just(br#"{"method":"io.plimsoll.Register","parameters":{"name":"a"}}"#.to_vec()),
        3 => Just(br#"{"parameters":{"id":1},"continues":true}"#.to_vec()),
        6 => Just(vec![0]),
        2 => prop::collection::vec(any::<u8>(), 0..40),
        1 => prop::collection::vec(Just(b'['), 0..300),
    ];
    prop::collection::vec(part, 0..20).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn cutting_a_stream_does_not_change_it(bytes in stream()) {
        fuzz::fuzz_decoder(&bytes);
    }

    #[test]
    fn any_bytes_are_decoded_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        fuzz::fuzz_decoder(&bytes);
        fuzz::fuzz_call(&bytes);
        fuzz::fuzz_reply(&bytes);
    }

    #[test]
    fn any_json_is_read_without_harm(text in concat!(
        r#"\{("(method|parameters|name|weight|error)":"#,
        r#"("[a-z.]{0,9}"|-?[0-9]{1,30}|\{"(name|weight)":(1|"x"|null|\[\])\}),?){0,4}\}"#,
    )) {
        fuzz::fuzz_call(text.as_bytes());
        fuzz::fuzz_reply(text.as_bytes());
    }

    #[test]
    fn any_collector_goes_over_and_back(numbers in prop::array::uniform7(any::<Option<u64>>())) {
        let [heap, last_pause_us, longest_pause_us, faults, absent, summaries, retained] = numbers;
        let collector = Statistics {
            heap,
            last_pause_us,
            longest_pause_us,
            faults,
            absent,
            summaries,
            retained,
            order: None,
        };
        let report = Report { id: 1, collector: Some(collector), ..Report::default() };
        let mut out = Vec::new();
        encode_call(&mut out, "io.plimsoll.Report", &report, Mode::Once).unwrap();
        let message = first(&out);
        fuzz::fuzz_call(&message);
        prop_assert_eq!(Call::parse(&message).unwrap().parameters::<Report>().unwrap(), report);
        let principal = Principal { collector: report.collector, ..Principal::default() };
        let listing = Listing { principals: vec![principal], ..Listing::default() };
        let mut out = Vec::new();
        encode_reply(&mut out, &listing, false).unwrap();
        let message = first(&out);
        fuzz::fuzz_reply(&message);
        prop_assert_eq!(Reply::parse(&message).unwrap().result::<Listing>().unwrap(), listing);
    }

    #[test]
    fn any_name_goes_over_and_back(name in any::<String>()) {
        let register = Register { name: Name::mend(&name), ..Register::default() };
        let mut out = Vec::new();
        encode_call(&mut out, "io.plimsoll.Register", &register, Mode::Once).unwrap();
        prop_assert_eq!(out.iter().filter(|&&byte| byte == 0).count(), 1);
        let message = first(&out);
        prop_assert_eq!(Call::parse(&message).unwrap().parameters::<Register>().unwrap(), register);
    }
}
