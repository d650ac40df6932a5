//! The encoding of a summary: a sorted list of numbers as the gaps between them, in a Rice code.
//!
//! The bytes of a summary. Byte 0: the size of the block, see `store`. Byte 1: the size of a group,
//! as a power of two of granules. Byte 2: how many low bits of a gap are written plainly. Bytes 3
//! and 4: how many numbers there are. Then follow bits, lowest first: the first number in 40 bits,
//! then each gap minus 1. The upper part of a gap comes first, in unary (at most `LONG` ones, and then the
//! whole gap in 40 bits), then a zero, then the lower part.

use crate::side::SUMMARY;

/// Bytes before the bits.
const HEADER: usize = 5;
/// Bits of a granule's number: enough for heaps up to 16 TiB.
const NUMBER: u32 = 40;
const LONG: u64 = 20;

/// How the groups of sorted numbers will be written. It exists only if there is room for them.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    /// A group has `1 << shift` granules.
    shift: u8,
    /// How many low bits of a gap are written as they are; the rest is written in unary.
    low: u32,
    /// How many groups.
    count: u16,
    /// Bytes of the encoding, header included.
    bytes: usize,
}

/// Plans how to write the groups of `1 << shift` granules that the sorted numbers fall into. `None`
/// if there is no room.
pub(crate) fn plan(numbers: &[u64], shift: u8) -> Option<Plan> {
    let (mut count, mut digits) = (0u64, 0u64);
    each_gap(numbers, shift, |gap| {
        digits += u64::from(u64::BITS - gap.leading_zeros());
        count += 1;
    });
    let low = ((digits + count / 2) / count.max(1)).saturating_sub(1) as u32;
    let mut bits = u64::from(NUMBER);
    each_gap(numbers, shift, |gap| {
        let high = gap >> low;
        bits += if high < LONG {
            high + 1 + u64::from(low)
        } else {
            LONG + u64::from(NUMBER)
        };
    });
    let any = !numbers.is_empty();
    let bytes = HEADER + if any { bits.div_ceil(8) as usize } else { 0 };
    let count = u16::try_from(count + u64::from(any)).ok()?;
    (bytes <= SUMMARY).then_some(Plan {
        shift,
        low,
        count,
        bytes,
    })
}

impl Plan {
    /// Bytes that the encoding takes. The first of them belongs to the store.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Writes the groups of these numbers to a block of as many bytes as `plan` says.
pub(crate) fn write(numbers: &[u64], plan: Plan, out: &mut [u8]) {
    let Plan {
        shift, low, count, ..
    } = plan;
    out[1] = shift;
    out[2] = low as u8;
    out[3..HEADER].copy_from_slice(&count.to_le_bytes());
    let mut bits = Writer {
        out: &mut out[HEADER..plan.bytes],
        at: 0,
        word: 0,
        filled: 0,
    };
    if let Some(first) = numbers.first() {
        bits.put(first >> shift, NUMBER);
    }
    each_gap(numbers, shift, |gap| {
        let high = gap >> low;
        if high < LONG {
            bits.put((1 << high) - 1, high as u32 + 1);
            bits.put(gap & ((1 << low) - 1), low);
        } else {
            bits.put((1 << LONG) - 1, LONG as u32);
            bits.put(gap, NUMBER);
        }
    });
    bits.finish();
}

/// Calls `tell` with each gap between neighbouring groups, minus 1.
#[inline(always)]
fn each_gap(numbers: &[u64], shift: u8, mut tell: impl FnMut(u64)) {
    let Some(first) = numbers.first() else { return };
    let mut last = first >> shift;
    for number in numbers {
        let group = number >> shift;
        if group != last {
            tell(group - last - 1);
            last = group;
        }
    }
}

/// Writes bits, lowest first. The caller has checked that they fit.
struct Writer<'a> {
    out: &'a mut [u8],
    /// Bytes written so far.
    at: usize,
    /// Bits that are not a whole byte yet.
    word: u64,
    /// Number of these bits.
    filled: u32,
}

impl Writer<'_> {
    /// At most `NUMBER` bits.
    fn put(&mut self, value: u64, count: u32) {
        self.word |= value << self.filled;
        self.filled += count;
        while self.filled >= 8 {
            self.out[self.at] = self.word as u8;
            self.at += 1;
            self.word >>= 8;
            self.filled -= 8;
        }
    }

    fn finish(mut self) {
        if self.filled > 0 {
            self.put(0, 8 - self.filled);
        }
    }
}

