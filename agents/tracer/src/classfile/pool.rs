//! The constants of a class file, to which some are added.

use super::Fault;
use super::bytes::{Reader, put2, short};
use std::collections::HashMap;

/// A constant, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Constant<'a> {
    Text(&'a [u8]),
    Class(u16),
    NameAndType(u16, u16),
    /// A field, a method or an interface method: which of them, class, name and type.
    Member(u8, u16, u16),
    /// A dynamic constant or call site: name and type.
    Dynamic(u16),
    Other,
}

/// A field or a method that code refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member<'a> {
    /// Its class's name; empty for call sites.
    pub class: &'a [u8],
    /// Its name.
    pub name: &'a [u8],
    /// Its type.
    pub descriptor: &'a [u8],
    /// Whether it is named as a method of a class, not of an interface.
    pub is_of_class: bool,
}

/// The kind of constant that names a method of a class.
const METHOD: u8 = 10;

/// The key of an added constant, so that none is added twice.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Added {
    Text(Vec<u8>),
    Class(u16),
    NameAndType(u16, u16),
    Method(u16, u16),
    Int(i32),
}

/// The constants.
#[derive(Debug)]
pub struct Pool<'a> {
    constants: Vec<Constant<'a>>,
    /// The bytes of those that the class file has.
    old: &'a [u8],
    new: Vec<u8>,
    /// How many there are, and one.
    count: usize,
    added: HashMap<Added, u16>,
}

