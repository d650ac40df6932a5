//! The code to insert, and its places.
//!
//! References on a thread's stack are roots. They are recorded where they are used: a field is read or
//! written, an element, a monitor. Parameters that a method never overwrites are recorded once, when the
//! method is left, also by an exception. `parameters` finds these.

mod parameters;

use crate::classfile::Fault;
use crate::classfile::bytes::put2;
use crate::classfile::file::About;
use crate::classfile::frames::{TOP, Type};
use crate::classfile::instructions::{self, Instruction, Stack, argument_places, op, returned, u2};
use crate::classfile::method::{Code, Woven};
use crate::classfile::pool::{Member, Pool};
use crate::recorder_class::{self, NAME, REPLACED, UNSAFE, with_receiver};
use parameters::{Parameters, made};
use std::collections::BTreeSet;

/// A method of [`recorder_class`] that takes one object.
const OBJECT: &str = "(Ljava/lang/Object;)V";
/// More places on the stack than any snippet needs.
const MORE_STACK: u16 = 8;
/// Classes that stay as they are: their methods are what is called from inserted code.
const LEFT: [&str; 2] = [UNSAFE, recorder_class::NAME];

/// Whether a class stays as it is.
pub fn is_left(class: &[u8]) -> bool {
    LEFT.iter().any(|left| left.as_bytes() == class)
}

/// Numbers a field of a class by class, name and type.
pub type Keys<'k> = dyn FnMut(&[u8], &[u8], &[u8]) -> u32 + 'k;

/// The scope of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// All that Merlin needs, and what [`What::Waits`] has.
    All,
    /// Only where threads start, hold monitors and wait.
    Waits,
}

/// Code to insert into a method.
///
/// # Errors
/// [`Fault`]: the method stays as it is.
pub fn weave(
    about: &About<'_>,
    code: &Code<'_>,
    pool: &mut Pool<'_>,
    what: What,
    keys: &mut Keys<'_>,
) -> Result<Woven, Fault> {
    let is_target = code.is_target()?;
    let made = made(about, code, pool)?;
    let parameters = Parameters::of(about, code, pool, made)?;
    let mut weaving = Weaving {
        what,
        about,
        code,
        woven: Woven::nothing(code.instructions.len()),
        parameters,
        made,
        stack: Stack::default(),
        told: BTreeSet::new(),
        kept: BTreeSet::new(),
        early: Vec::new(),
        scratch: code.max_locals,
    };
    for (index, it) in code.instructions.iter().enumerate() {
        if is_target[index] {
            weaving.stack.forget();
            weaving.told.clear();
        }
        weaving.instruction(index, it, pool, keys)?;
        weaving.stack.step(code.bytes, it, pool)?;
        if let Some((local, _)) = instructions::stored(code.bytes, it) {
            weaving.told.remove(&local);
        }
        if matches!(it.opcode, 167 | 169..=177 | 191 | 200) {
            weaving.stack.forget();
        }
        if is_event(it.opcode) {
            weaving.told.clear();
        }
    }
    weaving.finish(pool, keys)
}

/// After which instructions it matters whether something is used again.
fn is_event(opcode: u8) -> bool {
    let members = op::PUTFIELD..=189;
    members.contains(&opcode)
        || matches!(
            opcode,
            op::PUTSTATIC | op::AASTORE | op::MONITORENTER..=op::MONITOREXIT | 197
        )
}

struct Weaving<'w, 'a> {
    what: What,
    about: &'w About<'a>,
    code: &'w Code<'a>,
    woven: Woven,
    parameters: Parameters,
    /// See [`made`].
    made: Option<usize>,
    stack: Stack,
    /// Local variables that were recorded as used since the last event.
    told: BTreeSet<u16>,
    /// Parameters that are recorded when the method is left.
    kept: BTreeSet<u16>,
    /// Fields that a constructor sets before `this` is an object, by their constants.
    early: Vec<u16>,
    /// A local variable for the value of a store.
    scratch: u16,
}

/// A call of a method of [`recorder_class`].
fn call(pool: &mut Pool<'_>, name: &str, descriptor: &str) -> Result<Vec<u8>, Fault> {
    let mut bytes = vec![op::INVOKESTATIC];
    put2(&mut bytes, pool.add_method(NAME, name, descriptor)?);
    Ok(bytes)
}

/// An instruction that loads or stores a local variable.
fn local(opcode: u8, local: u16) -> Vec<u8> {
    match u8::try_from(local) {
        Ok(local) => vec![opcode, local],
        Err(_) => {
            let [high, low] = local.to_be_bytes();
            vec![op::WIDE, opcode, high, low]
        }
    }
}

