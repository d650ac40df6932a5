//! Entry points for fuzzers: plain functions that take any bytes and must neither panic nor break
//! the property that they state.

use crate::side::SUMMARY;
use crate::summary::codec::{decode, plan, write};

/// Decodes the bytes as a summary, which must come to an end. Then derives numbers from the bytes,
/// encodes them, and checks that they decode to the same numbers.
pub fn fuzz_summary(bytes: &[u8]) {
    let bytes = &bytes[..bytes.len().min(4096)];
    let groups = decode(&bytes[..bytes.len().min(SUMMARY)]);
    assert!(groups.granules().is_power_of_two());
    assert!(groups.count() <= usize::from(u16::MAX));

    let Some((&shift, rest)) = bytes.split_first() else {
        return;
    };
    let (shift, most) = (shift % 21, (1u64 << 40) - 1);
    // Gaps of one, two or five bytes: neighbouring numbers, and numbers far apart.
    let (mut numbers, mut last, mut at) = (Vec::new(), 0u64, 0);
    while let Some(&first) = rest.get(at) {
        let width = [1, 2, 5][usize::from(first % 3)];
        let digits = rest[at..].iter().take(width);
        let gap = digits.fold(0, |gap, &digit| gap << 8 | u64::from(digit));
        at += width;
        last = (last + gap).min(most);
        numbers.push(last);
    }
    let mut out = [0xaa; SUMMARY];
    let Some(plan) = plan(&numbers, shift) else {
        return;
    };
    write(&numbers, plan, &mut out);
    let used = plan.bytes();
    let mut expected: Vec<u64> = numbers.iter().map(|n| n >> shift << shift).collect();
    expected.dedup();
    // In a reused block, what lies beyond the encoding must not matter.
    assert_eq!(decode(&out[..used]).collect::<Vec<_>>(), expected);
    assert_eq!(decode(&out).collect::<Vec<_>>(), expected);
}
