//! One method's code with snippets in it.

use super::Fault;
use super::bytes::{Reader, put2, put4, short};
use super::frames::{self, Frame};
use super::instructions::{self, Instruction, decode, op, padding, targets};
use super::pool::Pool;

/// The attribute `Code` of a method, taken apart.
#[derive(Debug)]
pub struct Code<'a> {
    /// Places on the stack.
    pub max_stack: u16,
    /// Places of local variables.
    pub max_locals: u16,
    /// The instructions' bytes.
    pub bytes: &'a [u8],
    /// The instructions.
    pub instructions: Vec<Instruction>,
    /// Begin, end and handler of what is caught, and the class's constant.
    handlers: Vec<[u16; 4]>,
    /// The types at targets.
    pub frames: Vec<Frame>,
    lines: Vec<&'a [u8]>,
    variables: Vec<(u16, &'a [u8])>,
}

/// Attributes of code that may occur more than once.
const MANY: [&[u8]; 3] = [
    b"LineNumberTable",
    b"LocalVariableTable",
    b"LocalVariableTypeTable",
];

/// Code to insert into a method.
#[derive(Debug)]
pub struct Woven {
    /// Once, before everything.
    pub prologue: Vec<u8>,
    /// Before each instruction. A jump to the instruction runs that, too.
    pub before: Vec<Vec<u8>>,
    /// After each instruction.
    pub after: Vec<Vec<u8>>,
    /// Instructions whose bytes are others of the same length.
    pub replaced: Vec<Option<Vec<u8>>>,
    /// A handler of exceptions that leave the method: its first instruction, its code, with the exception on
    /// the stack, and the types of local variables there.
    pub leaving: Option<(usize, Vec<u8>, Vec<frames::Type>)>,
    /// More places of local variables.
    pub locals: u16,
    /// More places on the stack.
    pub stack: u16,
}

impl Woven {
    /// Nothing, for a method of this many instructions.
    pub fn nothing(count: usize) -> Woven {
        Woven {
            prologue: Vec::new(),
            before: vec![Vec::new(); count],
            after: vec![Vec::new(); count],
            replaced: vec![None; count],
            leaving: None,
            locals: 0,
            stack: 0,
        }
    }

    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        let all = self.before.iter().chain(&self.after);
        self.prologue.is_empty()
            && self.leaving.is_none()
            && self.replaced.iter().all(Option::is_none)
            && all.into_iter().all(Vec::is_empty)
    }
}

