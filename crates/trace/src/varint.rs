//! Numbers in as few bytes as they need: seven bits a byte, the lowest first (LEB128), and signed ones
//! folded so that small negative numbers are short, too (zigzag).

/// The most bytes of a number.
pub(crate) const LONGEST: usize = 10;

/// Appends a number.
#[inline]
pub(crate) fn put(into: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        into.push(value as u8 | 0x80);
        value >>= 7;
    }
    into.push(value as u8);
}

/// Why no number could be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// The bytes end within it.
    Cut,
    /// It does not fit in 64 bits.
    TooLong,
}

/// Reads a number at `*at`, and moves `*at` behind it.
#[inline]
pub(crate) fn take(from: &[u8], at: &mut usize) -> Result<u64, Unreadable> {
    match from.get(*at) {
        Some(&byte) if byte < 0x80 => {
            *at += 1;
            Ok(u64::from(byte))
        }
        _ => take_long(from, at),
    }
}

fn take_long(from: &[u8], at: &mut usize) -> Result<u64, Unreadable> {
    let mut value = 0;
    for index in 0..LONGEST {
        let byte = *from.get(*at + index).ok_or(Unreadable::Cut)?;
        let bits = u64::from(byte & 0x7f);
        if index == LONGEST - 1 && bits > 1 {
            return Err(Unreadable::TooLong);
        }
        value |= bits << (7 * index);
        if byte < 0x80 {
            *at += index + 1;
            return Ok(value);
        }
    }
    Err(Unreadable::TooLong)
}

/// The difference of two numbers, folded: 0, -1, 1, -2 … become 0, 1, 2, 3 …
#[inline]
pub(crate) fn fold(value: u64, from: u64) -> u64 {
    let difference = value.wrapping_sub(from) as i64;
    ((difference << 1) ^ (difference >> 63)) as u64
}

/// The number whose difference from another one was folded.
#[inline]
pub(crate) fn unfold(folded: u64, from: u64) -> u64 {
    from.wrapping_add((folded >> 1) ^ (folded & 1).wrapping_neg())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_come_back(values in proptest::collection::vec(any::<u64>(), 0..50), from: u64) {
            let mut bytes = Vec::new();
            for value in &values {
                put(&mut bytes, *value);
                prop_assert_eq!(unfold(fold(*value, from), from), *value);
            }
            let mut at = 0;
            for value in &values {
                prop_assert_eq!(take(&bytes, &mut at), Ok(*value));
            }
            prop_assert_eq!(take(&bytes, &mut at), Err(Unreadable::Cut));
        }
    }

    #[test]
    fn what_is_too_long_is_refused() {
        let mut at = 0;
        assert_eq!(take(&[0xff; 11], &mut at), Err(Unreadable::TooLong));
        let most = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        assert_eq!(take(&most, &mut at), Ok(u64::MAX));
        assert_eq!([fold(4, 5), fold(6, 5), fold(3, 5)], [1, 2, 3]);
    }
}
