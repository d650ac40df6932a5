//! Replies: the messages of the broker.

use super::error::shorten;
use super::{EncodeError, ErrorName, MAX_REPLY, WireError, append, parameters};
use serde::de::DeserializeOwned;
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// A reply that borrows from the decoder's buffer.
#[derive(Debug, Deserialize)]
pub struct Reply<'a> {
    #[serde(borrow, default)]
    parameters: Option<&'a RawValue>,
    /// More replies to the same call follow.
    #[serde(default)]
    pub continues: bool,
    /// Full name of an error.
    #[serde(borrow, default)]
    pub error: Option<Cow<'a, str>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ErrorParameters {
    message: Option<String>,
    parameter: Option<String>,
    method: Option<String>,
    interface: Option<String>,
}

impl<'a> Reply<'a> {
    /// Parses a message.
    ///
    /// # Errors
    /// When it is not UTF-8, not JSON or not a reply.
    pub fn parse(message: &'a [u8]) -> Result<Reply<'a>, WireError> {
        let text = std::str::from_utf8(message)
            .map_err(|_| WireError::about("message", "the reply is not UTF-8"))?;
        if !text.trim_start().starts_with('{') {
            return Err(WireError::about("message", "the reply is no JSON object"));
        }
        serde_json::from_str(text).map_err(|error| {
            let text = format!("the message is not a reply: {error}");
            WireError::about("message", text)
        })
    }

    /// The parameters as `T`, or the broker's error.
    ///
    /// # Errors
    /// The broker's error, or `InvalidParameter` when the parameters are not a `T`.
    pub fn result<T: DeserializeOwned>(&self) -> Result<T, WireError> {
        let raw = self.parameters.map_or("{}", RawValue::get);
        match &self.error {
            None => parameters::read(raw),
            Some(name) => Err(refusal(name, raw)),
        }
    }
}

fn refusal(wire_name: &str, raw: &str) -> WireError {
    let told: ErrorParameters = parameters::read(raw).unwrap_or_default();
    let name = ErrorName::from_wire(wire_name);
    let shown = shorten(wire_name);
    let message = match (name, told.message) {
        (ErrorName::Other, Some(message)) => format!("{shown}: {message}"),
        (_, Some(message)) => message,
        (_, None) => shown,
    };
    WireError {
        name,
        message,
        subject: told.parameter.or(told.method).or(told.interface),
    }
}

#[derive(Serialize)]
struct Outgoing<'a, P> {
    parameters: &'a P,
    #[serde(skip_serializing_if = "is_false")]
    continues: bool,
}

fn is_false(flag: &bool) -> bool {
    !flag
}

/// Appends a reply to `out`; `continues` when more replies to the same call follow.
///
/// # Errors
/// When it would be longer than [`MAX_REPLY`]; then `out` is unchanged.
pub fn encode_reply<P: Serialize>(
    out: &mut Vec<u8>,
    parameters: &P,
    continues: bool,
) -> Result<(), EncodeError> {
    let reply = Outgoing {
        parameters,
        continues,
    };
    append(out, &reply, MAX_REPLY)
}

#[derive(Serialize)]
struct Refused<'a> {
    error: &'static str,
    parameters: Told<'a>,
}

struct Told<'a>(&'a WireError);

impl Serialize for Told<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if let (Some(field), Some(subject)) = (self.0.name.subject_field(), &self.0.subject) {
            map.serialize_entry(field, subject)?;
        }
        map.serialize_entry("message", &self.0.message)?;
        map.end()
    }
}

/// Appends an error reply to `out`. Errors of `org.varlink.service` carry `message` beside the
/// parameter that the interface declares.
pub fn encode_error(out: &mut Vec<u8>, error: &WireError) {
    let refused = Refused {
        error: error.name.as_str(),
        parameters: Told(error),
    };
    if append(out, &refused, MAX_REPLY).is_err() {
        out.extend_from_slice(b"{\"error\":\"io.plimsoll.Failed\"}\0");
    }
}
