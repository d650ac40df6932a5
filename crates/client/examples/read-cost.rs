//! Measures what reading the numbers costs, and prints one JSON object: nanoseconds per call.
//!
//! `cargo run --release -p plimsoll-client --example read-cost`. If a broker runs, the numbers are the
//! broker's (`"source": "broker"`), otherwise local ones. Both are read with the same instructions.

use plimsoll_client::{Principal, Source};
use plimsoll_kernel::clock;
use std::hint::black_box;

const ROUNDS: usize = 1001;
const CALLS: u32 = 20_000;

/// Median and minimum of [`ROUNDS`] rounds, in ns per call. Processor time is measured, so that other
/// programs on the machine do not count.
fn measure(mut call: impl FnMut()) -> (f64, f64) {
    let mut costs: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let begin = clock::thread_cpu().0;
            (0..CALLS).for_each(|_| call());
            (clock::thread_cpu().0 - begin) as f64 / f64::from(CALLS)
        })
        .collect();
    costs.sort_by(f64::total_cmp);
    (costs[ROUNDS / 2], costs[0])
}

fn main() -> Result<(), plimsoll_client::Error> {
    let principal = Principal::builder("read-cost").adapter("self").open()?;
    let read = measure(|| {
        black_box(&principal.read());
    });
    let limit = measure(|| {
        black_box(principal.limit());
    });
    let source = match principal.read().source {
        Source::Broker => "broker",
        Source::Stale => "stale",
        Source::Local => "local",
    };
    println!(
        "{{\"name\":\"read-cost\",\"unit\":\"ns\",\"rounds\":{ROUNDS},\"calls\":{CALLS},\
         \"source\":\"{source}\",\
         \"read\":{{\"median\":{:.2},\"min\":{:.2}}},\"limit\":{{\"median\":{:.2},\"min\":{:.2}}}}}",
        read.0, read.1, limit.0, limit.1
    );
    Ok(())
}
