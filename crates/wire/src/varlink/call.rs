//! Calls: the messages of a client.

use super::error::shorten;
use super::{EncodeError, INTERFACE, MAX_MESSAGE, WireError, append, parameters};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// The methods of `io.plimsoll`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// Makes a new principal that lives as long as the connection.
    Register,
    /// Gives a principal its process.
    Attach,
    /// Names the cgroup of a principal.
    Contain,
    /// Sets the adapter of a principal.
    Adapt,
    /// Reports an adapter's knowledge of its program.
    Report,
    /// Sends a reply at each change of a principal's numbers.
    Subscribe,
    /// Reports that bytes were given back.
    Released,
    /// Changes a principal.
    Set,
    /// Lists all principals.
    List,
    /// Lists all principals repeatedly.
    Watch,
    /// Reads the configuration again.
    Reload,
}

impl Method {
    /// All of them.
    pub const ALL: [Method; 11] = [
        Method::Register,
        Method::Attach,
        Method::Contain,
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
            Method::Contain => "io.plimsoll.Contain",
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

    /// The method with that full name.
    pub fn from_wire(name: &str) -> Option<Method> {
        let short = name.strip_prefix(INTERFACE)?.strip_prefix('.')?;
        Method::ALL
            .into_iter()
            .find(|method| method.as_str()[INTERFACE.len() + 1..] == *short)
    }
}

/// How many replies a caller wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// One.
    #[default]
    Once,
    /// All replies.
    More,
    /// None.
    Oneway,
}

/// A call that borrows from the decoder's buffer.
#[derive(Debug, Deserialize)]
pub struct Call<'a> {
    /// Full name: interface, dot, method.
    #[serde(borrow)]
    pub method: Cow<'a, str>,
    /// A JSON object, not parsed yet.
    #[serde(borrow, default)]
    parameters: Option<&'a RawValue>,
    /// The caller wants more than one reply.
    #[serde(default)]
    pub more: bool,
    /// The caller wants no reply.
    #[serde(default)]
    pub oneway: bool,
    /// The caller wants to switch to another protocol; never granted.
    #[serde(default)]
    pub upgrade: bool,
}

impl<'a> Call<'a> {
    /// Parses a message.
    ///
    /// # Errors
    /// `InvalidParameter` when it is not UTF-8, not JSON, too deeply nested or not a call. The
    /// sender of such a message gets the error and is cut off.
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
    /// An error that names the missing, unknown or invalid field.
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

/// Appends a call to `out`. `parameters` must be a struct or a map; for none give
/// [`crate::messages::Nothing`], because `&()` is neither.
///
/// # Errors
/// When it would be longer than [`MAX_MESSAGE`]; then `out` is unchanged.
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
