//! Entry points for fuzzers: plain functions that accept any bytes. They must not panic and must
//! keep the property stated on each. The tests call them as well.

use crate::checks;
use crate::collections::{self, View, Words};
use crate::messages::{self, Priority, Weight};
use crate::page::{PAGE_SIZE, PageView, offset};
use crate::varlink::{Call, Decoder, Reply};
use std::sync::atomic::AtomicU64;

/// Any bytes, cut in two different ways, give the same messages, and every message can be parsed.
pub fn fuzz_decoder(bytes: &[u8]) {
    let piece = bytes.first().map_or(1, |&byte| usize::from(byte) % 61 + 1);
    let max = bytes.get(1).map_or(64, |&byte| usize::from(byte) + 1);
    let whole = decode(bytes, bytes.len().max(1), max);
    let pieces = decode(bytes, piece, max);
    assert_eq!(whole, pieces, "cutting a stream must not change it");
    for message in &whole.0 {
        assert!(message.len() <= max);
        fuzz_call(message);
        fuzz_reply(message);
    }
}

type Decoded = (Vec<Vec<u8>>, Option<crate::varlink::FramingError>);

fn decode(bytes: &[u8], piece: usize, max: usize) -> Decoded {
    let mut decoder = Decoder::new(max);
    let mut messages = Vec::new();
    for chunk in bytes.chunks(piece) {
        decoder.push(chunk);
        loop {
            match decoder.next_message() {
                Ok(Some(message)) => messages.push(message.to_vec()),
                Ok(None) => break,
                Err(error) => return (messages, Some(error)),
            }
        }
        assert!(decoder.pending() <= max);
    }
    (messages, None)
}

/// Reads any bytes as a call, with the parameters of every method.
pub fn fuzz_call(message: &[u8]) {
    let Ok(call) = Call::parse(message) else {
        return;
    };
    let _ = call.parameters::<messages::Register>();
    let _ = call.parameters::<messages::Attach>();
    let _ = call.parameters::<messages::Contain>();
    let _ = call.parameters::<messages::Adapt>();
    let _ = call.parameters::<messages::Report>();
    let _ = call.parameters::<messages::Which>();
    let _ = call.parameters::<messages::Released>();
    let _ = call.parameters::<messages::Set>();
    let _ = call.parameters::<messages::Watch>();
    let _ = call.parameters::<messages::Nothing>();
    check_believed(&call);
}

/// Values that were accepted are within their bounds.
fn check_believed(call: &Call<'_>) {
    if let Ok(register) = call.parameters::<messages::Register>() {
        assert!(checks::name(&register.name).is_ok());
        assert!(register.pid.map_or(Ok(()), checks::pid).is_ok());
        assert_ranged(&[register.weight], &[register.priority]);
        assert!(
            register
                .cgroup
                .as_deref()
                .map_or(Ok(()), checks::cgroup)
                .is_ok()
        );
        assert!(
            register
                .adapter
                .as_deref()
                .map_or(Ok(()), checks::adapter)
                .is_ok()
        );
    }
    if let Ok(attach) = call.parameters::<messages::Attach>() {
        assert!(checks::pid(attach.pid).is_ok());
    }
    if let Ok(contain) = call.parameters::<messages::Contain>() {
        assert!(checks::cgroup(&contain.cgroup).is_ok());
    }
    if let Ok(adapt) = call.parameters::<messages::Adapt>() {
        assert!(
            adapt
                .adapter
                .as_deref()
                .map_or(Ok(()), checks::adapter)
                .is_ok()
        );
    }
    if let Ok(set) = call.parameters::<messages::Set>() {
        assert_ranged(
            &[set.weight, set.own_weight],
            &[set.priority, set.own_priority],
        );
    }
    if let Ok(watch) = call.parameters::<messages::Watch>() {
        assert!(checks::interval_ms(watch.interval_ms).is_ok());
    }
}

fn assert_ranged(weights: &[Option<Weight>], priorities: &[Option<Priority>]) {
    let range = Weight::LEAST..=Weight::MOST;
    assert!(weights.iter().flatten().all(|one| range.contains(one)));
    let range = Priority::LEAST..=Priority::MOST;
    assert!(priorities.iter().flatten().all(|one| range.contains(one)));
}

/// Reads any bytes as a reply, with the parameters of every method.
pub fn fuzz_reply(message: &[u8]) {
    let Ok(reply) = Reply::parse(message) else {
        return;
    };
    let _ = reply.result::<messages::Registered>();
    let _ = reply.result::<messages::Changed>();
    let _ = reply.result::<messages::Listing>();
    let _ = reply.result::<messages::Nothing>();
}

/// Reads any bytes as a page.
pub fn fuzz_page(bytes: &[u8]) {
    let words: [AtomicU64; PAGE_SIZE / 8] = words(bytes);
    let view = PageView::of_words(&words);
    let _ = view.check();
    let _ = view.is_stale(plimsoll_unit::Nanos(u64::MAX));
    let limit = words[offset::LIMIT / 8].load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!(view.limit().0, limit);
    if let Some(reading) = view.read() {
        assert_eq!(reading.numbers.limit, limit);
    }
}

/// Any bytes are a page of collections or not, and one that is gives texts that fit and pauses in order.
pub fn fuzz_collections(bytes: &[u8]) {
    let words = words(bytes);
    let Ok(view) = View::new(Words::of(&words)) else {
        return;
    };
    let longest = collections::MAX_TEXT * '\u{fffd}'.len_utf8();
    assert!(view.about().signal_text.len() <= longest);
    assert!(view.refusal().is_none_or(|text| text.len() <= longest));
    let _ = view.process();
    for seen in [0, u64::MAX, view.totals().map_or(7, |totals| totals.pauses)] {
        let pauses: Vec<u64> = view.pauses_after(seen).map(|p| p.number).collect();
        assert!(pauses.is_sorted() && pauses.len() as u64 <= collections::PAUSES);
    }
}

/// As many words as are asked for, with zeros after the bytes.
fn words<const N: usize>(bytes: &[u8]) -> [AtomicU64; N] {
    std::array::from_fn(|index| {
        let mut word = [0; 8];
        let from = (index * 8).min(bytes.len());
        let part = &bytes[from..(from + 8).min(bytes.len())];
        word[..part.len()].copy_from_slice(part);
        AtomicU64::new(u64::from_ne_bytes(word))
    })
}
