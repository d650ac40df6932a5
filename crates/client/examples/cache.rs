//! A cache that follows its limit: it fills itself up to the limit, and gives back what it owes.
//! The argument is how many seconds to run.

use plimsoll_client::{Bytes, Event, Principal};
use std::time::{Duration, Instant};

const BLOCK: usize = 1 << 20;

fn main() -> Result<(), plimsoll_client::Error> {
    let seconds = std::env::args().nth(1);
    let seconds = seconds.and_then(|text| text.parse().ok()).unwrap_or(60);
    let end = Instant::now() + Duration::from_secs(seconds);
    let principal = Principal::builder("my-cache").adapter("self").open()?;
    let mut cache: Vec<Vec<u8>> = Vec::new();
    while Instant::now() < end {
        let event = principal.wait(Duration::from_millis(20));
        let now = *event.reading();
        if now.owed > 0 {
            // The blocks that make up for what is owed, or all that there are.
            let blocks = (now.owed as usize).div_ceil(BLOCK).min(cache.len());
            cache.truncate(cache.len() - blocks);
            principal.released(Bytes((blocks * BLOCK) as u64));
        } else if now.uses + 2 * (BLOCK as u64) < now.limit {
            cache.push(vec![1; BLOCK]);
        }
        if now.owed > 0 || !matches!(event, Event::Timeout(_)) {
            let (limit, owed, cached) = (now.limit >> 20, now.owed >> 20, cache.len());
            println!("limit {limit} MiB, owed {owed} MiB, cached {cached} MiB");
        }
    }
    Ok(())
}
