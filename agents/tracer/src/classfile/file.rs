//! A whole class file, method by method.

use super::Fault;
use super::bytes::{Reader, put2, put4};
use super::method::{Code, Woven};
use super::pool::Pool;
use super::{stack_check, verify_indices};

/// The bit of a static method.
const STATIC: u16 = 0x0008;
/// The bit of a synchronized method.
const SYNCHRONIZED: u16 = 0x0020;

/// The name, the type and the flags of a method.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    /// Its class's name.
    pub class: &'a [u8],
    /// The constant of its class.
    pub this: u16,
    /// The version of the class file.
    pub version: u16,
    /// Its name.
    pub name: &'a [u8],
    /// Its type.
    pub descriptor: &'a [u8],
    /// Whether it belongs to the class, not to its objects.
    pub is_static: bool,
    /// Whether it holds a monitor while it runs.
    pub is_synchronized: bool,
}

/// Decides what is inserted into a method. After a fault the method stays as it is, and after
/// [`Fault::Damaged`] the class does.
pub type Weaver<'w> = dyn FnMut(&About<'_>, &Code<'_>, &mut Pool<'_>) -> Result<Woven, Fault> + 'w;

/// A class file with something inserted, and how many of its methods stay as they are.
#[derive(Debug, Default)]
pub struct Written {
    /// The class file; none if nothing changes.
    pub bytes: Option<Vec<u8>>,
    /// Methods that stay as they are.
    pub left: u64,
}

/// Writes a class file again.
///
/// # Errors
/// [`Fault`]: the class stays as it is.
pub fn rewrite(bytes: &[u8], weaver: &mut Weaver<'_>) -> Result<Written, Fault> {
    let mut reader = Reader::new(bytes);
    if reader.u4()? != 0xcafe_babe {
        return Err(Fault::Damaged);
    }
    reader.u2()?;
    let version = reader.u2()?;
    let mut pool = Pool::read(bytes, &mut reader)?;
    let begin = reader.at();
    reader.u2()?;
    let this = reader.u2()?;
    reader.u2()?;
    let interfaces = reader.u2()?;
    reader.take(2 * usize::from(interfaces))?;
    let class = pool.class(this)?;
    for _ in 0..reader.u2()? {
        reader.take(6)?;
        skip_attributes(&mut reader)?;
    }
    let mut body = bytes[begin..reader.at()].to_vec();
    let mut written = Written::default();
    let mut changed = false;
    let count = reader.u2()?;
    put2(&mut body, count);
    for _ in 0..count {
        let flags = reader.u2()?;
        let (name, descriptor) = (reader.u2()?, reader.u2()?);
        for number in [flags, name, descriptor] {
            put2(&mut body, number);
        }
        let about = About {
            class,
            this,
            version,
            name: pool.text(name)?,
            descriptor: pool.text(descriptor)?,
            is_static: flags & STATIC != 0,
            is_synchronized: flags & SYNCHRONIZED != 0,
        };
        let attributes = reader.u2()?;
        put2(&mut body, attributes);
        for _ in 0..attributes {
            let name = reader.u2()?;
            let length = reader.u4()?;
            let content = reader.take(length as usize)?;
            let new = match pool.text(name)? {
                b"Code" => method(&about, content, &mut pool, weaver),
                _ => Ok(None),
            };
            let new = unless_left(new, &mut written.left)?;
            changed |= new.is_some();
            let content = new.as_deref().unwrap_or(content);
            put2(&mut body, name);
            put4(&mut body, content.len() as u32);
            body.extend_from_slice(content);
        }
    }
    if changed {
        verify_indices::check(&bytes[begin..], &pool)?;
        let mut all = bytes[..8].to_vec();
        pool.write(&mut all);
        all.extend_from_slice(&body);
        all.extend_from_slice(&bytes[reader.at()..]);
        written.bytes = Some(all);
    }
    Ok(written)
}

/// The new bytes of a method, if it changes. A damaged method leaves the class as it is: with our new
/// constants its bytes might mean something else.
fn unless_left(
    new: Result<Option<Vec<u8>>, Fault>,
    left: &mut u64,
) -> Result<Option<Vec<u8>>, Fault> {
    match new {
        Err(Fault::Unusual | Fault::Long) => {
            *left += 1;
            Ok(None)
        }
        new => new,
    }
}

fn method<'a>(
    about: &About<'a>,
    content: &'a [u8],
    pool: &mut Pool<'a>,
    weaver: &mut Weaver<'_>,
) -> Result<Option<Vec<u8>>, Fault> {
    let code = Code::read(content, pool)?;
    let woven = weaver(about, &code, pool)?;
    if woven.is_empty() {
        return Ok(None);
    }
    stack_check::check(about, &code, pool)?;
    // Before version 50 the types are found by following the code.
    code.write(&woven, pool, about.version >= 50).map(Some)
}

fn skip_attributes(reader: &mut Reader<'_>) -> Result<(), Fault> {
    for _ in 0..reader.u2()? {
        reader.u2()?;
        let length = reader.u4()?;
        reader.take(length as usize)?;
    }
    Ok(())
}
