//! The parameters of a method: which of them it has all the time.

use crate::classfile::Fault;
use crate::classfile::file::About;
use crate::classfile::frames::{THIS, TOP, Type};
use crate::classfile::instructions::{self, op, parameters, u2};
use crate::classfile::method::Code;
use crate::classfile::pool::Pool;

/// In a constructor, the instruction that makes `this` an object: the call of another constructor for it.
/// `None` elsewhere.
pub(super) fn made(
    about: &About<'_>,
    code: &Code<'_>,
    pool: &Pool<'_>,
) -> Result<Option<usize>, Fault> {
    if about.name != b"<init>" || about.is_static || about.class == b"java/lang/Object" {
        return Ok(None);
    }
    // Each `new` comes with a call of its own, and compilers write those of arguments before that of `this`.
    let mut open = 0u32;
    for (index, it) in code.instructions.iter().enumerate() {
        match it.opcode {
            op::NEW => open += 1,
            op::INVOKESPECIAL if pool.member(u2(code.bytes, it.at + 1)?)?.name == b"<init>" => {
                match open.checked_sub(1) {
                    Some(less) => open = less,
                    None => return Ok(Some(index)),
                }
            }
            _ => {}
        }
    }
    // It never returns.
    Err(Fault::Unusual)
}

/// The parameters of a method.
pub(super) struct Parameters {
    /// For each, the local variable, its type where it is a reference that the method never overwrites, and
    /// whether it takes two places.
    pub(super) all: Vec<(u16, Option<Type>, bool)>,
}

impl Parameters {
    pub(super) fn of(
        about: &About<'_>,
        code: &Code<'_>,
        pool: &mut Pool<'_>,
        made: Option<usize>,
    ) -> Result<Parameters, Fault> {
        let mut all: Vec<(u16, Option<Type>, bool)> = Vec::new();
        let mut names: Vec<Vec<u8>> = Vec::new();
        let mut local = 0;
        if !about.is_static {
            all.push((0, Some(Type::Object(about.this)), false));
            names.push(about.class.to_vec());
            local = 1;
        }
        for descriptor in parameters(about.descriptor).ok_or(Fault::Damaged)? {
            let name = match descriptor[0] {
                b'L' => &descriptor[1..descriptor.len() - 1],
                b'[' => descriptor,
                _ => &[],
            };
            let wide = matches!(descriptor[0], b'J' | b'D');
            let class = if name.is_empty() {
                None
            } else {
                Some(Type::Object(pool.add_class(name)?))
            };
            all.push((local, class, wide));
            names.push(name.to_vec());
            local += if wide { 2 } else { 1 };
        }
        for it in &code.instructions {
            if let Some((first, places)) = instructions::stored(code.bytes, it) {
                for (local, class, _) in &mut all {
                    if (first..first + places).contains(local) {
                        *class = None;
                    }
                }
            }
        }
        // The code may say at a target that it does not need a parameter any more.
        let mut types: Vec<Type> = all
            .iter()
            .map(|(_, class, _)| class.unwrap_or(TOP))
            .collect();
        if made.is_some() {
            types[0] = THIS;
        }
        let after = made.map_or(0, |index| code.instructions[index].at);
        for frame in &code.frames {
            frame.apply(&mut types);
            for (index, (_, class, _)) in all.iter_mut().enumerate() {
                let same = match types.get(index) {
                    Some(Type::Object(it)) => pool.class(*it).is_ok_and(|it| it == names[index]),
                    Some(it) if *it == THIS => index == 0 && made.is_some() && frame.at <= after,
                    _ => false,
                };
                let own = matches!((types.get(index), &class), (Some(it), Some(own)) if it == own);
                if !same && !own {
                    *class = None;
                }
            }
        }
        Ok(Parameters { all })
    }

    /// Whether a local variable has the same parameter all the time.
    pub(super) fn has(&self, local: u16) -> bool {
        self.all
            .iter()
            .any(|(it, class, _)| *it == local && class.is_some())
    }
}
