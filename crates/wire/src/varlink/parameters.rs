//! Reads parameters, and says which field is wrong when one is.

use super::error::shorten;
use super::{ErrorName, WireError};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// Reads `raw` (an object) as `T`.
///
/// # Errors
/// Names the field at fault; fields with an error of their own (`weight`, ...) get that one.
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
    let name = match field {
        "weight" | "own_weight" => ErrorName::BadWeight,
        "priority" | "own_priority" => ErrorName::BadPriority,
        "name" => ErrorName::BadName,
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

/// serde's text without its position, which means nothing to who wrote a call.
fn cause(text: &str) -> String {
    let text = text.split(" at line ").next().unwrap_or(text);
    let mut shown: String = text.chars().take(200).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}