/// A number, on the stack.
fn number(pool: &mut Pool<'_>, number: u32) -> Result<Vec<u8>, Fault> {
    let mut bytes = Vec::new();
    match i16::try_from(number) {
        Ok(short) => {
            bytes.push(op::SIPUSH);
            put2(&mut bytes, short as u16);
        }
        Err(_) => {
            bytes.push(op::LDC_W);
            put2(&mut bytes, pool.add_int(number as i32)?);
        }
    }
    Ok(bytes)
}

impl Weaving<'_, '_> {
    /// Whether an instruction comes before `this` is an object.
    fn is_early(&self, index: usize) -> bool {
        self.made.is_some_and(|made| index <= made)
    }

    /// Tells that what is this many places below the top is used. Where it is not known to be in a local
    /// variable, `otherwise` leaves a reference to it on the stack, for the call.
    fn uses(
        &mut self,
        index: usize,
        below: usize,
        otherwise: Option<Vec<u8>>,
        pool: &mut Pool<'_>,
    ) -> Result<(), Fault> {
        let (mut load, mut after) = match self.stack.below(below) {
            Some(0) if self.is_early(index) => return Ok(()),
            Some(it) if self.parameters.has(it) => {
                self.kept.insert(it);
                return Ok(());
            }
            Some(it) if !self.told.insert(it) => return Ok(()),
            Some(it) => (local(op::ALOAD, it), Vec::new()),
            None => match otherwise {
                Some(otherwise) => (otherwise, Vec::new()),
                None => return Ok(()),
            },
        };
        let before = &mut self.woven.before[index];
        before.append(&mut load);
        before.extend(call(pool, "used", OBJECT)?);
        before.append(&mut after);
        Ok(())
    }

    /// Duplicates the reference on top and calls a method with it, before an instruction.
    fn with_top(&mut self, index: usize, name: &str, pool: &mut Pool<'_>) -> Result<(), Fault> {
        self.woven.before[index].push(op::DUP);
        self.woven.before[index].extend(call(pool, name, OBJECT)?);
        Ok(())
    }

    /// The same after an instruction, with what it left.
    fn with_result(&mut self, index: usize, name: &str, pool: &mut Pool<'_>) -> Result<(), Fault> {
        self.woven.after[index].push(op::DUP);
        self.woven.after[index].extend(call(pool, name, OBJECT)?);
        Ok(())
    }

    fn instruction(
        &mut self,
        index: usize,
        it: &Instruction,
        pool: &mut Pool<'_>,
        keys: &mut Keys<'_>,
    ) -> Result<(), Fault> {
        match it.opcode {
            op::MONITORENTER => {
                self.woven.before[index].push(op::DUP);
                self.woven.after[index].extend(call(pool, "entered", OBJECT)?);
                Ok(())
            }
            op::MONITOREXIT => self.with_top(index, "exiting", pool),
            op::INVOKEVIRTUAL..=op::INVOKEDYNAMIC => self.calls(index, it, pool),
            _ if self.what == What::Waits => Ok(()),
            46..=53 => self.uses(index, 1, Some(vec![op::DUP2, op::POP]), pool),
            op::ARRAYLENGTH | op::GETFIELD => self.uses(index, 0, Some(vec![op::DUP]), pool),
            op::AASTORE => {
                let scratch = self.scratch;
                self.woven.locals = 2;
                let before = [
                    local(op::ASTORE, scratch),
                    vec![op::DUP2],
                    local(op::ALOAD, scratch),
                ];
                self.woven.before[index].extend(before.concat());
                let after = [
                    local(op::ALOAD, scratch),
                    call(pool, "element", "(Ljava/lang/Object;ILjava/lang/Object;)V")?,
                ];
                self.woven.after[index].extend(after.concat());
                Ok(())
            }
            op::IASTORE..=86 => self.stores_number(index, it, pool),
            op::PUTFIELD => self.stores(index, it, pool, keys),
            op::PUTSTATIC => {
                let member = pool.member(u2(self.code.bytes, it.at + 1)?)?;
                if matches!(member.descriptor.first(), Some(b'L' | b'[')) {
                    let key = keys(member.class, member.name, member.descriptor);
                    self.woven.before[index].push(op::DUP);
                    let after = [
                        number(pool, key)?,
                        call(pool, "storedStatic", "(Ljava/lang/Object;I)V")?,
                    ];
                    self.woven.after[index].extend(after.concat());
                }
                Ok(())
            }
            op::MULTIANEWARRAY => self.with_result(index, "deep", pool),
            _ => Ok(()),
        }
    }

