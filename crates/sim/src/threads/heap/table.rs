//! Records of live objects, each in one list: that of its region or block.
//!
//! Memory is proportional to the most objects that lived at once: the record of a dead one is used again.

use super::collector::Place;

/// The end of a list, and the number of no object.
const NONE: u32 = u32::MAX;

/// The number of a live object in its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Object(u32);

impl Object {
    /// Its place, as the collector's [`Place`].
    pub(super) fn place(self) -> Place {
        Place::new(u64::from(self.0))
    }

    /// The object whose place that is.
    pub(super) fn at(place: Place) -> Object {
        Object(place.number() as u32)
    }
}

#[derive(Clone, Copy, Debug)]
struct Record {
    /// Bytes.
    size: u64,
    /// The list that it is in.
    list: u32,
    /// Its neighbours in that list. `after` also chains the records that are not in use.
    before: u32,
    after: u32,
}

/// Objects in the order in which they came.
#[derive(Clone, Copy, Debug)]
struct List {
    first: u32,
    last: u32,
}

/// Records of live objects, in lists by number.
#[derive(Debug)]
pub(super) struct Table {
    records: Vec<Record>,
    lists: Vec<List>,
    /// The first record that is not in use.
    spare: u32,
}

impl Table {
    /// A table without objects.
    pub(super) fn new() -> Table {
        Table {
            records: Vec::new(),
            lists: Vec::new(),
            spare: NONE,
        }
    }

    /// Records an object at the end of a list. Nothing if there are as many objects as numbers: 2^32 - 1.
    pub(super) fn add(&mut self, list: u32, size: u64) -> Option<Object> {
        let record = Record {
            size,
            list,
            before: NONE,
            after: NONE,
        };
        let number = match self.spare {
            NONE => {
                let number = u32::try_from(self.records.len()).ok()?;
                if number == NONE {
                    return None;
                }
                self.records.push(record);
                number
            }
            spare => {
                self.spare = self.records[spare as usize].after;
                self.records[spare as usize] = record;
                spare
            }
        };
        self.append(number, list);
        Some(Object(number))
    }

    /// Forgets an object. Returns its list.
    pub(super) fn remove(&mut self, object: Object) -> u32 {
        self.unlink(object.0);
        let record = &mut self.records[object.0 as usize];
        record.after = std::mem::replace(&mut self.spare, object.0);
        record.list
    }

    /// Moves an object to the end of a list.
    pub(super) fn move_to(&mut self, object: Object, list: u32) {
        self.unlink(object.0);
        self.append(object.0, list);
    }

    /// The size of an object, bytes.
    pub(super) fn size(&self, object: Object) -> u64 {
        self.records[object.0 as usize].size
    }

    /// The first object of a list.
    pub(super) fn first(&self, list: u32) -> Option<Object> {
        let list = self.lists.get(list as usize)?;
        (list.first != NONE).then_some(Object(list.first))
    }

    /// The object after another one in its list.
    pub(super) fn after(&self, object: Object) -> Option<Object> {
        let after = self.records[object.0 as usize].after;
        (after != NONE).then_some(Object(after))
    }

    /// The objects of a list, in order.
    pub(super) fn of(&self, list: u32) -> impl Iterator<Item = Object> + '_ {
        std::iter::successors(self.first(list), |&object| self.after(object))
    }

    fn append(&mut self, number: u32, list: u32) {
        let place = list as usize;
        if self.lists.len() <= place {
            let empty = List {
                first: NONE,
                last: NONE,
            };
            self.lists.resize(place + 1, empty);
        }
        let before = std::mem::replace(&mut self.lists[place].last, number);
        match before {
            NONE => self.lists[place].first = number,
            before => self.records[before as usize].after = number,
        }
        let record = &mut self.records[number as usize];
        record.list = list;
        record.before = before;
        record.after = NONE;
    }

    fn unlink(&mut self, number: u32) {
        let Record {
            list,
            before,
            after,
            ..
        } = self.records[number as usize];
        match before {
            NONE => self.lists[list as usize].first = after,
            before => self.records[before as usize].after = after,
        }
        match after {
            NONE => self.lists[list as usize].last = before,
            after => self.records[after as usize].before = before,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_used_again_and_lists_keep_their_order() {
        let mut table = Table::new();
        let objects: Vec<Object> = (0..6).map(|size| table.add(2, size).unwrap()).collect();
        let sizes = |table: &Table, list| -> Vec<u64> {
            table.of(list).map(|object| table.size(object)).collect()
        };
        assert_eq!(sizes(&table, 2), [0, 1, 2, 3, 4, 5]);
        table.move_to(objects[0], 5);
        table.move_to(objects[3], 5);
        assert_eq!(table.remove(objects[5]), 2);
        assert_eq!(
            (sizes(&table, 2), sizes(&table, 5)),
            (vec![1, 2, 4], vec![0, 3])
        );
        assert_eq!(table.add(5, 9), Some(objects[5]));
        assert_eq!(sizes(&table, 5), [0, 3, 9]);
        assert_eq!((table.records.len(), table.first(7)), (6, None));
    }
}