impl<'a> Code<'a> {
    /// Reads the content of the attribute.
    ///
    /// # Errors
    /// [`Fault::Damaged`].
    pub fn read(content: &'a [u8], pool: &Pool<'a>) -> Result<Code<'a>, Fault> {
        let mut reader = Reader::new(content);
        let (max_stack, max_locals) = (reader.u2()?, reader.u2()?);
        let length = reader.u4()?;
        let bytes = reader.take(length as usize)?;
        // Memory in proportion to the code stays small then, whatever the file says.
        if bytes.is_empty() || bytes.len() > usize::from(u16::MAX) {
            return Err(Fault::Damaged);
        }
        let count = reader.u2()?;
        let mut handlers = Vec::with_capacity(count.into());
        for _ in 0..count {
            handlers.push([reader.u2()?, reader.u2()?, reader.u2()?, reader.u2()?]);
        }
        let mut it = Code {
            max_stack,
            max_locals,
            bytes,
            instructions: decode(bytes)?,
            handlers,
            frames: Vec::new(),
            lines: Vec::new(),
            variables: Vec::new(),
        };
        // The machine refuses a second one of each kind but these.
        let mut met: Vec<&[u8]> = Vec::new();
        for _ in 0..reader.u2()? {
            let name = reader.u2()?;
            let length = reader.u4()?;
            let content = reader.take(length as usize)?;
            let name_text = pool.text(name)?;
            if !MANY.contains(&name_text) && met.contains(&name_text) {
                return Err(Fault::Damaged);
            }
            met.push(name_text);
            match name_text {
                b"StackMapTable" => it.frames = frames::read(content)?,
                b"LineNumberTable" => it.lines.push(content),
                b"LocalVariableTable" | b"LocalVariableTypeTable" => {
                    it.variables.push((name, content));
                }
                // Annotations of types, which say where in the code they belong; nothing that runs reads
                // them.
                _ => {}
            }
        }
        if reader.is_at_end() {
            Ok(it)
        } else {
            Err(Fault::Damaged)
        }
    }

    /// Where the handlers of exceptions begin.
    pub fn handlers(&self) -> impl Iterator<Item = u16> {
        self.handlers.iter().map(|it| it[2])
    }

    /// The local variables that have names: which place, and the constant of the type.
    pub fn variables(&self) -> impl Iterator<Item = Result<(u16, u16), Fault>> {
        self.variables.iter().flat_map(|(_, content)| {
            let count = instructions::u2(content, 0).unwrap_or(0);
            (0..usize::from(count)).map(|entry| {
                let at = 2 + 10 * entry;
                Ok((
                    instructions::u2(content, at + 8)?,
                    instructions::u2(content, at + 6)?,
                ))
            })
        })
    }

    /// Which instruction begins at a place.
    pub fn index(&self, at: usize) -> Option<usize> {
        self.instructions.binary_search_by_key(&at, |it| it.at).ok()
    }

    /// Whether each instruction may be come to other than from the one before it.
    ///
    /// # Errors
    /// [`Fault::Damaged`].
    pub fn is_target(&self) -> Result<Vec<bool>, Fault> {
        let mut is_target = vec![false; self.instructions.len()];
        let mut places: Vec<usize> = self.handlers.iter().map(|it| usize::from(it[2])).collect();
        places.extend(self.frames.iter().map(|frame| frame.at));
        for it in &self.instructions {
            places.extend(
                targets(self.bytes, it)?
                    .into_iter()
                    .map(|(_, _, target)| target),
            );
        }
        for place in places {
            is_target[self.index(place).ok_or(Fault::Damaged)?] = true;
        }
        Ok(is_target)
    }

    /// Where each instruction is in the new code, with what is inserted before it, and where that ends; at
    /// the
    /// end the length of all.
    fn layout(&self, woven: &Woven) -> Vec<(usize, usize)> {
        let mut at = woven.prologue.len();
        let mut places = Vec::with_capacity(self.instructions.len() + 1);
        for (index, it) in self.instructions.iter().enumerate() {
            let begin = at;
            at += woven.before[index].len();
            places.push((begin, at));
            at += it.length;
            if matches!(it.opcode, op::TABLESWITCH | op::LOOKUPSWITCH) {
                at = at - padding(it.at) + padding(places[index].1);
            }
            at += woven.after[index].len();
        }
        places.push((at, at));
        places
    }

    /// The content of the attribute with what is inserted.
    ///
    /// # Errors
    /// [`Fault::Long`] if the method would be too long.
    pub fn write(
        &self,
        woven: &Woven,
        pool: &mut Pool<'_>,
        with_frames: bool,
    ) -> Result<Vec<u8>, Fault> {
        let places = self.layout(woven);
        let moved = |at: usize| {
            if at == self.bytes.len() {
                places.last().map(|it| it.0)
            } else {
                self.index(at).map(|index| places[index].0)
            }
        };
        let mut new = woven.prologue.clone();
        for (index, it) in self.instructions.iter().enumerate() {
            new.extend_from_slice(&woven.before[index]);
            self.put(it, woven.replaced[index].as_deref(), &moved, &mut new)?;
            new.extend_from_slice(&woven.after[index]);
        }
        let end = new.len();
        let mut own = Vec::new();
        let mut handlers = Vec::new();
        for [begin, end, handler, class] in &self.handlers {
            for place in [begin, end, handler] {
                put2(
                    &mut handlers,
                    short(moved((*place).into()).ok_or(Fault::Damaged)?)?,
                );
            }
            put2(&mut handlers, *class);
        }
        if let Some((from, leaving, locals)) = &woven.leaving {
            let begin = places.get(*from).ok_or(Fault::Damaged)?.0;
            for place in [begin, end, end, 0] {
                put2(&mut handlers, short(place)?);
            }
            new.extend_from_slice(leaving);
            let thrown = frames::Type::Object(pool.add_class(b"java/lang/Throwable")?);
            own.push(Frame::full(end, locals.clone(), vec![thrown]));
        }
        if new.len() > usize::from(u16::MAX) {
            return Err(Fault::Long);
        }
        let mut content = Vec::new();
        put2(&mut content, self.max_stack.saturating_add(woven.stack));
        put2(
            &mut content,
            self.max_locals
                .checked_add(woven.locals)
                .ok_or(Fault::Long)?,
        );
        put4(&mut content, new.len() as u32);
        content.extend_from_slice(&new);
        put2(&mut content, short(handlers.len() / 8)?);
        content.extend_from_slice(&handlers);
        self.put_attributes(&own, with_frames, pool, &moved, &mut content)?;
        Ok(content)
    }

    fn put_attributes(
        &self,
        own: &[Frame],
        with_frames: bool,
        pool: &mut Pool<'_>,
        moved: &impl Fn(usize) -> Option<usize>,
        content: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        let mut attributes: Vec<(u16, Vec<u8>)> = Vec::new();
        if with_frames && self.frames.len() + own.len() > 0 {
            attributes.push((
                pool.add_text("StackMapTable")?,
                frames::write(&self.frames, own, moved)?,
            ));
        }
        for lines in &self.lines {
            let lines = move_lines(lines, self.bytes.len(), moved)?;
            attributes.push((pool.add_text("LineNumberTable")?, lines));
        }
        for (name, variables) in &self.variables {
            attributes.push((*name, move_variables(variables, self.bytes.len(), moved)?));
        }
        put2(content, short(attributes.len())?);
        for (name, attribute) in attributes {
            put2(content, name);
            put4(content, attribute.len() as u32);
            content.extend_from_slice(&attribute);
        }
        Ok(())
    }

    /// Appends an instruction, with its targets moved.
    fn put(
        &self,
        it: &Instruction,
        replaced: Option<&[u8]>,
        moved: &impl Fn(usize) -> Option<usize>,
        new: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        let begin = new.len();
        if let Some(bytes) = replaced {
            new.extend_from_slice(bytes);
            return Ok(());
        }
        let bytes = &self.bytes[it.at..it.at + it.length];
        let is_switch = matches!(it.opcode, op::TABLESWITCH | op::LOOKUPSWITCH);
        let (was, is) = if is_switch {
            (padding(it.at), padding(begin))
        } else {
            (0, 0)
        };
        new.push(bytes[0]);
        new.extend(std::iter::repeat_n(0, is));
        new.extend_from_slice(&bytes[1 + was..]);
        for (place, wide, target) in targets(self.bytes, it)? {
            let to = moved(target).ok_or(Fault::Damaged)?;
            let offset = to as i64 - begin as i64;
            let place = begin + place - was + is;
            if wide {
                let offset = i32::try_from(offset).map_err(|_| Fault::Long)?;
                new[place..place + 4].copy_from_slice(&offset.to_be_bytes());
            } else {
                let offset = i16::try_from(offset).map_err(|_| Fault::Long)?;
                new[place..place + 2].copy_from_slice(&offset.to_be_bytes());
            }
        }
        Ok(())
    }
}

