//! Files in which a Java virtual machine publishes counters, made up.

/// A counter's value.
#[derive(Clone, Copy, Debug)]
pub enum Counter<'a> {
    /// A number.
    Long(i64),
    /// Text.
    Text(&'a str),
}

fn put(bytes: &mut Vec<u8>, little: bool, value: u32) {
    bytes.extend(if little {
        value.to_le_bytes()
    } else {
        value.to_be_bytes()
    });
}

/// A file with these counters, in this byte order.
pub fn file(little: bool, counters: &[(&str, Counter<'_>)]) -> Vec<u8> {
    let mut bytes = vec![0xca, 0xfe, 0xc0, 0xc0, u8::from(little), 2, 0, 1];
    for word in [0, 0, 0, 0, 32, counters.len() as u32] {
        put(&mut bytes, little, word);
    }
    for (name, value) in counters {
        let text = match value {
            Counter::Long(_) => 0,
            Counter::Text(t) => t.len() + 1,
        };
        let at = (20 + name.len() + 1).next_multiple_of(8);
        let length = (at + text.max(8)).next_multiple_of(8);
        let start = bytes.len();
        put(&mut bytes, little, length as u32);
        put(&mut bytes, little, 20);
        put(&mut bytes, little, text as u32);
        bytes.extend([if text == 0 { b'J' } else { b'B' }, 0, 1, 1]);
        put(&mut bytes, little, at as u32);
        bytes.extend(name.bytes());
        bytes.resize(start + at, 0);
        match value {
            Counter::Long(v) if little => bytes.extend(v.to_le_bytes()),
            Counter::Long(v) => bytes.extend(v.to_be_bytes()),
            Counter::Text(t) => bytes.extend(t.bytes()),
        }
        bytes.resize(start + length, 0);
    }
    bytes
}
