//! The references in an object.

use crate::numbered::Map;

/// From this many on, they are found by a map.
const FEW: usize = 16;

/// The references in one object, by field or element. Null is not held.
#[derive(Debug)]
pub(super) enum Edges {
    /// In any order.
    Few(Vec<(u32, u64)>),
    Many(Map<u64>),
}

impl Default for Edges {
    fn default() -> Self {
        Edges::Few(Vec::new())
    }
}

impl Edges {
    /// Sets what a field refers to, and returns what it referred to before; 0 is null.
    pub(super) fn set(&mut self, slot: u32, target: u64) -> u64 {
        match self {
            Edges::Few(few) => {
                if let Some(at) = few.iter().position(|(it, _)| *it == slot) {
                    return match target {
                        0 => few.swap_remove(at).1,
                        _ => std::mem::replace(&mut few[at].1, target),
                    };
                }
                if target == 0 {
                    return 0;
                }
                if few.len() < FEW {
                    few.push((slot, target));
                    return 0;
                }
                let mut many: Map<u64> = few
                    .iter()
                    .map(|(slot, target)| (u64::from(*slot), *target))
                    .collect();
                many.insert(slot.into(), target);
                *self = Edges::Many(many);
                0
            }
            Edges::Many(many) => match target {
                0 => many.remove(&u64::from(slot)),
                _ => many.insert(slot.into(), target),
            }
            .unwrap_or(0),
        }
    }

    /// The objects that the object refers to.
    pub(super) fn targets(&self) -> impl Iterator<Item = u64> {
        let (few, many) = match self {
            Edges::Few(few) => (Some(few), None),
            Edges::Many(many) => (None, Some(many)),
        };
        let few = few.into_iter().flatten().map(|(_, target)| *target);
        few.chain(many.into_iter().flat_map(|many| many.values().copied()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_and_many_references_are_set_and_taken_away() {
        let mut edges = Edges::default();
        for round in 1..=2u64 {
            for slot in 0..100u32 {
                let before = if round == 1 {
                    0
                } else {
                    u64::from(slot) + 1000
                };
                assert_eq!(edges.set(slot, u64::from(slot) + round * 1000), before);
            }
        }
        for slot in 1..100 {
            assert_eq!(edges.set(slot, 0), u64::from(slot) + 2000);
        }
        assert_eq!(edges.targets().collect::<Vec<_>>(), [2000]);
        assert_eq!(edges.set(5, 0), 0);
    }
}
