//! Instructions: how long they are, where they go, and what they take from and put on the stack.

use super::Fault;
use super::pool::Pool;

/// Instructions, by the numbers of the specification.
#[allow(missing_docs)]
pub mod op {
    pub const SIPUSH: u8 = 17;
    pub const LDC: u8 = 18;
    pub const LDC_W: u8 = 19;
    pub const ALOAD: u8 = 25;
    pub const ALOAD_0: u8 = 42;
    pub const ISTORE: u8 = 54;
    pub const ASTORE: u8 = 58;
    pub const IASTORE: u8 = 79;
    pub const AASTORE: u8 = 83;
    pub const POP: u8 = 87;
    pub const DUP: u8 = 89;
    pub const DUP2: u8 = 92;
    pub const IRETURN: u8 = 172;
    pub const RETURN: u8 = 177;
    pub const TABLESWITCH: u8 = 170;
    pub const LOOKUPSWITCH: u8 = 171;
    pub const GETSTATIC: u8 = 178;
    pub const PUTSTATIC: u8 = 179;
    pub const GETFIELD: u8 = 180;
    pub const PUTFIELD: u8 = 181;
    pub const INVOKEVIRTUAL: u8 = 182;
    pub const INVOKESPECIAL: u8 = 183;
    pub const INVOKESTATIC: u8 = 184;
    pub const INVOKEINTERFACE: u8 = 185;
    pub const INVOKEDYNAMIC: u8 = 186;
    pub const NEW: u8 = 187;
    pub const ARRAYLENGTH: u8 = 190;
    pub const ATHROW: u8 = 191;
    pub const CHECKCAST: u8 = 192;
    pub const MONITORENTER: u8 = 194;
    pub const MONITOREXIT: u8 = 195;
    pub const WIDE: u8 = 196;
    pub const MULTIANEWARRAY: u8 = 197;
    pub const GOTO_W: u8 = 200;
    pub const JSR_W: u8 = 201;
}

/// The most parameters of a method.
const MOST_PARAMETERS: usize = 255;

/// One instruction, where it is in the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Its first byte.
    pub at: usize,
    /// Its operation.
    pub opcode: u8,
    /// Its bytes.
    pub length: usize,
}

/// Reads two bytes of code.
pub fn u2(code: &[u8], at: usize) -> Result<u16, Fault> {
    let bytes = code.get(at..at + 2).ok_or(Fault::Damaged)?;
    Ok(u16::from_be_bytes([bytes[0], bytes[1]]))
}

