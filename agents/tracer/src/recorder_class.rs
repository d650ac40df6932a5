//! The class whose methods inserted code calls. It is in `java.lang`, which every class sees, and has few
//! lines of Java of its own: they turn objects into their numbers, do the work of the calls that they
//! replace, and call native methods with numbers. Objects passed to native methods would cost more.
//!
//! The machine does not verify the boot loader's classes, and so it takes one of an old version that has
//! branches without frames.

use crate::classfile::Fault;
use crate::classfile::bytes::{put2, put4, short};
use crate::classfile::pool::Pool;

/// Its name.
pub const NAME: &str = "java/lang/PlimsollRecorder";
/// The method that does nothing but take stack. A method that holds monitors calls it before it does: where
/// it passes, what is inserted later in the same method does not overflow the stack. An error there would
/// come between entering and leaving a monitor, where no program expects one. It is never compiled (the
/// machine is told so), for compiled it would take none.
pub const ROOMY: &str = "room";
/// Places of its local variables, 8 bytes each: more than all that is inserted takes.
const ROOM: u16 = 128;
/// Places of local variables of all other methods.
const LOCALS: u16 = 8;
/// The type of methods that take a reference, a long and a reference, and return nothing.
const PUT: &str = "(Ljava/lang/Object;JLjava/lang/Object;)V";
const SWAP: &str = "(Ljava/lang/Object;JLjava/lang/Object;Ljava/lang/Object;)Z";
const EXCHANGE: &str =
    "(Ljava/lang/Object;JLjava/lang/Object;Ljava/lang/Object;)Ljava/lang/Object;";
const GET: &str = "(Ljava/lang/Object;JLjava/lang/Object;)Ljava/lang/Object;";
/// The class whose methods store without instructions for it.
pub const UNSAFE: &str = "jdk/internal/misc/Unsafe";

/// Methods of [`UNSAFE`] that are replaced, with their types.
pub const REPLACED: [(&str, &str); 17] = [
    ("putReference", PUT),
    ("putReferenceVolatile", PUT),
    ("putReferenceRelease", PUT),
    ("putReferenceOpaque", PUT),
    ("compareAndSetReference", SWAP),
    ("weakCompareAndSetReference", SWAP),
    ("weakCompareAndSetReferencePlain", SWAP),
    ("weakCompareAndSetReferenceAcquire", SWAP),
    ("weakCompareAndSetReferenceRelease", SWAP),
    ("compareAndExchangeReference", EXCHANGE),
    ("compareAndExchangeReferenceAcquire", EXCHANGE),
    ("compareAndExchangeReferenceRelease", EXCHANGE),
    ("getAndSetReference", GET),
    ("getAndSetReferenceAcquire", GET),
    ("getAndSetReferenceRelease", GET),
    ("park", "(ZJ)V"),
    ("unpark", "(Ljava/lang/Object;)V"),
];

/// The type of the static method that stands for one of [`REPLACED`]: the receiver comes first.
pub fn with_receiver(descriptor: &str) -> String {
    format!("(L{UNSAFE};{}", &descriptor[1..])
}

/// Native methods and their types; the functions are in the same order.
pub const NATIVES: [(&str, &str); 15] = [
    ("used0", "(I)V"),
    ("stored0", "(III)V"),
    ("storedStatic0", "(II)V"),
    ("element0", "(III)V"),
    ("unsafe0", "(IJII)V"),
    ("entered0", "(I)V"),
    ("exiting0", "(I)V"),
    ("notifying0", "(II)V"),
    ("starting0", "(II)V"),
    ("parking0", "(ZJ)V"),
    ("unparking0", "(I)V"),
    ("sleeping", "()V"),
    ("fields", "(Ljava/lang/Object;)V"),
    ("cloning", "()V"),
    ("cloned0", "(Ljava/lang/Object;)V"),
];

/// The class while it is made.
struct Class {
    pool: Pool<'static>,
    methods: Vec<u8>,
    count: usize,
    code: Vec<u8>,
}

impl Class {
    fn put(&mut self, bytes: &[u8]) {
        self.code.extend_from_slice(bytes);
    }

