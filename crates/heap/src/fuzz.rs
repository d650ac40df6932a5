//! Entry points for fuzzers: plain functions that take any bytes and must neither panic nor break
//! the property that they state.

use crate::summary::SUMMARY;
use crate::summary::codec::{decode, plan, write};

/// Any bytes are read as a summary, to an end; and numbers that are made of them are read as they
/// were written.
pub fn fuzz_summary(bytes: &[u8]) {
    let bytes = &bytes[..bytes.len().min(4096)];
    let groups = decode(&bytes[..bytes.len().min(SUMMARY)]);
    assert!(groups.granules().is_power_of_two());
    assert!(groups.count() <= usize::from(u16::MAX));

    let Some((&shift, rest)) = bytes.split_first() else {
        return;
    };
    let (shift, most) = (shift % 21, (1u64 << 40) - 1);
    // Gaps of one, two or five bytes: neighbours, and numbers that are far away.
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
    // What lies behind, in a block that was used before, does not matter.
    assert_eq!(decode(&out[..used]).collect::<Vec<_>>(), expected);
    assert_eq!(decode(&out).collect::<Vec<_>>(), expected);
}
