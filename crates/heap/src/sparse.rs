//! A table by kind and class. Most kinds have objects of one or two classes, so entries are made when they
//! are first used.

use crate::class::{CLASSES, Class};
use crate::kind::KindId;

/// Neighbouring entries that are made together.
const CHUNK: usize = 12;

/// Entries by kind and class.
#[derive(Debug, Default)]
pub(crate) struct Table<T> {
    /// Up to the last chunk that was made.
    chunks: Vec<Option<Box<[T; CHUNK]>>>,
}

impl<T: Default> Table<T> {
    fn place(kind: KindId, class: Class) -> (usize, usize) {
        let at = usize::from(kind.0) * CLASSES + usize::from(class.0);
        (at / CHUNK, at % CHUNK)
    }

    /// The entry, if it was made.
    #[inline]
    pub(crate) fn get(&self, kind: KindId, class: Class) -> Option<&T> {
        let (chunk, at) = Table::<T>::place(kind, class);
        self.chunks.get(chunk)?.as_ref().map(|chunk| &chunk[at])
    }

    /// The entry, if it was made.
    #[inline]
    pub(crate) fn get_mut(&mut self, kind: KindId, class: Class) -> Option<&mut T> {
        let (chunk, at) = Table::<T>::place(kind, class);
        let chunk = self.chunks.get_mut(chunk)?.as_mut();
        chunk.map(|chunk| &mut chunk[at])
    }

    /// The entry, made if it was not. This allocates with `malloc`.
    pub(crate) fn make(&mut self, kind: KindId, class: Class) -> &mut T {
        let (chunk, at) = Table::<T>::place(kind, class);
        if self.chunks.len() <= chunk {
            self.chunks.resize_with(chunk + 1, || None);
        }
        let chunk = &mut self.chunks[chunk];
        &mut chunk.get_or_insert_with(|| Box::new(std::array::from_fn(|_| T::default())))[at]
    }

    /// All entries that were made, each with its class.
    pub(crate) fn each(&self) -> impl Iterator<Item = (Class, &T)> {
        let chunks = self.chunks.iter().enumerate();
        chunks.flat_map(|(chunk, of)| {
            let classes = (chunk * CHUNK..).map(|at| Class((at % CLASSES) as u8));
            classes.zip(of.iter().flat_map(|entries| entries.iter()))
        })
    }

    /// The same, to change them.
    pub(crate) fn each_mut(&mut self) -> impl Iterator<Item = (Class, &mut T)> {
        let chunks = self.chunks.iter_mut().enumerate();
        chunks.flat_map(|(chunk, of)| {
            let classes = (chunk * CHUNK..).map(|at| Class((at % CLASSES) as u8));
            classes.zip(of.iter_mut().flat_map(|entries| entries.iter_mut()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::KINDS;

    #[test]
    #[cfg_attr(miri, ignore = "it takes minutes")]
    fn what_was_made_is_there_and_nothing_else_takes_room() {
        let mut table = Table::<u32>::default();
        let used = [(0, 0), (0, 35), (7, 12), (KINDS as u16 - 1, 35)];
        for (kind, class) in used {
            *table.make(KindId(kind), Class(class)) = u32::from(kind) * 100 + u32::from(class);
        }
        let made = table.chunks.iter().flatten().count();
        assert_eq!(made, used.len());
        for (kind, class) in used {
            let number = u32::from(kind) * 100 + u32::from(class);
            assert_eq!(table.get(KindId(kind), Class(class)), Some(&number));
            assert_eq!(
                table.get_mut(KindId(kind), Class(class)),
                Some(&mut { number })
            );
            let same = |&(of, entry): &(Class, &u32)| *entry == number && of == Class(class);
            assert_eq!(table.each().filter(same).count(), 1);
        }
        assert_eq!(table.get(KindId(1), Class(0)), None);
        table.each_mut().for_each(|(_, entry)| *entry = 0);
        assert!(table.each().all(|(_, &entry)| entry == 0));
    }
}