    fn call(&mut self, opcode: u8, class: &str, name: &str, descriptor: &str) -> Result<(), Fault> {
        let method = self.pool.add_method(class, name, descriptor)?;
        self.code.push(opcode);
        put2(&mut self.code, method);
        Ok(())
    }

    fn own(&mut self, name: &str, descriptor: &str) -> Result<(), Fault> {
        self.call(184, NAME, name, descriptor)
    }

    /// Loads a reference and makes it the object's number.
    fn number(&mut self, local: u8) -> Result<(), Fault> {
        self.put(&[25, local]);
        self.call(
            184,
            "java/lang/System",
            "identityHashCode",
            "(Ljava/lang/Object;)I",
        )
    }

    /// An instruction with a class.
    fn with_class(&mut self, opcode: u8, class: &str) -> Result<(), Fault> {
        let class = self.pool.add_class(class.as_bytes())?;
        self.code.push(opcode);
        put2(&mut self.code, class);
        Ok(())
    }

    /// A branch forward, whose target is set later.
    fn branch(&mut self, opcode: u8) -> usize {
        self.put(&[opcode, 0, 0]);
        self.code.len() - 3
    }

    /// Sets the target of a branch to here.
    fn here(&mut self, branch: usize) {
        // Methods here are short.
        let offset = (self.code.len() - branch) as u16;
        self.code[branch + 1..branch + 3].copy_from_slice(&offset.to_be_bytes());
    }

    /// A branch back.
    fn back(&mut self, opcode: u8, target: usize) {
        let offset = (target as i64 - self.code.len() as i64) as i16;
        self.code.push(opcode);
        put2(&mut self.code, offset as u16);
    }

    /// Ends a method with the code so far.
    fn method(&mut self, name: &str, descriptor: &str) -> Result<(), Fault> {
        self.method_with(LOCALS, name, descriptor)
    }

    /// The same, with this many places of local variables.
    fn method_with(&mut self, locals: u16, name: &str, descriptor: &str) -> Result<(), Fault> {
        let (name, descriptor) = (self.pool.add_text(name)?, self.pool.add_text(descriptor)?);
        let attribute = self.pool.add_text("Code")?;
        let code = std::mem::take(&mut self.code);
        let methods = &mut self.methods;
        // Public and static, one attribute.
        for number in [9, name, descriptor, 1, attribute] {
            put2(methods, number);
        }
        put4(methods, code.len() as u32 + 12);
        put2(methods, 10);
        put2(methods, locals);
        put4(methods, code.len() as u32);
        methods.extend_from_slice(&code);
        put4(methods, 0);
        self.count += 1;
        Ok(())
    }

    fn native(&mut self, name: &str, descriptor: &str) -> Result<(), Fault> {
        let (name, descriptor) = (self.pool.add_text(name)?, self.pool.add_text(descriptor)?);
        for number in [0x0109, name, descriptor, 0] {
            put2(&mut self.methods, number);
        }
        self.count += 1;
        Ok(())
    }

    fn finish(mut self) -> Result<Vec<u8>, Fault> {
        let (this, object) = (
            self.pool.add_class(NAME.as_bytes())?,
            self.pool.add_class(b"java/lang/Object")?,
        );
        let mut all = Vec::new();
        put4(&mut all, 0xcafe_babe);
        put4(&mut all, 49);
        self.pool.write(&mut all);
        // Public, final, super; no interfaces and no fields.
        for number in [0x0031, this, object, 0, 0, short(self.count)?] {
            put2(&mut all, number);
        }
        all.extend_from_slice(&self.methods);
        put2(&mut all, 0);
        Ok(all)
    }
}

