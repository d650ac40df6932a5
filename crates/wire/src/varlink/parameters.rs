//! Reads parameters, and says which field is wrong when one is.

use super::error::shorten;
use super::{ErrorName, WireError};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// Separates the name of an error from its message in the text that carries a failed check through
/// serde. No text of serde itself begins with the name of an error.
const MARK: char = '\u{1f}';

/// A failed check, as text.
pub(crate) fn marked(error: &WireError) -> String {
    format!("{}{MARK}{}", error.name.as_str(), error.message)
}

/// The text of a deserialisation error for display, where the input was a file and not a message.
#[must_use]
pub fn plain(text: &str) -> String {
    let without = |text: String, name: ErrorName| {
        let mark = format!("{}{MARK}", name.as_str());
        text.replace(&mark, "")
    };
    ErrorName::ALL.into_iter().fold(text.to_owned(), without)
}

/// The failed check in a text, if any.
fn unmarked(field: &str, text: &str) -> Option<WireError> {
    let (name, message) = text.split_once(MARK)?;
    let name = ErrorName::ALL
        .into_iter()
        .find(|known| known.as_str() == name)?;
    Some(WireError {
        name,
        message: message.to_owned(),
        subject: (name == ErrorName::InvalidParameter).then(|| shorten(field)),
    })
}

/// Reads `raw` (an object) as `T`.
///
/// # Errors
/// An error that names the field at fault. A field with an error of its own (`weight`, ...) returns
/// that.
pub(super) fn read<T: DeserializeOwned>(raw: &str) -> Result<T, WireError> {
    if !raw.starts_with('{') {
        return Err(WireError::about(
            "parameters",
            "the parameters have to be a JSON object",
        ));
    }
    serde_json::from_str(raw).map_err(|error| explain::<T>(raw, &error))
}

/// The slow path: finds the field that makes `raw` unreadable by reading each field alone.
fn explain<T: DeserializeOwned>(raw: &str, error: &serde_json::Error) -> WireError {
    let whole = error.to_string();
    let Ok(fields) = serde_json::from_str::<Map<String, Value>>(raw) else {
        return WireError::about("parameters", format!("the parameters: {}", cause(&whole)));
    };
    for (field, value) in fields {
        let mut alone = Map::new();
        alone.insert(field.clone(), value);
        let Err(error) = serde_json::from_value::<T>(Value::Object(alone)) else {
            continue;
        };
        let text = error.to_string();
        if !text.starts_with("missing field") {
            return fault(&field, &text);
        }
    }
    let named = whole.split('`').nth(1).unwrap_or("parameters").to_owned();
    fault(&named, &whole)
}

fn fault(field: &str, text: &str) -> WireError {
    if let Some(refused) = unmarked(field, text) {
        return refused;
    }
    let name = match field {
        "weight" | "own_weight" => ErrorName::BadWeight,
        "priority" | "own_priority" => ErrorName::BadPriority,
        "name" | "adapter" => ErrorName::BadName,
        "max" => ErrorName::BadMax,
        "cgroup" => ErrorName::BadCgroup,
        _ => ErrorName::InvalidParameter,
    };
    let field = shorten(field);
    WireError {
        name,
        message: format!("{field}: {}", cause(text)),
        subject: (name == ErrorName::InvalidParameter).then_some(field),
    }
}

/// serde's text without its position, which means nothing to the author of a call.
fn cause(text: &str) -> String {
    let text = text.split(" at line ").next().unwrap_or(text);
    let mut shown: String = text.chars().take(200).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}
