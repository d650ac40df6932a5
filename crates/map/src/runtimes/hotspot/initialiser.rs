//! Numbers that a library sets with its first instructions.
//!
//! Since JDK 17 the offsets of fields are not in the file's data: a constructor stores them, each with
//! one instruction, before anything else runs. Nobody reads them afterwards, so they are among the
//! first that go to swap. The instructions themselves are in the file.

use plimsoll_kernel::smaps::Addresses;
use plimsoll_programs::elf::Image;
use std::collections::HashMap;

/// Most bytes of code that are looked through.
const MAX_CODE: u64 = 64 << 20;
/// Bytes that are read at a time.
const PIECE: u64 = 256 << 10;
/// `movq $number, distance(%rip)` of x86-64: three bytes, the distance from the next instruction to
/// the place, and the number, which is extended by its sign.
const STORE: [u8; 3] = [0x48, 0xc7, 0x05];
const LENGTH: usize = 11;

/// The numbers that instructions store at multiples of 8 bytes in `places`, by place. Empty where the
/// code is for other processors than x86-64.
pub(super) fn numbers(image: &Image, places: &Addresses) -> HashMap<u64, u64> {
    let mut found = HashMap::new();
    let mut bytes = vec![0; PIECE as usize + LENGTH];
    let mut left = MAX_CODE;
    for code in image.code() {
        let end = code.end.min(code.start.saturating_add(left));
        left -= end - code.start;
        let mut at = code.start;
        while at < end {
            let length = (PIECE + LENGTH as u64).min(end - at) as usize;
            if !image.fill(at, &mut bytes[..length]) {
                break;
            }
            stores(&bytes[..length], at, places, &mut found);
            at += PIECE;
        }
    }
    found
}

/// Adds what the code at this address stores in `places`.
fn stores(code: &[u8], address: u64, places: &Addresses, found: &mut HashMap<u64, u64>) {
    for (at, instruction) in code.windows(LENGTH).enumerate() {
        if instruction[..3] != STORE {
            continue;
        }
        let word = |from: usize| {
            let bytes = instruction[from..from + 4].try_into().unwrap_or_default();
            i64::from(i32::from_le_bytes(bytes))
        };
        let next = address.wrapping_add((at + LENGTH) as u64);
        let place = next.wrapping_add_signed(word(3));
        if places.contains(&place) && place.is_multiple_of(8) {
            found.insert(place, word(7) as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_into_the_places_are_found_and_others_are_not() {
        // The first instruction of the constructor in a libjvm.so of JDK 25.
        let first = [0x48, 0xc7, 0x05, 0x04, 0x7e, 0x45, 0x01, 0x48, 0x01, 0, 0];
        let mut code = vec![0x55];
        code.extend(first);
        code.extend([0x48, 0xc7, 0x05]);
        let mut found = HashMap::new();
        stores(&code, 0x32_f8d0, &(0x178_7000..0x178_8000), &mut found);
        assert_eq!(found, HashMap::from([(0x178_76e0, 0x148)]));
        found.clear();
        stores(&code, 0x32_f8d0, &(0x179_0000..0x17a_0000), &mut found);
        assert!(found.is_empty());
    }
}
