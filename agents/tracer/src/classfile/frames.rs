//! The types that a method's code has where it is jumped to: the attribute `StackMapTable`.

use super::Fault;
use super::bytes::{Reader, put2, short};

/// The type of a local variable or of a place on the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// Without further information: unknown, numbers, null, and `this` before it is made.
    Plain(u8),
    /// An object of a class, by its constant.
    Object(u16),
    /// An object that the instruction at this place made and that has no values yet.
    New(u16),
}

impl Type {
    /// Places that it takes: two for `double` and `long`.
    fn places(&self) -> usize {
        match self {
            Type::Plain(3 | 4) => 2,
            _ => 1,
        }
    }
}

/// The unknown type.
pub const TOP: Type = Type::Plain(0);
/// `this`, before the constructor of the superclass has returned.
pub const THIS: Type = Type::Plain(6);

/// The difference of a frame from the one before.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Change {
    /// Nothing, and the stack is empty or has one.
    Same(Option<Type>),
    Chop(u8),
    Append(Vec<Type>),
    Full(Vec<Type>, Vec<Type>),
}

/// The types at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The instruction.
    pub at: usize,
    change: Change,
}

impl Frame {
    /// A frame that says everything.
    pub fn full(at: usize, locals: Vec<Type>, stack: Vec<Type>) -> Frame {
        Frame {
            at,
            change: Change::Full(locals, stack),
        }
    }

    /// Places that are taken on the stack.
    pub fn stack_places(&self) -> usize {
        match &self.change {
            Change::Same(Some(one)) => one.places(),
            Change::Full(_, stack) => stack.iter().map(Type::places).sum(),
            Change::Same(None) | Change::Chop(_) | Change::Append(_) => 0,
        }
    }

    /// Changes the places of local variables from the frame before to this one.
    pub fn apply_places(&self, locals: &mut Vec<usize>) {
        match &self.change {
            Change::Same(_) => {}
            Change::Chop(count) => locals.truncate(locals.len().saturating_sub((*count).into())),
            Change::Append(more) => locals.extend(more.iter().map(Type::places)),
            Change::Full(all, _) => *locals = all.iter().map(Type::places).collect(),
        }
    }

    /// Changes the types of local variables from the frame before to this one.
    pub fn apply(&self, locals: &mut Vec<Type>) {
        match &self.change {
            Change::Same(_) => {}
            Change::Chop(count) => locals.truncate(locals.len().saturating_sub((*count).into())),
            Change::Append(more) => locals.extend(more),
            Change::Full(all, _) => locals.clone_from(all),
        }
    }
}

fn read_type(reader: &mut Reader<'_>) -> Result<Type, Fault> {
    Ok(match reader.u1()? {
        7 => Type::Object(reader.u2()?),
        8 => Type::New(reader.u2()?),
        plain @ 0..=6 => Type::Plain(plain),
        _ => return Err(Fault::Damaged),
    })
}

fn read_types(reader: &mut Reader<'_>, count: usize) -> Result<Vec<Type>, Fault> {
    (0..count).map(|_| read_type(reader)).collect()
}

/// Reads the content of the attribute.
///
/// # Errors
/// [`Fault::Damaged`].
pub fn read(content: &[u8]) -> Result<Vec<Frame>, Fault> {
    let mut reader = Reader::new(content);
    let count = reader.u2()?;
    let mut frames = Vec::with_capacity(count.into());
    let mut next = 0;
    for _ in 0..count {
        let kind = reader.u1()?;
        let (offset, change) = match kind {
            0..=63 => (kind.into(), Change::Same(None)),
            64..=127 => (
                u16::from(kind - 64),
                Change::Same(Some(read_type(&mut reader)?)),
            ),
            247 => (reader.u2()?, Change::Same(Some(read_type(&mut reader)?))),
            248..=250 => (reader.u2()?, Change::Chop(251 - kind)),
            251 => (reader.u2()?, Change::Same(None)),
            252..=254 => {
                let offset = reader.u2()?;
                (
                    offset,
                    Change::Append(read_types(&mut reader, usize::from(kind - 251))?),
                )
            }
            255 => {
                let (offset, locals) = (reader.u2()?, reader.u2()?);
                let locals = read_types(&mut reader, locals.into())?;
                let stack = reader.u2()?;
                (
                    offset,
                    Change::Full(locals, read_types(&mut reader, stack.into())?),
                )
            }
            _ => return Err(Fault::Damaged),
        };
        let at = next + usize::from(offset);
        next = at + 1;
        frames.push(Frame { at, change });
    }
    if reader.is_at_end() {
        Ok(frames)
    } else {
        Err(Fault::Damaged)
    }
}

fn put_types(
    into: &mut Vec<u8>,
    types: &[Type],
    moved: &impl Fn(usize) -> Option<usize>,
) -> Result<(), Fault> {
    for it in types {
        match *it {
            Type::Plain(plain) => into.push(plain),
            Type::Object(class) => {
                into.push(7);
                put2(into, class);
            }
            Type::New(at) => {
                into.push(8);
                put2(into, short(moved(at.into()).ok_or(Fault::Damaged)?)?);
            }
        }
    }
    Ok(())
}

/// The content of the attribute, for code whose instructions have moved. Frames that were made for the new
/// code
/// (at `own` and later) stay where they are.
///
/// # Errors
/// [`Fault`].
pub fn write(
    frames: &[Frame],
    own: &[Frame],
    moved: &impl Fn(usize) -> Option<usize>,
) -> Result<Vec<u8>, Fault> {
    let mut content = Vec::new();
    put2(&mut content, short(frames.len() + own.len())?);
    let mut next = 0;
    let places = frames.iter().map(|frame| (moved(frame.at), frame));
    for (at, frame) in places.chain(own.iter().map(|frame| (Some(frame.at), frame))) {
        let at = at.ok_or(Fault::Damaged)?;
        let offset = short(at.checked_sub(next).ok_or(Fault::Damaged)?)?;
        next = at + 1;
        content.push(match &frame.change {
            Change::Same(None) => 251,
            Change::Same(Some(_)) => 247,
            Change::Chop(count) => 251 - count,
            Change::Append(more) => 251 + more.len() as u8,
            Change::Full(..) => 255,
        });
        put2(&mut content, offset);
        match &frame.change {
            Change::Same(None) | Change::Chop(_) => {}
            Change::Same(Some(one)) => put_types(&mut content, &[*one], moved)?,
            Change::Append(more) => put_types(&mut content, more, moved)?,
            Change::Full(locals, stack) => {
                put2(&mut content, short(locals.len())?);
                put_types(&mut content, locals, moved)?;
                put2(&mut content, short(stack.len())?);
                put_types(&mut content, stack, moved)?;
            }
        }
    }
    Ok(content)
}