    /// A number is stored in an array.
    fn stores_number(
        &mut self,
        index: usize,
        it: &Instruction,
        pool: &mut Pool<'_>,
    ) -> Result<(), Fault> {
        let (store, wide) = match it.opcode {
            80 => (55, 2),
            81 => (56, 1),
            82 => (57, 2),
            _ => (op::ISTORE, 1),
        };
        let below = wide + 1;
        if self.stack.below(below).is_some() {
            return self.uses(index, below, None, pool);
        }
        self.woven.locals = 2;
        let parts = [
            local(store, self.scratch),
            vec![op::DUP2, op::POP],
            call(pool, "used", OBJECT)?,
            // The loads are in the same order as the stores.
            local(store - 33, self.scratch),
        ];
        self.woven.before[index].extend(parts.concat());
        Ok(())
    }

    /// A field is stored.
    fn stores(
        &mut self,
        index: usize,
        it: &Instruction,
        pool: &mut Pool<'_>,
        keys: &mut Keys<'_>,
    ) -> Result<(), Fault> {
        let constant = u2(self.code.bytes, it.at + 1)?;
        let member = pool.member(constant)?;
        match member.descriptor.first() {
            Some(b'L' | b'[') => {}
            Some(b'J' | b'D') => return self.uses(index, 2, None, pool),
            _ => return self.uses(index, 1, None, pool),
        }
        if self.is_early(index) {
            if self.stack.below(1) == Some(0)
                && member.class == self.about.class
                && !self.early.contains(&constant)
            {
                self.early.push(constant);
            }
            return Ok(());
        }
        // The referent of a weak reference may die.
        if member.name == b"referent" && self.about.class == b"java/lang/ref/Reference" {
            return Ok(());
        }
        let key = keys(member.class, member.name, member.descriptor);
        self.woven.before[index].push(op::DUP2);
        self.woven.after[index].extend(stored(pool, key)?);
        Ok(())
    }

    fn calls(&mut self, index: usize, it: &Instruction, pool: &mut Pool<'_>) -> Result<(), Fault> {
        let member = pool.member(u2(self.code.bytes, it.at + 1)?)?;
        let all = self.what == What::All;
        if it.opcode == op::INVOKEDYNAMIC {
            let result = returned(member.descriptor);
            return match result.first() {
                Some(b'L') if all && result != b"Ljava/lang/String;" => {
                    self.with_result(index, "linked", pool)
                }
                _ => Ok(()),
            };
        }
        match (member.name, member.descriptor) {
            (b"notify", b"()V") => return self.with_top(index, "notifying", pool),
            (b"notifyAll", b"()V") => return self.with_top(index, "notifyingAll", pool),
            (b"clone", b"()Ljava/lang/Object;") if all => {
                self.woven.before[index].extend(call(pool, "cloning", "()V")?);
                return self.with_result(index, "cloned", pool);
            }
            (b"fillInStackTrace", b"(I)Ljava/lang/Throwable;") if all => {
                return self.with_result(index, "copied", pool);
            }
            _ => {}
        }
        match member.class {
            b"java/lang/System"
                if all && member.name == b"arraycopy" && it.opcode == op::INVOKESTATIC =>
            {
                self.replaces(index, &member, "arraycopy", pool)
            }
            b"java/lang/Thread" => self.calls_thread(index, &member, pool),
            class if class == UNSAFE.as_bytes() && it.opcode == op::INVOKEVIRTUAL => {
                self.replaces_unsafe(index, &member, pool)
            }
            _ if all && it.opcode == op::INVOKEINTERFACE => {
                // The method that is called may be one of a class whose code is not seen.
                self.uses(index, argument_places(member.descriptor)?, None, pool)
            }
            _ => Ok(()),
        }
    }

    fn calls_thread(
        &mut self,
        index: usize,
        member: &Member<'_>,
        pool: &mut Pool<'_>,
    ) -> Result<(), Fault> {
        match (member.name, member.descriptor) {
            (b"start0", b"()V") => {
                self.woven.before[index].push(op::DUP);
                self.woven.before[index].extend(call(pool, "starting", "(Ljava/lang/Thread;)V")?);
            }
            (b"interrupt0", b"()V") => {
                let told = call(pool, "interrupting", "(Ljava/lang/Thread;)V")?;
                self.woven.before[index].push(op::DUP);
                self.woven.before[index].extend(told);
            }
            (b"sleep" | b"sleep0" | b"sleepNanos0", _) => {
                self.woven.before[index].extend(call(pool, "sleeping", "()V")?);
            }
            _ => {}
        }
        Ok(())
    }

    /// Replaces a call by one of a static method with the same arguments.
    fn replaces(
        &mut self,
        index: usize,
        member: &Member<'_>,
        name: &str,
        pool: &mut Pool<'_>,
    ) -> Result<(), Fault> {
        // The machine refuses to call a method of a class as one of an interface.
        if !member.is_of_class {
            return Ok(());
        }
        let descriptor = std::str::from_utf8(member.descriptor).map_err(|_| Fault::Damaged)?;
        self.woven.replaced[index] = Some(call(pool, name, descriptor)?);
        Ok(())
    }