impl<'a> Pool<'a> {
    /// Reads them, from their count on.
    ///
    /// # Errors
    /// [`Fault::Damaged`].
    pub fn read(bytes: &'a [u8], reader: &mut Reader<'a>) -> Result<Pool<'a>, Fault> {
        let count = usize::from(reader.u2()?);
        let begin = reader.at();
        let mut constants = Vec::with_capacity(count);
        constants.push(Constant::Other);
        // The greatest number by which a constant names another.
        let mut named = 0;
        let mut other = |reader: &mut Reader<'a>| {
            let index = reader.u2()?;
            named = named.max(index);
            Ok(index)
        };
        while constants.len() < count {
            let tag = reader.u1()?;
            let constant = match tag {
                1 => {
                    let length = reader.u2()?;
                    Constant::Text(reader.take(length.into())?)
                }
                7 => Constant::Class(other(reader)?),
                9..=11 => Constant::Member(tag, other(reader)?, other(reader)?),
                12 => Constant::NameAndType(other(reader)?, other(reader)?),
                17 | 18 => {
                    reader.u2()?;
                    Constant::Dynamic(other(reader)?)
                }
                3 | 4 => reader.take(4).map(|_| Constant::Other)?,
                5 | 6 => reader.take(8).map(|_| Constant::Other)?,
                8 | 16 | 19 | 20 => other(reader).map(|_| Constant::Other)?,
                15 => {
                    reader.u1()?;
                    other(reader).map(|_| Constant::Other)?
                }
                _ => return Err(Fault::Damaged),
            };
            constants.push(constant);
            if matches!(tag, 5 | 6) {
                constants.push(Constant::Other);
            }
        }
        let old = bytes.get(begin..reader.at()).ok_or(Fault::Damaged)?;
        // There is one at least, a wide one takes two places, and what is added must not be named by chance.
        if constants.len() != count || usize::from(named) >= count {
            return Err(Fault::Damaged);
        }
        Ok(Pool {
            constants,
            old,
            new: Vec::new(),
            count,
            added: HashMap::new(),
        })
    }

    /// No constants.
    pub fn empty() -> Pool<'static> {
        Pool {
            constants: vec![Constant::Other],
            old: &[],
            new: Vec::new(),
            count: 1,
            added: HashMap::new(),
        }
    }

    /// Whether the class file has a constant of this number, or it is 0.
    pub fn has(&self, index: u16) -> bool {
        usize::from(index) < self.constants.len()
    }

    /// A text.
    ///
    /// # Errors
    /// [`Fault::Damaged`] if it is none.
    pub fn text(&self, index: u16) -> Result<&'a [u8], Fault> {
        match self.constants.get(usize::from(index)) {
            Some(Constant::Text(text)) => Ok(text),
            _ => Err(Fault::Damaged),
        }
    }

    /// A class's name.
    ///
    /// # Errors
    /// As [`Pool::text`].
    pub fn class(&self, index: u16) -> Result<&'a [u8], Fault> {
        match self.constants.get(usize::from(index)) {
            Some(Constant::Class(name)) => self.text(*name),
            _ => Err(Fault::Damaged),
        }
    }

    /// A field, a method or a call site.
    ///
    /// # Errors
    /// As [`Pool::text`].
    pub fn member(&self, index: u16) -> Result<Member<'a>, Fault> {
        let (tag, class, both) = match self.constants.get(usize::from(index)) {
            Some(Constant::Member(tag, class, both)) => (*tag, self.class(*class)?, *both),
            Some(Constant::Dynamic(both)) => (0, &[][..], *both),
            _ => return Err(Fault::Damaged),
        };
        match self.constants.get(usize::from(both)) {
            Some(Constant::NameAndType(name, descriptor)) => Ok(Member {
                class,
                name: self.text(*name)?,
                descriptor: self.text(*descriptor)?,
                is_of_class: tag == METHOD,
            }),
            _ => Err(Fault::Damaged),
        }
    }

    fn add(&mut self, what: Added) -> Result<u16, Fault> {
        if let Some(index) = self.added.get(&what) {
            return Ok(*index);
        }
        // The highest index is 65534.
        let index = short(self.count)
            .ok()
            .filter(|index| *index < u16::MAX)
            .ok_or(Fault::Long)?;
        let new = &mut self.new;
        match &what {
            Added::Text(text) => {
                let length = short(text.len())?;
                new.push(1);
                put2(new, length);
                new.extend_from_slice(text);
            }
            Added::Class(name) => {
                new.push(7);
                put2(new, *name);
            }
            Added::NameAndType(one, other) | Added::Method(one, other) => {
                new.push(match what {
                    Added::NameAndType(..) => 12,
                    _ => 10,
                });
                put2(new, *one);
                put2(new, *other);
            }
            Added::Int(number) => {
                new.push(3);
                new.extend_from_slice(&number.to_be_bytes());
            }
        }
        self.count += 1;
        self.added.insert(what, index);
        Ok(index)
    }

    /// Adds a text.
    ///
    /// # Errors
    /// [`Fault::Long`] if there are too many constants.
    pub fn add_text(&mut self, text: &str) -> Result<u16, Fault> {
        self.add(Added::Text(text.as_bytes().to_vec()))
    }

    /// Adds a class.
    ///
    /// # Errors
    /// As [`Pool::add_text`].
    pub fn add_class(&mut self, name: &[u8]) -> Result<u16, Fault> {
        let name = self.add(Added::Text(name.to_vec()))?;
        self.add(Added::Class(name))
    }

    fn add_name_and_type(&mut self, name: &str, descriptor: &str) -> Result<u16, Fault> {
        let name = self.add_text(name)?;
        let descriptor = self.add_text(descriptor)?;
        self.add(Added::NameAndType(name, descriptor))
    }

    /// Adds a method of a class.
    ///
    /// # Errors
    /// As [`Pool::add_text`].
    pub fn add_method(&mut self, class: &str, name: &str, descriptor: &str) -> Result<u16, Fault> {
        let class = self.add_class(class.as_bytes())?;
        let both = self.add_name_and_type(name, descriptor)?;
        self.add(Added::Method(class, both))
    }

    /// Adds a number.
    ///
    /// # Errors
    /// As [`Pool::add_text`].
    pub fn add_int(&mut self, number: i32) -> Result<u16, Fault> {
        self.add(Added::Int(number))
    }

    /// Appends their count and all of them.
    pub fn write(&self, into: &mut Vec<u8>) {
        // `add` keeps the count below 65536.
        put2(into, self.count as u16);
        into.extend_from_slice(self.old);
        into.extend_from_slice(&self.new);
    }
}
