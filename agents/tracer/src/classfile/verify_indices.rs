//! Whether everything in a class file that refers to a constant refers to one that it has. With the constants
//! that are added, a number that is too large might mean one of them.

use super::Fault;
use super::bytes::Reader;
use super::instructions::{Instruction, op, u2};
use super::pool::Pool;

/// How deep attributes are in each other: those of components, of code, and annotations.
const DEEP: usize = 8;

/// Checks what the machine looks at when it loads a class: all from its flags on. Annotations are looked at
/// by the program alone, when it asks for them.
///
/// # Errors
/// [`Fault::Damaged`].
pub fn check(body: &[u8], pool: &Pool<'_>) -> Result<(), Fault> {
    let mut it = Walk {
        reader: Reader::new(body),
        pool,
    };
    it.reader.u2()?;
    it.constants(2)?;
    let interfaces = it.reader.u2()?;
    it.constants(interfaces.into())?;
    for _ in 0..2 {
        for _ in 0..it.reader.u2()? {
            it.reader.u2()?;
            it.constants(2)?;
            it.attributes(DEEP)?;
        }
    }
    it.attributes(DEEP)
}

/// Whether an instruction names a constant that the class file has, if it names one.
pub fn is_known(code: &[u8], it: &Instruction, pool: &Pool<'_>) -> bool {
    let constant = match it.opcode {
        op::LDC => code.get(it.at + 1).map(|byte| u16::from(*byte)),
        19 | 20 | 178..=187 | 189 | 192 | 193 | 197 => u2(code, it.at + 1).ok(),
        _ => return true,
    };
    constant.is_some_and(|constant| pool.has(constant))
}

struct Walk<'r, 'a> {
    reader: Reader<'a>,
    pool: &'r Pool<'a>,
}

impl<'a> Walk<'_, 'a> {
    fn constants(&mut self, count: usize) -> Result<(), Fault> {
        for _ in 0..count {
            self.one()?;
        }
        Ok(())
    }

    fn one(&mut self) -> Result<u16, Fault> {
        let index = self.reader.u2()?;
        if self.pool.has(index) {
            Ok(index)
        } else {
            Err(Fault::Damaged)
        }
    }

    fn attributes(&mut self, deep: usize) -> Result<(), Fault> {
        for _ in 0..self.reader.u2()? {
            let name = self.one()?;
            let length = self.reader.u4()?;
            let content = self.reader.take(length as usize)?;
            let mut inner = Walk {
                reader: Reader::new(content),
                pool: self.pool,
            };
            // The virtual machine refuses a member without a name in any case.
            if let Ok(name) = self.pool.text(name) {
                inner.attribute(name, deep.checked_sub(1).ok_or(Fault::Damaged)?)?;
            }
        }
        Ok(())
    }

    fn attribute(&mut self, name: &'a [u8], deep: usize) -> Result<(), Fault> {
        match name {
            b"ConstantValue" | b"Signature" | b"SourceFile" | b"NestHost" => self.constants(1),
            b"EnclosingMethod" => self.constants(2),
            b"Exceptions" | b"NestMembers" | b"PermittedSubclasses" => {
                let count = self.reader.u2()?;
                self.constants(count.into())
            }
            b"InnerClasses" => self.each(|it| {
                it.constants(3)?;
                it.reader.u2().map(drop)
            }),
            b"BootstrapMethods" => self.each(|it| {
                it.one()?;
                let count = it.reader.u2()?;
                it.constants(count.into())
            }),
            b"Record" => self.each(|it| {
                it.constants(2)?;
                it.attributes(deep)
            }),
            b"MethodParameters" => {
                for _ in 0..self.reader.u1()? {
                    self.one()?;
                    self.reader.u2()?;
                }
                Ok(())
            }
            b"LocalVariableTable" | b"LocalVariableTypeTable" => self.each(|it| {
                it.reader.take(4)?;
                it.constants(2)?;
                it.reader.u2().map(drop)
            }),
            b"Code" => self.code(deep),
            _ => Ok(()),
        }
    }

    fn each(&mut self, one: impl Fn(&mut Self) -> Result<(), Fault>) -> Result<(), Fault> {
        for _ in 0..self.reader.u2()? {
            one(self)?;
        }
        Ok(())
    }

    fn code(&mut self, deep: usize) -> Result<(), Fault> {
        self.reader.take(4)?;
        let length = self.reader.u4()?;
        let code = self.reader.take(length as usize)?;
        let instructions = super::instructions::decode(code)?;
        if !instructions.iter().all(|it| is_known(code, it, self.pool)) {
            return Err(Fault::Damaged);
        }
        self.each(|it| {
            it.reader.take(6)?;
            it.constants(1)
        })?;
        self.attributes(deep)
    }
}