/// The groups of one summary. The iterator returns the first granule of each; `granules` says how
/// many a group has.
pub(crate) struct Groups<'a> {
    /// The encoding, without its header.
    bits: &'a [u8],
    /// Bits read so far.
    at: usize,
    /// Groups still to be read.
    left: u16,
    /// As in [`Plan`].
    shift: u8,
    low: u32,
    /// The number of the last group; `None` before the first.
    last: Option<u64>,
}

/// Reads what [`write()`] wrote. For other bytes the result is arbitrary, but the iteration ends.
pub(crate) fn decode(bytes: &[u8]) -> Groups<'_> {
    let byte = |at: usize| bytes.get(at).copied().unwrap_or(0);
    Groups {
        bits: bytes.get(HEADER..).unwrap_or_default(),
        at: 0,
        left: u16::from_le_bytes([byte(3), byte(4)]),
        shift: byte(1).min(32),
        low: u32::from(byte(2)).min(NUMBER),
        last: None,
    }
}

impl Groups<'_> {
    /// Granules of a group. If 1, each granule is the first of a slot.
    pub(crate) fn granules(&self) -> u64 {
        1 << self.shift
    }

    /// At least 57 bits from the current position; zeros after the end.
    #[inline]
    fn peek(&self) -> u64 {
        let rest = self.bits.get(self.at / 8..).unwrap_or_default();
        let word = match rest.first_chunk() {
            Some(bytes) => u64::from_le_bytes(*bytes),
            None => rest
                .iter()
                .rev()
                .fold(0, |word, &byte| word << 8 | u64::from(byte)),
        };
        word >> (self.at % 8)
    }

    #[inline]
    fn get(&mut self, count: u32) -> Option<u64> {
        let value = self.peek() & ((1 << count) - 1);
        self.at += count as usize;
        (self.at <= self.bits.len() * 8).then_some(value)
    }

    #[inline]
    fn get_gap(&mut self) -> Option<u64> {
        let high = self.peek().trailing_ones();
        if u64::from(high) >= LONG {
            self.at += LONG as usize;
            return self.get(NUMBER);
        }
        self.at += high as usize + 1;
        Some(u64::from(high) << self.low | self.get(self.low)?)
    }
}

impl Iterator for Groups<'_> {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.left = self.left.checked_sub(1)?;
        let group = match self.last {
            None => self.get(NUMBER)?,
            Some(last) => last.wrapping_add(self.get_gap()?).wrapping_add(1),
        };
        self.last = Some(group);
        Some(group.wrapping_shl(u32::from(self.shift)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::{btree_set, vec};
    use proptest::prelude::*;

    fn encode(numbers: &[u64], shift: u8, out: &mut [u8]) -> Option<usize> {
        let plan = plan(numbers, shift)?;
        write(numbers, plan, out);
        Some(plan.bytes())
    }

    fn near(start: u64) -> impl Strategy<Value = Vec<u64>> {
        vec(start..start + 3000, 0..200)
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            close in (0u64..1 << 36).prop_flat_map(near),
            far in vec(0u64..1 << 38, 0..60),
            shift in 0u8..21,
        ) {
            let mut numbers: Vec<u64> = close.into_iter().chain(far).collect();
            numbers.sort_unstable();
            let mut out = [0xaa; SUMMARY];
            if let Some(used) = encode(&numbers, shift, &mut out) {
                let mut expected: Vec<u64> = numbers.iter().map(|number| number >> shift << shift).collect();
                expected.dedup();
                let groups = decode(&out[..used]);
                prop_assert_eq!(groups.granules(), 1 << shift);
                prop_assert_eq!(groups.collect::<Vec<_>>(), expected);
            }
        }

        #[test]
        #[cfg_attr(miri, ignore = "it takes minutes")]
        fn what_does_not_fit_fits_in_larger_groups(numbers in btree_set(0u64..1 << 26, 500..2048)) {
            let numbers: Vec<u64> = numbers.into_iter().collect();
            let fits = super::super::SHIFTS.iter().any(|&shift| plan(&numbers, shift).is_some());
            prop_assert!(fits, "{} numbers", numbers.len());
        }

        #[test]
        fn any_bytes_come_to_an_end(bytes in vec(any::<u8>(), 0..SUMMARY)) {
            prop_assert!(decode(&bytes).count() <= usize::from(u16::MAX));
        }
    }

    #[test]
    fn neighbours_take_three_bits_each() {
        let mut out = [0; SUMMARY];
        let numbers: Vec<u64> = (0..600).map(|at| 5_000_000 + at * 4).collect();
        let used = encode(&numbers, 0, &mut out).unwrap();
        assert!(used < 240, "{used}");
        assert_eq!(encode(&[], 0, &mut out), Some(HEADER));
        assert_eq!(decode(&out[..HEADER]).count(), 0);
    }
}