    fn replaces_unsafe(
        &mut self,
        index: usize,
        member: &Member<'_>,
        pool: &mut Pool<'_>,
    ) -> Result<(), Fault> {
        let same = |(name, descriptor): &&(&str, &str)| {
            (self.what == What::All || matches!(*name, "park" | "unpark"))
                && name.as_bytes() == member.name
                && descriptor.as_bytes() == member.descriptor
        };
        if let Some((name, descriptor)) = REPLACED.iter().find(same).filter(|_| member.is_of_class)
        {
            self.woven.replaced[index] = Some(call(pool, name, &with_receiver(descriptor))?);
        }
        Ok(())
    }

    /// Adds code where the method begins, where it is left, and where `this` becomes an object.
    fn finish(mut self, pool: &mut Pool<'_>, keys: &mut Keys<'_>) -> Result<Woven, Fault> {
        if let Some(made) = self.made {
            for constant in std::mem::take(&mut self.early) {
                let member = pool.member(constant)?;
                let key = keys(member.class, member.name, member.descriptor);
                let mut get = vec![op::ALOAD_0, op::DUP, op::GETFIELD];
                put2(&mut get, constant);
                self.woven.after[made].extend([get, stored(pool, key)?].concat());
            }
            if self.what == What::All && self.about.class == b"java/lang/ref/SoftReference" {
                // Soft references keep what they refer to, as long as there is memory.
                let key = keys(
                    b"java/lang/ref/Reference",
                    b"referent",
                    b"Ljava/lang/Object;",
                );
                self.woven.after[made]
                    .extend([vec![op::ALOAD_0, op::ALOAD_0 + 1], stored(pool, key)?].concat());
            }
        }
        let monitor = self.monitor();
        let mut leaving = Vec::new();
        for it in &self.kept {
            leaving.extend([local(op::ALOAD, *it), call(pool, "used", OBJECT)?].concat());
        }
        let enters = |it: &Instruction| it.opcode == op::MONITORENTER;
        if monitor.is_some() || self.code.instructions.iter().any(enters) {
            self.woven.prologue = call(pool, recorder_class::ROOMY, "()V")?;
        }
        if let Some(monitor) = monitor {
            let entered = [monitor.clone(), call(pool, "entered", OBJECT)?].concat();
            self.woven.prologue.extend(entered);
            leaving.extend([monitor, call(pool, "exiting", OBJECT)?].concat());
        }
        if !leaving.is_empty() {
            let is_return = |it: &Instruction| (op::IRETURN..=op::RETURN).contains(&it.opcode);
            let instructions = &self.code.instructions;
            let returns = instructions.iter().filter(|it| is_return(it)).count();
            if returns * leaving.len() > usize::from(u16::MAX) {
                return Err(Fault::Long);
            }
            for (index, _) in instructions
                .iter()
                .enumerate()
                .filter(|(_, it)| is_return(it))
            {
                self.woven.before[index].extend_from_slice(&leaving);
            }
            leaving.push(op::ATHROW);
            let from = self.made.map_or(0, |made| made + 1);
            self.woven.leaving = Some((from, leaving, self.types()));
        }
        if !self.woven.is_empty() {
            self.woven.stack = MORE_STACK;
        }
        Ok(self.woven)
    }

    /// Code that loads the monitor which the method holds.
    fn monitor(&self) -> Option<Vec<u8>> {
        if !self.about.is_synchronized {
            return None;
        }
        if self.about.is_static {
            // Older class files cannot name classes as values.
            (self.about.version >= 49).then(|| {
                let mut bytes = vec![op::LDC_W];
                put2(&mut bytes, self.about.this);
                bytes
            })
        } else {
            self.parameters.has(0).then(|| vec![op::ALOAD_0])
        }
    }

    /// The types of local variables when an exception leaves the method.
    fn types(&self) -> Vec<Type> {
        let mut types = Vec::new();
        for (local, class, wide) in &self.parameters.all {
            let needed = self.kept.contains(local) || (*local == 0 && self.about.is_synchronized);
            types.push(class.filter(|_| needed).unwrap_or(TOP));
            types.extend(wide.then_some(TOP));
        }
        types
    }
}

/// Tells of a store, with the object and the value on the stack.
fn stored(pool: &mut Pool<'_>, key: u32) -> Result<Vec<u8>, Fault> {
    let call = call(pool, "stored", "(Ljava/lang/Object;Ljava/lang/Object;I)V")?;
    Ok([number(pool, key)?, call].concat())
}
