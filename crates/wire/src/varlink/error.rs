//! The errors that a broker returns.

/// The name of an error, as declared in `io.plimsoll.varlink` and `org.varlink.service`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorName {
    /// No principal has this id.
    NoSuchPrincipal,
    /// No process has this id, or it is not the process that was meant.
    NoSuchProcess,
    /// A name that is empty, too long or not printable, or an invalid name of an adapter.
    BadName,
    /// A weight that is not 1 to 10000.
    BadWeight,
    /// A priority that is not -100 to 100.
    BadPriority,
    /// A maximum outside the valid range.
    BadMax,
    /// A cgroup that does not exist or cannot be read.
    BadCgroup,
    /// A principal cannot move under one of its own descendants.
    Cycle,
    /// The tree would be too deep.
    TooDeep,
    /// There are as many as the configuration allows.
    TooMany,
    /// The caller may not do this to that process or principal.
    NotPermitted,
    /// This connection already has a principal.
    AlreadyRegistered,
    /// The broker could not do it (for example a full disk or an unreadable file).
    Failed,
    /// `org.varlink.service`: no such interface here.
    InterfaceNotFound,
    /// `org.varlink.service`: the interface has no such method.
    MethodNotFound,
    /// `org.varlink.service`: the method is declared but not served.
    MethodNotImplemented,
    /// `org.varlink.service`: a parameter that is missing, unknown or of the wrong type.
    InvalidParameter,
    /// `org.varlink.service`: the method only answers calls with `more`.
    ExpectedMore,
    /// An error of a newer broker, whose name is in the message. Never sent.
    Other,
}

impl ErrorName {
    /// All errors that may be sent.
    pub const ALL: [ErrorName; 18] = [
        ErrorName::NoSuchPrincipal,
        ErrorName::NoSuchProcess,
        ErrorName::BadName,
        ErrorName::BadWeight,
        ErrorName::BadPriority,
        ErrorName::BadMax,
        ErrorName::BadCgroup,
        ErrorName::Cycle,
        ErrorName::TooDeep,
        ErrorName::TooMany,
        ErrorName::NotPermitted,
        ErrorName::AlreadyRegistered,
        ErrorName::Failed,
        ErrorName::InterfaceNotFound,
        ErrorName::MethodNotFound,
        ErrorName::MethodNotImplemented,
        ErrorName::InvalidParameter,
        ErrorName::ExpectedMore,
    ];

    /// The full name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            ErrorName::NoSuchPrincipal => "io.plimsoll.NoSuchPrincipal",
            ErrorName::NoSuchProcess => "io.plimsoll.NoSuchProcess",
            ErrorName::BadName => "io.plimsoll.BadName",
            ErrorName::BadWeight => "io.plimsoll.BadWeight",
            ErrorName::BadPriority => "io.plimsoll.BadPriority",
            ErrorName::BadMax => "io.plimsoll.BadMax",
            ErrorName::BadCgroup => "io.plimsoll.BadCgroup",
            ErrorName::Cycle => "io.plimsoll.Cycle",
            ErrorName::TooDeep => "io.plimsoll.TooDeep",
            ErrorName::TooMany => "io.plimsoll.TooMany",
            ErrorName::NotPermitted => "io.plimsoll.NotPermitted",
            ErrorName::AlreadyRegistered => "io.plimsoll.AlreadyRegistered",
            ErrorName::Failed => "io.plimsoll.Failed",
            ErrorName::InterfaceNotFound => "org.varlink.service.InterfaceNotFound",
            ErrorName::MethodNotFound => "org.varlink.service.MethodNotFound",
            ErrorName::MethodNotImplemented => "org.varlink.service.MethodNotImplemented",
            ErrorName::InvalidParameter => "org.varlink.service.InvalidParameter",
            ErrorName::ExpectedMore => "org.varlink.service.ExpectedMore",
            ErrorName::Other => "io.plimsoll.Failed",
        }
    }

    /// The error with that full name; [`ErrorName::Other`] for an unknown name.
    pub fn from_wire(name: &str) -> ErrorName {
        let known = ErrorName::ALL.into_iter().find(|e| e.as_str() == name);
        known.unwrap_or(ErrorName::Other)
    }

    /// Name of the field for the subject of the error, as `org.varlink.service` declares it, if
    /// any.
    pub(super) fn subject_field(self) -> Option<&'static str> {
        match self {
            ErrorName::InterfaceNotFound => Some("interface"),
            ErrorName::MethodNotFound | ErrorName::MethodNotImplemented => Some("method"),
            ErrorName::InvalidParameter => Some("parameter"),
            _ => None,
        }
    }
}

/// An error as it crosses the wire: a name for programs, a message for people that says what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct WireError {
    /// Name of the error.
    pub name: ErrorName,
    /// For people: what happened, to which thing, and what to do.
    pub message: String,
    /// The interface, method or parameter that an `org.varlink.service` error is about.
    pub subject: Option<String>,
}

impl WireError {
    /// An error of `io.plimsoll`.
    pub fn new(name: ErrorName, message: impl Into<String>) -> WireError {
        WireError {
            name,
            message: message.into(),
            subject: None,
        }
    }

    /// A parameter that is missing, unknown, of the wrong type or out of range.
    pub fn about(parameter: &str, message: impl Into<String>) -> WireError {
        WireError {
            name: ErrorName::InvalidParameter,
            message: message.into(),
            subject: Some(parameter.to_owned()),
        }
    }

    /// The error for an unknown method, of a known interface or not.
    pub fn unknown_method(method: &str) -> WireError {
        let (interface, _) = method.rsplit_once('.').unwrap_or((method, ""));
        let served = [super::INTERFACE, super::service::INTERFACE].contains(&interface);
        let shown = shorten(method);
        if served {
            WireError {
                name: ErrorName::MethodNotFound,
                message: format!("there is no method {shown}; GetInterfaceDescription lists them"),
                subject: Some(shown),
            }
        } else {
            WireError::unknown_interface(interface)
        }
    }

    /// The error for an unknown interface.
    pub fn unknown_interface(interface: &str) -> WireError {
        let shown = shorten(interface);
        WireError {
            name: ErrorName::InterfaceNotFound,
            message: format!("there is no interface {shown} here; GetInfo lists them"),
            subject: Some(shown),
        }
    }

    /// The error for a method with several replies that was called without `more`.
    pub fn expected_more(method: &str) -> WireError {
        let message = format!("{method} answers more than once: set \"more\": true in the call");
        WireError::new(ErrorName::ExpectedMore, message)
    }
}

/// Makes foreign text short and printable, for use in a message.
pub(super) fn shorten(text: &str) -> String {
    let mut shown: String = text.chars().take(80).flat_map(char::escape_debug).collect();
    if text.chars().nth(80).is_some() {
        shown.push('…');
    }
    shown
}
