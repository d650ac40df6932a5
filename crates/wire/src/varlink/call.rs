//! Calls: what a client sends.

use super::error::shorten;
use super::{EncodeError, INTERFACE, MAX_MESSAGE, WireError, append, parameters};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// The methods of `io.plimsoll`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// Makes the connection the life of a new principal.
    Register,
    /// Gives a principal its process.
    Attach,
    /// Tells who steers a principal from now on.
    Adapt,
    /// Tells what an adapter knows of its program.
    Report,
    /// Answers at each change of a principal's numbers.
    Subscribe,
    /// Tells that bytes were given back.
    Released,
    /// Changes a principal.
    Set,
    /// Shows all principals.
    List,
    /// Shows all principals again and again.
    Watch,
    /// Reads the configuration again.
    Reload,
}

impl Method {
    /// All of them.
    pub const ALL: [Method; 10] = [
        Method::Register,
        Method::Attach,
        Method::Adapt,
        Method::Report,
        Method::Subscribe,
        Method::Released,
        Method::Set,
        Method::List,
        Method::Watch,
        Method::Reload,
    ];

    /// The full name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Method::Register => "io.plimsoll.Register",
            Method::Attach => "io.plimsoll.Attach",
            Method::Adapt => "io.plimsoll.Adapt",
            Method::Report => "io.plimsoll.Report",
            Method::Subscribe => "io.plimsoll.Subscribe",
            Method::Released => "io.plimsoll.Released",
            Method::Set => "io.plimsoll.Set",
            Method::List => "io.plimsoll.List",
            Method::Watch => "io.plimsoll.Watch",
            Method::Reload => "io.plimsoll.Reload",
        }
    }

    /// The method of that full name.
    pub fn from_wire(name: &str) -> Option<Method> {
        let short = name.strip_prefix(INTERFACE)?.strip_prefix('.')?;
        Method::ALL
            .into_iter()
            .find(|method| method.as_str()[INTERFACE.len() + 1..] == *short)
    }

    /// Whether it answers again and again, and so has to be called with `more`.
    pub fn wants_more(self) -> bool {
        matches!(self, Method::Subscribe | Method::Watch)
    }
}

/// How many answers a caller wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// One.
    #[default]
    Once,
    /// As many as there will be.
    More,
    /// None.
    Oneway,
}

/// A call, looked at where it lies in the decoder's buffer.
#[derive(Debug, Deserialize)]
pub struct Call<'a> {
    /// Full name: interface, dot, method.
    #[serde(borrow)]
    pub method: Cow<'a, str>,
    /// A JSON object, unread.
    #[serde(borrow, default)]
    parameters: Option<&'a RawValue>,
    /// Wants more than one answer.
    #[serde(default)]
    pub more: bool,
    /// Wants no answer.
    #[serde(default)]
    pub oneway: bool,
    /// Wants to speak another protocol afterwards; never granted.
    #[serde(default)]
    pub upgrade: bool,
}

impl<'a> Call<'a> {
    /// Looks into a message.
    ///
    /// # Errors
    /// `InvalidParameter` when it is not UTF-8, not JSON, too deeply nested or not a call; whoever
    /// sends such a thing is answered and cut off.
    pub fn parse(message: &'a [u8]) -> Result<Call<'a>, WireError> {
        let text = std::str::from_utf8(message).map_err(|error| {
            WireError::about(
                "message",
                format!("the message is not UTF-8 at byte {}", error.valid_up_to()),
            )
        })?;
        if !text.trim_start().starts_with('{') {
            return Err(WireError::about(
                "message",
                "the message is not a JSON object",
            ));
        }
        serde_json::from_str(text).map_err(|error| {
            let text = format!("the message is not a call: {}", shorten(&error.to_string()));
            WireError::about("message", text)
        })
    }

    /// The parameters as `T`; absent ones are an empty object.
    ///
    /// # Errors
    /// Names the field that is missing, unknown or wrong.
    pub fn parameters<T: DeserializeOwned>(&self) -> Result<T, WireError> {
        parameters::read(self.parameters.map_or("{}", RawValue::get))
    }
}

#[derive(Serialize)]
struct Outgoing<'a, P> {
    method: &'a str,
    parameters: &'a P,
    #[serde(skip_serializing_if = "is_false")]
    more: bool,
    #[serde(skip_serializing_if = "is_false")]
    oneway: bool,
}

fn is_false(flag: &bool) -> bool {
    !flag
}

/// Appends a call to `out`. `parameters` has to be a struct or a map (`&()` is not one; give
/// [`crate::messages::Nothing`]).
///
/// # Errors
/// It would be longer than [`MAX_MESSAGE`]; then `out` is as it was.
pub fn encode_call<P: Serialize>(
    out: &mut Vec<u8>,
    method: &str,
    parameters: &P,
    mode: Mode,
) -> Result<(), EncodeError> {
    let call = Outgoing {
        method,
        parameters,
        more: mode == Mode::More,
        oneway: mode == Mode::Oneway,
    };
    append(out, &call, MAX_MESSAGE)
}