/// The bytes of the class file.
///
/// # Errors
/// None, as long as it is short.
pub fn class_file() -> Result<Vec<u8>, Fault> {
    let mut it = Class {
        pool: Pool::empty(),
        methods: Vec::new(),
        count: 0,
        code: Vec::new(),
    };
    for (name, descriptor) in NATIVES {
        it.native(name, descriptor)?;
    }
    for (name, native) in [
        ("used", "used0"),
        ("entered", "entered0"),
        ("exiting", "exiting0"),
    ] {
        it.number(0)?;
        it.own(native, "(I)V")?;
        it.put(&[177]);
        it.method(name, "(Ljava/lang/Object;)V")?;
    }
    for (name, all) in [("notifying", 3), ("notifyingAll", 4)] {
        it.number(0)?;
        it.put(&[all]);
        it.own("notifying0", "(II)V")?;
        it.put(&[177]);
        it.method(name, "(Ljava/lang/Object;)V")?;
    }
    it.put(&[177]);
    it.method_with(ROOM, ROOMY, "()V")?;
    stores(&mut it)?;
    copies(&mut it)?;
    it.number(0)?;
    it.put(&[42]);
    it.call(182, "java/lang/Thread", "getPriority", "()I")?;
    it.own("starting0", "(II)V")?;
    it.put(&[177]);
    it.method("starting", "(Ljava/lang/Thread;)V")?;
    // A thread that is interrupted goes on, as if it was unparked.
    it.number(0)?;
    it.own("unparking0", "(I)V")?;
    it.put(&[177]);
    it.method("interrupting", "(Ljava/lang/Thread;)V")?;
    for (name, descriptor) in REPLACED {
        replaced(&mut it, name, descriptor)?;
    }
    it.finish()
}

fn stores(it: &mut Class) -> Result<(), Fault> {
    it.number(0)?;
    it.number(1)?;
    it.put(&[28]);
    it.own("stored0", "(III)V")?;
    it.put(&[177]);
    it.method("stored", "(Ljava/lang/Object;Ljava/lang/Object;I)V")?;
    it.number(0)?;
    it.put(&[27]);
    it.own("storedStatic0", "(II)V")?;
    it.put(&[177]);
    it.method("storedStatic", "(Ljava/lang/Object;I)V")?;
    it.number(0)?;
    it.put(&[27]);
    it.number(2)?;
    it.own("element0", "(III)V")?;
    it.put(&[177]);
    it.method("element", "(Ljava/lang/Object;ILjava/lang/Object;)V")?;
    // The last argument: 1 for an array, 2 for a class.
    it.number(0)?;
    it.put(&[31]);
    it.number(3)?;
    it.put(&[42]);
    it.with_class(193, "[Ljava/lang/Object;")?;
    it.put(&[42]);
    it.with_class(193, "java/lang/Class")?;
    it.put(&[4, 120, 128]);
    it.own("unsafe0", "(IJII)V")?;
    it.put(&[177]);
    it.method("unsafe", PUT)
}

/// Types of arrays of references, of what stores an element, and of what takes an object.
const ARRAY: &str = "[Ljava/lang/Object;";
const ELEMENT: &str = "(Ljava/lang/Object;ILjava/lang/Object;)V";
const OBJECT: &str = "(Ljava/lang/Object;)V";

/// Methods that copy references without an instruction for each.
fn copies(it: &mut Class) -> Result<(), Fault> {
    // elements(array, from, to)
    it.put(&[27, 28]);
    let end = it.branch(162);
    it.put(&[42, 27, 42, 27, 50]);
    it.own("element", ELEMENT)?;
    it.put(&[132, 1, 1]);
    it.back(167, 0);
    it.here(end);
    it.put(&[177]);
    it.method("elements", "([Ljava/lang/Object;II)V")?;
    // arraycopy(from, at, to, at, count)
    let copy = "(Ljava/lang/Object;ILjava/lang/Object;II)V";
    it.put(&[42, 27, 44, 29, 21, 4]);
    it.call(184, "java/lang/System", "arraycopy", copy)?;
    it.put(&[42]);
    it.own("used", OBJECT)?;
    it.put(&[44]);
    it.own("used", OBJECT)?;
    it.put(&[44]);
    it.with_class(193, ARRAY)?;
    let end = it.branch(153);
    it.put(&[44]);
    it.with_class(192, ARRAY)?;
    it.put(&[29, 29, 21, 4, 96]);
    it.own("elements", "([Ljava/lang/Object;II)V")?;
    it.here(end);
    it.put(&[177]);
    it.method("arraycopy", copy)?;
    copied(it)
}

