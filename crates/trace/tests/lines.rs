//! Traces as lines, as CSV, and of several files.

mod common;

use common::{Script, alloc, bytes_of, open, script, stream};
use plimsoll_trace::merge::merge;
use plimsoll_trace::text::{Form, read, write};
use plimsoll_trace::{Deaths, Event, Header, Named, ThreadId, TimeUnit, Trace, TraceError, Writer};
use proptest::prelude::*;

fn raw() -> Header {
    Header {
        raw: true,
        identity: [0xab; 16],
        unit: TimeUnit::Instructions,
        deaths: Deaths::Unknown,
        facts: [
            ("program".into(), "a \\ b\nc".into()),
            ("empty".into(), String::new()),
        ]
        .into(),
    }
}

fn lines(trace: &Trace, form: Form) -> String {
    let mut out = Vec::new();
    write(trace, form, &mut out, "out").unwrap();
    String::from_utf8(out).unwrap()
}

fn back(text: &str, header: &Header) -> Result<Trace, TraceError> {
    open(read(&mut text.as_bytes(), "typed", header, Vec::new())?)
}

fn same_streams(one: &Trace, other: &Trace) {
    assert!(one.streams().keys().eq(other.streams().keys()));
    for thread in one.streams().keys() {
        assert_eq!(stream(one, *thread), stream(other, *thread));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn lines_come_back(script in script(200)) {
        let trace = open(bytes_of(&raw(), &script)).unwrap();
        let text = back(&lines(&trace, Form::Text), &Header::default()).unwrap();
        prop_assert_eq!(text.header(), trace.header());
        same_streams(&text, &trace);
        let csv = back(&lines(&trace, Form::Csv), &raw()).unwrap();
        same_streams(&csv, &trace);
    }

    #[test]
    fn what_is_typed_never_panics(text in "(trace 1\n)?[ -~\n]{0,200}") {
        let _ = back(&text, &Header::default());
    }
}

#[test]
fn names_are_in_the_text() {
    let mut writer = Writer::new(Vec::new(), "t", &Header::default()).unwrap();
    writer.name(Named::Thread, 3, "pool 1\tworker").unwrap();
    writer.push(ThreadId(3), &alloc(1, 8)).unwrap();
    let trace = open(writer.finish().unwrap()).unwrap();
    let text = lines(&trace, Form::Text);
    assert!(
        text.contains("name thread 3 pool\\s1\\u{9}worker\n3 alloc object=1 size=8\n"),
        "{text}"
    );
    let again = back(&text, &Header::default()).unwrap();
    assert_eq!(again.names().unwrap(), trace.names().unwrap());
}

#[test]
fn wrong_lines_are_told_with_their_numbers() {
    for (text, line, why) in [
        ("trace 2", 1, "begins with `trace 1`"),
        (
            "trace 1\n# comment\n\n0 alloc object=1",
            4,
            "`size` is missing",
        ),
        ("trace 1\n0 alloc object=1 size=0", 2, "0 bytes"),
        ("trace 1\n0 alloc object=1 size=8 size=8", 2, "given twice"),
        ("trace 1\n0 death object=x", 2, "whole number"),
        (
            "trace 1\n0 death object=1 monitor=3",
            2,
            "`death` has no `monitor`",
        ),
        ("trace 1\n0 dance", 2, "no event `dance`"),
        ("trace 1\n0 end\n0 end", 3, "after the end"),
        ("trace 1\n0 end\nunit ns", 3, "before names and events"),
        ("trace 1\nfact a \\x", 2, "wrong escape"),
        ("trace 1\n0 use object=1", 2, "raw"),
        ("thread,event,object\n0,death,1,2", 2, "more values"),
        ("thread,event,object\n0,death,", 2, "`object` is missing"),
        ("thread,event,colour\n0,end,1", 2, "no `colour`"),
    ] {
        let said = back(text, &Header::default()).unwrap_err().to_string();
        assert!(
            said.starts_with(&format!("typed: line {line}: ")) && said.contains(why),
            "{text}: {said}"
        );
    }
}

/// A trace of one thread.
fn of_thread(number: u32, header: &Header) -> Trace {
    let thread = ThreadId(number);
    let first = u64::from(number) << 40;
    let mut script: Script = (1..2000)
        .map(|it| (thread, alloc(first + it, 16)))
        .collect();
    script.push((thread, Event::End));
    open(bytes_of(header, &script)).unwrap()
}

#[test]
fn files_of_threads_are_merged() {
    let parts: Vec<Trace> = (0..5).map(|it| of_thread(it, &raw())).collect();
    let whole = open(merge(&parts, Vec::new(), "whole").unwrap()).unwrap();
    assert_eq!(whole.streams().len(), 5);
    for part in &parts {
        let thread = *part.streams().keys().next().unwrap();
        assert_eq!(stream(&whole, thread), stream(part, thread));
    }
}

#[test]
fn what_does_not_belong_together_is_not_merged() {
    let said = |parts: &[Trace]| merge(parts, Vec::new(), "whole").unwrap_err().to_string();
    let other = Header {
        identity: [1; 16],
        ..raw()
    };
    assert!(said(&[of_thread(0, &raw()), of_thread(1, &other)]).contains("different recordings"));
    let unit = Header {
        unit: TimeUnit::Nanoseconds,
        ..raw()
    };
    assert!(said(&[of_thread(0, &raw()), of_thread(1, &unit)]).contains("unit of time"));
    assert!(said(&[of_thread(0, &raw()), of_thread(0, &raw())]).contains("stream of thread 0"));
}