/// Reads four bytes of code, with a sign.
pub fn i4(code: &[u8], at: usize) -> Result<i32, Fault> {
    let bytes = code.get(at..at + 4).ok_or(Fault::Damaged)?;
    Ok(i32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
}

/// All instructions of a method.
///
/// # Errors
/// [`Fault::Damaged`].
pub fn decode(code: &[u8]) -> Result<Vec<Instruction>, Fault> {
    let mut all = Vec::new();
    let mut at = 0;
    while at < code.len() {
        let opcode = code[at];
        let length = length(code, at)?;
        if length > code.len() - at {
            return Err(Fault::Damaged);
        }
        all.push(Instruction { at, opcode, length });
        at += length;
    }
    Ok(all)
}

/// Bytes between a switch and its first word, which is aligned.
pub fn padding(at: usize) -> usize {
    3 - at % 4
}

fn length(code: &[u8], at: usize) -> Result<usize, Fault> {
    Ok(match code[at] {
        16 | 18 | 21..=25 | 54..=58 | 169 | 188 => 2,
        17 | 19 | 20 | 132 | 153..=168 | 178..=184 | 187 | 189 | 192 | 193 | 198 | 199 => 3,
        197 => 4,
        185 | 186 | 200 | 201 => 5,
        op::TABLESWITCH => {
            let first = at + 1 + padding(at);
            let (low, high) = (
                i64::from(i4(code, first + 4)?),
                i64::from(i4(code, first + 8)?),
            );
            let count = usize::try_from(high - low + 1).map_err(|_| Fault::Damaged)?;
            first - at + 12 + 4 * count.min(1 << 16)
        }
        op::LOOKUPSWITCH => {
            let first = at + 1 + padding(at);
            let count = usize::try_from(i4(code, first + 4)?).map_err(|_| Fault::Damaged)?;
            first - at + 8 + 8 * count.min(1 << 16)
        }
        op::WIDE if code.get(at + 1) == Some(&132) => 6,
        op::WIDE => 4,
        0..=201 => 1,
        _ => return Err(Fault::Damaged),
    })
}

/// Where an instruction may go besides the next one, and the bytes in it that say so: each as the place in
/// the
/// instruction, whether it has four bytes, and the target.
///
/// # Errors
/// [`Fault::Damaged`].
pub fn targets(code: &[u8], it: &Instruction) -> Result<Vec<(usize, bool, usize)>, Fault> {
    let to = |offset: i64| {
        let target = usize::try_from(it.at as i64 + offset).map_err(|_| Fault::Damaged)?;
        if target < code.len() {
            Ok(target)
        } else {
            Err(Fault::Damaged)
        }
    };
    let word = |place: usize| Ok((place, true, to(i4(code, it.at + place)?.into())?));
    match it.opcode {
        153..=168 | 198 | 199 => {
            let offset = u2(code, it.at + 1)? as i16;
            Ok(vec![(1, false, to(offset.into())?)])
        }
        op::GOTO_W | op::JSR_W => Ok(vec![word(1)?]),
        op::TABLESWITCH | op::LOOKUPSWITCH => {
            let first = 1 + padding(it.at);
            let (begin, step) = match it.opcode {
                op::TABLESWITCH => (first + 12, 4),
                _ => (first + 12, 8),
            };
            let others = (begin..it.length).step_by(step).map(word);
            std::iter::once(word(first)).chain(others).collect()
        }
        _ => Ok(Vec::new()),
    }
}

/// The local variable that an instruction stores into, and how many places it takes.
pub fn stored(code: &[u8], it: &Instruction) -> Option<(u16, u16)> {
    let wide = |opcode: u8| if matches!(opcode, 55 | 57) { 2 } else { 1 };
    match it.opcode {
        54..=58 => Some((u16::from(*code.get(it.at + 1)?), wide(it.opcode))),
        59..=78 => {
            let which = it.opcode - 59;
            Some((
                u16::from(which % 4),
                if matches!(which / 4, 1 | 3) { 2 } else { 1 },
            ))
        }
        op::WIDE => match *code.get(it.at + 1)? {
            opcode @ 54..=58 => Some((u2(code, it.at + 2).ok()?, wide(opcode))),
            _ => None,
        },
        _ => None,
    }
}

/// The local variable whose reference an instruction loads.
pub fn loaded(code: &[u8], it: &Instruction) -> Option<u16> {
    match it.opcode {
        op::ALOAD => code.get(it.at + 1).map(|local| u16::from(*local)),
        42..=45 => Some(u16::from(it.opcode - op::ALOAD_0)),
        op::WIDE if code.get(it.at + 1) == Some(&op::ALOAD) => u2(code, it.at + 2).ok(),
        _ => None,
    }
}

/// The places that a type takes on the stack, and the rest of a descriptor.
fn places(descriptor: &[u8]) -> Option<(usize, &[u8])> {
    let element = descriptor.iter().position(|byte| *byte != b'[')?;
    let end = match descriptor[element] {
        b'L' => {
            element
                + descriptor[element..]
                    .iter()
                    .position(|byte| *byte == b';')?
        }
        _ => element,
    };
    let count = match descriptor[0] {
        b'J' | b'D' => 2,
        b'V' => 0,
        _ => 1,
    };
    Some((count, &descriptor[end + 1..]))
}

/// The types of a method's parameters, in order. `None` also if there are more than a method can have.
pub fn parameters(descriptor: &[u8]) -> Option<Vec<&[u8]>> {
    let mut rest = descriptor.strip_prefix(b"(")?;
    let mut all = Vec::new();
    while !rest.starts_with(b")") {
        if all.len() == MOST_PARAMETERS {
            return None;
        }
        let (_, after) = places(rest)?;
        all.push(&rest[..rest.len() - after.len()]);
        rest = after;
    }
    Some(all)
}

/// The type that a method returns.
pub fn returned(descriptor: &[u8]) -> &[u8] {
    let close = descriptor.iter().position(|byte| *byte == b')');
    close.map_or(&[], |close| &descriptor[close + 1..])
}

/// How many places an instruction takes from the stack and puts on it. `None` for those that move what is
/// there.
fn plain(opcode: u8) -> Option<(usize, usize)> {
    Some(match opcode {
        0 | 132 | 167 | 169 | 177 | 200 => (0, 0),
        1..=8 | 11..=13 | 16..=19 | 21 | 23 | 25..=29 | 34..=37 | 42..=45 | 168 | 187 | 201 => {
            (0, 1)
        }
        9 | 10 | 14 | 15 | 20 | 22 | 24 | 30..=33 | 38..=41 => (0, 2),
        47 | 49 => (2, 2),
        46 | 48 | 50..=53 => (2, 1),
        55 | 57 | 63..=66 | 71..=74 | 88 | 159..=166 | 173 | 175 => (2, 0),
        54
        | 56
        | 58..=78
        | 87
        | 153..=158
        | 170..=172
        | 174
        | 176
        | 191
        | 194
        | 195
        | 198
        | 199 => (1, 0),
        80 | 82 => (4, 0),
        79 | 81 | 83..=86 => (3, 0),
        96..=115 => {
            if opcode.is_multiple_of(2) {
                (2, 1)
            } else {
                (4, 2)
            }
        }
        116 | 118 | 134 | 139 | 145..=147 | 188..=190 | 192 | 193 => (1, 1),
        117 | 119 | 138 | 143 => (2, 2),
        121 | 123 | 125 => (3, 2),
        120 | 122 | 124 | 126 | 128 | 130 | 149 | 150 => (2, 1),
        127 | 129 | 131 => (4, 2),
        133 | 135 | 140 | 141 => (1, 2),
        136 | 137 | 142 | 144 => (2, 1),
        148 | 151 | 152 => (4, 1),
        _ => return None,
    })
}

/// The stack within a run of instructions: for each slot, the local variable whose reference is known to be
/// there. Any number of unknown slots lie below the known ones.
#[derive(Clone, Debug, Default)]
pub struct Stack(Vec<Option<u16>>);

impl Stack {
    /// Forgets everything: another instruction may have come here.
    pub fn forget(&mut self) {
        self.0.clear();
    }

    /// The local variable this many slots below the top; 0 is the top.
    pub fn below(&self, places: usize) -> Option<u16> {
        let index = self.0.len().checked_sub(places + 1)?;
        self.0[index]
    }

    fn pop(&mut self) -> Option<u16> {
        self.0.pop().flatten()
    }

    fn push(&mut self, what: Option<u16>) {
        self.0.push(what);
    }

    fn change(&mut self, (taken, put): (usize, usize)) {
        for _ in 0..taken {
            self.pop();
        }
        self.0.extend(std::iter::repeat_n(None, put));
    }

    /// Takes the top places and puts them back as `order` says: places of what was taken, 0 the lowest.
    fn shuffle(&mut self, taken: usize, order: &[usize]) {
        let mut was: Vec<Option<u16>> = (0..taken).map(|_| self.pop()).collect();
        was.reverse();
        self.0.extend(order.iter().map(|place| was[*place]));
    }

    /// Does what an instruction does.
    ///
    /// # Errors
    /// [`Fault::Damaged`].
    pub fn step(&mut self, code: &[u8], it: &Instruction, pool: &Pool<'_>) -> Result<(), Fault> {
        if let Some((local, _)) = stored(code, it) {
            self.pop();
            // Values that were loaded from it before differ from its value now.
            self.0
                .iter_mut()
                .filter(|place| **place == Some(local))
                .for_each(|place| *place = None);
            if matches!(it.opcode, 55 | 57 | 63..=66 | 71..=74)
                || code
                    .get(it.at + 1)
                    .is_some_and(|wide| it.opcode == op::WIDE && matches!(wide, 55 | 57))
            {
                self.pop();
            }
            return Ok(());
        }
        if let Some(local) = loaded(code, it) {
            self.push(Some(local));
            return Ok(());
        }
        match it.opcode {
            op::CHECKCAST => {}
            op::DUP => self.shuffle(1, &[0, 0]),
            90 => self.shuffle(2, &[1, 0, 1]),
            91 => self.shuffle(3, &[2, 0, 1, 2]),
            op::DUP2 => self.shuffle(2, &[0, 1, 0, 1]),
            93 => self.shuffle(3, &[1, 2, 0, 1, 2]),
            94 => self.shuffle(4, &[2, 3, 0, 1, 2, 3]),
            95 => self.shuffle(2, &[1, 0]),
            op::GETSTATIC..=op::INVOKEDYNAMIC => self.change(of_member(code, it, pool)?),
            op::MULTIANEWARRAY => {
                let dimensions = *code.get(it.at + 3).ok_or(Fault::Damaged)?;
                self.change((dimensions.into(), 1));
            }
            op::WIDE => {
                let inner = *code.get(it.at + 1).ok_or(Fault::Damaged)?;
                self.change(plain(inner).ok_or(Fault::Damaged)?);
            }
            opcode => self.change(plain(opcode).ok_or(Fault::Damaged)?),
        }
        Ok(())
    }
}

/// The slots that an access to a field or a call takes and puts.
fn of_member(code: &[u8], it: &Instruction, pool: &Pool<'_>) -> Result<(usize, usize), Fault> {
    let member = pool.member(u2(code, it.at + 1)?)?;
    let size = |descriptor: &[u8]| {
        places(descriptor)
            .map(|(count, _)| count)
            .ok_or(Fault::Damaged)
    };
    Ok(match it.opcode {
        op::GETSTATIC => (0, size(member.descriptor)?),
        op::PUTSTATIC => (size(member.descriptor)?, 0),
        op::GETFIELD => (1, size(member.descriptor)?),
        op::PUTFIELD => (1 + size(member.descriptor)?, 0),
        _ => {
            let receiver = usize::from(!matches!(it.opcode, op::INVOKESTATIC | op::INVOKEDYNAMIC));
            let arguments = argument_places(member.descriptor)?;
            (receiver + arguments, size(returned(member.descriptor))?)
        }
    })
}

/// How many places an instruction takes from the stack and puts on it. A call of a subroutine puts the
/// address to return to.
///
/// # Errors
/// [`Fault::Damaged`].
pub fn places_of(code: &[u8], it: &Instruction, pool: &Pool<'_>) -> Result<(usize, usize), Fault> {
    Ok(match it.opcode {
        op::DUP => (1, 2),
        90 => (2, 3),
        91 => (3, 4),
        op::DUP2 => (2, 4),
        93 => (3, 5),
        94 => (4, 6),
        95 => (2, 2),
        op::GETSTATIC..=op::INVOKEDYNAMIC => of_member(code, it, pool)?,
        op::MULTIANEWARRAY => {
            let dimensions = *code.get(it.at + 3).ok_or(Fault::Damaged)?;
            (dimensions.into(), 1)
        }
        op::WIDE => {
            let inner = *code.get(it.at + 1).ok_or(Fault::Damaged)?;
            plain(inner).ok_or(Fault::Damaged)?
        }
        opcode => plain(opcode).ok_or(Fault::Damaged)?,
    })
}

/// The places that a method's arguments take.
///
/// # Errors
/// [`Fault::Damaged`].
pub fn argument_places(descriptor: &[u8]) -> Result<usize, Fault> {
    let parameters = parameters(descriptor).ok_or(Fault::Damaged)?;
    Ok(parameters
        .iter()
        .map(|it| if matches!(it[0], b'J' | b'D') { 2 } else { 1 })
        .sum())
}
