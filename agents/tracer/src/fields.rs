//! The numbers of fields. A field of an object has the same number however it is stored: by an instruction
//! that
//! names it, or by a method that says how far from the object's begin it is. So its number is that distance.

use crate::function_table::Object;
use crate::jni::Jni;
use crate::jvmti::Jvmti;
use crate::session::lock;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// Numbers from here on are of fields whose distance is not known.
const UNKNOWN: u32 = 1 << 31;

/// A field as instructions name it: class, name, type.
type Named = (Box<str>, Box<str>, Box<str>);

#[derive(Debug, Default)]
struct Keys {
    by_name: HashMap<Named, u32>,
    names: Vec<Named>,
}

/// The fields of a class that hold references.
#[derive(Debug, Default)]
struct Class {
    superclass: Option<Box<str>>,
    /// Distances of its own fields, by name and type.
    fields: HashMap<(Box<str>, Box<str>), u32>,
}

/// A field of references of an object: its identifier for JNI, and its number.
pub type Reference = (usize, u32);

static KEYS: Mutex<Option<Keys>> = Mutex::new(None);
static CLASSES: RwLock<Option<HashMap<Box<str>, Class>>> = RwLock::new(None);
/// The fields of references of the objects of a class, by the hash of the class.
static REFERENCES: RwLock<Option<HashMap<u32, Arc<[Reference]>>>> = RwLock::new(None);

/// The key of a field that an instruction names.
pub fn key(class: &[u8], name: &[u8], descriptor: &[u8]) -> u32 {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned().into_boxed_str();
    let named = (text(class), text(name), text(descriptor));
    let mut keys = lock(&KEYS);
    let keys = keys.get_or_insert_default();
    let names = &mut keys.names;
    *keys.by_name.entry(named).or_insert_with_key(|named| {
        names.push(named.clone());
        names.len() as u32 - 1
    })
}

/// The number of the field that has a key: looked for in the class and its superclasses.
pub fn slot(key: u32) -> u32 {
    let found = || {
        let (class, name, descriptor) = lock(&KEYS).as_ref()?.names.get(key as usize)?.clone();
        let classes = CLASSES.read().unwrap_or_else(PoisonError::into_inner);
        let classes = classes.as_ref()?;
        let field = (name, descriptor);
        let mut class = classes.get(&class)?;
        loop {
            if let Some(distance) = class.fields.get(&field) {
                return Some(*distance);
            }
            class = classes.get(class.superclass.as_ref()?)?;
        }
    };
    found().unwrap_or(UNKNOWN | key)
}

/// Learns the fields of a class that is prepared.
pub fn learn(jvmti: Jvmti, jni: Jni, class: Object) {
    let name = |class| {
        let signature = jvmti.signature(class)?;
        let name = signature.strip_prefix('L')?.strip_suffix(';')?;
        Some(Box::<str>::from(name))
    };
    let Some(own) = name(class) else { return };
    let superclass = jni.superclass(class);
    let known = Class {
        superclass: superclass.and_then(name),
        fields: jvmti
            .fields(class)
            .into_iter()
            .filter(|field| !field.is_static)
            .filter_map(|field| {
                Some((
                    (field.name.into(), field.descriptor.into()),
                    distance(field.id)?,
                ))
            })
            .collect(),
    };
    if let Some(superclass) = superclass {
        jni.forget(superclass);
    }
    let mut classes = CLASSES.write().unwrap_or_else(PoisonError::into_inner);
    classes.get_or_insert_default().entry(own).or_insert(known);
}

/// How far a field is from the begin of its object, bytes. HotSpot's identifiers of fields of objects are
/// that,
/// above two bits: that it is one of objects, and that it is not checked.
fn distance(id: usize) -> Option<u32> {
    match id & 3 {
        1 => u32::try_from(id >> 2)
            .ok()
            .filter(|distance| *distance < UNKNOWN),
        _ => None,
    }
}

/// The fields of references of an object's class and its superclasses.
pub fn references(jvmti: Jvmti, jni: Jni, object: Object) -> Arc<[Reference]> {
    let class = jni.class_of(object);
    let hash = jvmti.hash(class);
    let known = REFERENCES.read().unwrap_or_else(PoisonError::into_inner);
    let found = known.as_ref().and_then(|known| known.get(&hash)).cloned();
    drop(known);
    let references = found.unwrap_or_else(|| {
        let references: Arc<[Reference]> = find_references(jvmti, jni, class).into();
        let mut known = REFERENCES.write().unwrap_or_else(PoisonError::into_inner);
        known
            .get_or_insert_default()
            .insert(hash, references.clone());
        references
    });
    jni.forget(class);
    references
}

fn find_references(jvmti: Jvmti, jni: Jni, class: Object) -> Vec<Reference> {
    let mut all = Vec::new();
    let mut next = Some(class);
    while let Some(class_of_field) = next {
        let signature = jvmti.signature(class_of_field).unwrap_or_default();
        let fields = jvmti
            .fields(class_of_field)
            .into_iter()
            .filter(|field| !field.is_static);
        // The referent of a weak reference may die, and collectors have fields of their own in references.
        let fields = fields.filter(|_| signature != "Ljava/lang/ref/Reference;");
        let of_objects = fields.filter(|field| field.descriptor.starts_with(['L', '[']));
        all.extend(of_objects.filter_map(|field| Some((field.id, distance(field.id)?))));
        if signature == "Ljava/lang/Throwable;" {
            // Hidden from everybody: where the exception was made.
            let hidden = jni.field(class_of_field, "backtrace", "Ljava/lang/Object;");
            all.extend(hidden.and_then(|id| Some((id, distance(id)?))));
        }
        next = jni.superclass(class_of_field);
        if class_of_field != class {
            jni.forget(class_of_field);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_are_not_known_have_numbers_of_their_own() {
        let one = key(b"q/A", b"next", b"Lq/A;");
        assert_eq!(key(b"q/A", b"next", b"Lq/A;"), one);
        let other = key(b"q/B", b"next", b"Lq/A;");
        assert_ne!(slot(one), slot(other));
        let mut classes = CLASSES.write().unwrap();
        let classes = classes.get_or_insert_default();
        let fields = HashMap::from([(("next".into(), "Lq/A;".into()), 12)]);
        classes.insert(
            "q/A".into(),
            Class {
                superclass: None,
                fields,
            },
        );
        let below = Class {
            superclass: Some("q/A".into()),
            ..Class::default()
        };
        classes.insert("q/B".into(), below);
        drop(CLASSES.try_read());
    }

    #[test]
    fn identifiers_of_fields_are_distances() {
        assert_eq!(distance((12 << 2) | 1), Some(12));
        assert_eq!(distance(0x7f00_0000_1234), None);
    }
}
