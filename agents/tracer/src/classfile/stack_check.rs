//! Whether a method's code keeps to the places that its class file gives it. Snippets get more places, on the
//! stack and of local variables; a method that needs more than it says would become valid by them.

use super::Fault;
use super::file::About;
use super::instructions::{self, Instruction, argument_places, op, targets, u2};
use super::method::Code;
use super::pool::Pool;

/// Checks the stack at each instruction that can be come to, and each local variable.
///
/// # Errors
/// [`Fault::Damaged`]: it has no such stack, or another one each time that it comes to a place, or too few
/// places.
pub fn check(about: &About<'_>, code: &Code<'_>, pool: &Pool<'_>) -> Result<(), Fault> {
    let arguments = argument_places(about.descriptor)? + usize::from(!about.is_static);
    let locals = usize::from(code.max_locals);
    if arguments > locals {
        return Err(Fault::Damaged);
    }
    for it in &code.instructions {
        if local(code.bytes, it).is_some_and(|(local, places)| local + places > locals) {
            return Err(Fault::Damaged);
        }
    }
    for entry in code.variables() {
        let (local, descriptor) = entry?;
        let wide = matches!(pool.text(descriptor)?.first(), Some(b'J' | b'D'));
        if usize::from(local) + usize::from(wide) >= locals {
            return Err(Fault::Damaged);
        }
    }
    let mut depths = Depths {
        code,
        at: vec![None; code.instructions.len()],
        left: Vec::new(),
    };
    depths.come(0, 0)?;
    for handler in code.handlers() {
        depths.come(handler.into(), 1)?;
    }
    let mut types: Vec<usize> = instructions::parameters(about.descriptor)
        .ok_or(Fault::Damaged)?
        .iter()
        .map(|it| if matches!(it[0], b'J' | b'D') { 2 } else { 1 })
        .collect();
    types.extend((!about.is_static).then_some(1));
    for frame in code.frames.iter().filter(|_| about.version >= 50) {
        depths.come(frame.at, frame.stack_places())?;
        frame.apply_places(&mut types);
        if types.iter().sum::<usize>() > locals {
            return Err(Fault::Damaged);
        }
    }
    while let Some(index) = depths.left.pop() {
        depths.step(index, pool)?;
    }
    Ok(())
}

/// The local variable that an instruction names, and how many places it has.
fn local(code: &[u8], it: &Instruction) -> Option<(usize, usize)> {
    let (opcode, local) = match it.opcode {
        op::WIDE => (
            *code.get(it.at + 1)?,
            usize::from(u2(code, it.at + 2).ok()?),
        ),
        21..=25 | 54..=58 | 132 | 169 => (it.opcode, usize::from(*code.get(it.at + 1)?)),
        26..=45 => (21 + (it.opcode - 26) / 4, usize::from((it.opcode - 26) % 4)),
        59..=78 => (54 + (it.opcode - 59) / 4, usize::from((it.opcode - 59) % 4)),
        _ => return None,
    };
    let wide = matches!(opcode, 22 | 24 | 55 | 57);
    Some((local, if wide { 2 } else { 1 }))
}

/// How many places on the stack are taken where.
struct Depths<'c, 'a> {
    code: &'c Code<'a>,
    at: Vec<Option<usize>>,
    /// Instructions that were come to, and whose next ones were not.
    left: Vec<usize>,
}

impl Depths<'_, '_> {
    fn come(&mut self, place: usize, depth: usize) -> Result<(), Fault> {
        let index = self.code.index(place).ok_or(Fault::Damaged)?;
        if depth > self.code.max_stack.into() {
            return Err(Fault::Damaged);
        }
        match self.at[index].replace(depth) {
            None => self.left.push(index),
            Some(before) if before == depth => {}
            Some(_) => return Err(Fault::Damaged),
        }
        Ok(())
    }

    fn step(&mut self, index: usize, pool: &Pool<'_>) -> Result<(), Fault> {
        let it = self.code.instructions[index];
        let bytes = self.code.bytes;
        let (taken, put) = instructions::places_of(bytes, &it, pool)?;
        let depth = self.at[index].and_then(|depth| depth.checked_sub(taken));
        let depth = depth.ok_or(Fault::Damaged)?;
        let goes_on = !matches!(it.opcode, 167 | 169..=177 | 191 | 200);
        let calls = matches!(it.opcode, 168 | op::JSR_W);
        for (_, _, target) in targets(bytes, &it)? {
            self.come(target, depth + put)?;
        }
        if goes_on {
            // The subroutine takes the address to return to.
            self.come(it.at + it.length, if calls { depth } else { depth + put })
        } else {
            Ok(())
        }
    }
}