/// The content of `LineNumberTable`, of code of `end` bytes.
fn move_lines(
    content: &[u8],
    end: usize,
    moved: &impl Fn(usize) -> Option<usize>,
) -> Result<Vec<u8>, Fault> {
    let mut new = content.to_vec();
    for entry in 0..usize::from(instructions::u2(content, 0)?) {
        let place = 2 + 4 * entry;
        let at = usize::from(instructions::u2(content, place)?);
        let at = moved(at).filter(|_| at < end).ok_or(Fault::Damaged)?;
        instructions::u2(content, place + 2)?;
        new[place..place + 2].copy_from_slice(&short(at)?.to_be_bytes());
    }
    Ok(new)
}

/// The content of `LocalVariableTable` or `LocalVariableTypeTable`, of code of this many bytes.
fn move_variables(
    content: &[u8],
    whole: usize,
    moved: &impl Fn(usize) -> Option<usize>,
) -> Result<Vec<u8>, Fault> {
    let mut new = content.to_vec();
    for entry in 0..usize::from(instructions::u2(content, 0)?) {
        let place = 2 + 10 * entry;
        let begin = usize::from(instructions::u2(content, place)?);
        let end = begin + usize::from(instructions::u2(content, place + 2)?);
        if begin >= whole {
            return Err(Fault::Damaged);
        }
        let (begin, end) = (
            moved(begin).ok_or(Fault::Damaged)?,
            moved(end).ok_or(Fault::Damaged)?,
        );
        let length = end.checked_sub(begin).ok_or(Fault::Damaged)?;
        new[place..place + 2].copy_from_slice(&short(begin)?.to_be_bytes());
        new[place + 2..place + 4].copy_from_slice(&short(length)?.to_be_bytes());
    }
    Ok(new)
}