/// Methods that read whole objects and arrays.
fn copied(it: &mut Class) -> Result<(), Fault> {
    // copied(object): its elements, or its fields
    it.put(&[42]);
    it.with_class(193, ARRAY)?;
    let fields = it.branch(153);
    it.put(&[42]);
    it.with_class(192, ARRAY)?;
    it.put(&[3, 42]);
    it.with_class(192, ARRAY)?;
    it.put(&[190]);
    it.own("elements", "([Ljava/lang/Object;II)V")?;
    it.put(&[177]);
    it.here(fields);
    it.put(&[42]);
    it.own("fields", OBJECT)?;
    it.put(&[177]);
    it.method("copied", OBJECT)?;
    // cloned(object): born now, and its elements or fields
    it.put(&[42]);
    it.own("cloned0", OBJECT)?;
    it.put(&[42]);
    it.own("copied", OBJECT)?;
    it.put(&[177]);
    it.method("cloned", OBJECT)?;
    // deep(array): its elements, and theirs
    it.put(&[42]);
    it.with_class(193, ARRAY)?;
    let end = it.branch(153);
    it.put(&[42]);
    it.with_class(192, ARRAY)?;
    it.put(&[76, 3, 61]);
    let again = it.code.len();
    it.put(&[28, 43, 190]);
    let done = it.branch(162);
    it.put(&[43, 28, 43, 28, 50]);
    it.own("element", ELEMENT)?;
    it.put(&[43, 28, 50]);
    it.own("deep", OBJECT)?;
    it.put(&[132, 2, 1]);
    it.back(167, again);
    it.here(end);
    it.here(done);
    it.put(&[177]);
    it.method("deep", OBJECT)?;
    // linked(object): the fields of an object whose class is hidden, and whose code is not seen
    it.put(&[42]);
    let end = it.branch(198);
    it.put(&[42]);
    it.call(182, "java/lang/Object", "getClass", "()Ljava/lang/Class;")?;
    it.call(182, "java/lang/Class", "isHidden", "()Z")?;
    let seen = it.branch(153);
    it.put(&[42]);
    it.own("fields", OBJECT)?;
    it.here(end);
    it.here(seen);
    it.put(&[177]);
    it.method("linked", OBJECT)
}

/// A method in the place of one of [`UNSAFE`]'s.
fn replaced(it: &mut Class, name: &str, descriptor: &str) -> Result<(), Fault> {
    match descriptor {
        "(ZJ)V" => {
            it.put(&[27, 32]);
            it.own("parking0", descriptor)?;
            it.put(&[42, 27, 32]);
            it.call(182, UNSAFE, name, descriptor)?;
            it.put(&[177]);
        }
        "(Ljava/lang/Object;)V" => {
            it.number(1)?;
            it.own("unparking0", "(I)V")?;
            it.put(&[42, 43]);
            it.call(182, UNSAFE, name, descriptor)?;
            it.put(&[177]);
        }
        PUT => {
            it.put(&[42, 43, 32, 25, 4]);
            it.call(182, UNSAFE, name, descriptor)?;
            it.put(&[43, 32, 25, 4]);
            it.own("unsafe", PUT)?;
            it.put(&[177]);
        }
        GET => {
            it.put(&[42, 43, 32, 25, 4]);
            it.call(182, UNSAFE, name, descriptor)?;
            it.put(&[58, 5, 43, 32, 25, 4]);
            it.own("unsafe", PUT)?;
            it.put(&[25, 5, 176]);
        }
        _ => {
            let exchanges = descriptor == EXCHANGE;
            it.put(&[42, 43, 32, 25, 4, 25, 5]);
            it.call(182, UNSAFE, name, descriptor)?;
            let end = if exchanges {
                it.put(&[58, 6, 25, 6, 25, 4]);
                it.branch(166)
            } else {
                it.put(&[54, 6, 21, 6]);
                it.branch(153)
            };
            it.put(&[43, 32, 25, 5]);
            it.own("unsafe", PUT)?;
            it.here(end);
            it.put(if exchanges {
                &[25, 6, 176]
            } else {
                &[21, 6, 172]
            });
        }
    }
    it.method(name, &with_receiver(descriptor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_class_file() {
        let bytes = class_file().unwrap();
        let mut methods = 0;
        let written = crate::classfile::file::rewrite(&bytes, &mut |_, code, _| {
            methods += 1;
            Ok(crate::classfile::method::Woven::nothing(
                code.instructions.len(),
            ))
        });
        assert_eq!(written.unwrap().left, 0);
        assert_eq!(methods, 18 + REPLACED.len());
    }
}
