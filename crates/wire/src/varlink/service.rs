//! `org.varlink.service`: what every Varlink service answers about itself.

use super::WireError;
use serde::{Deserialize, Serialize};

/// The interface's name.
pub const INTERFACE: &str = "org.varlink.service";
/// Full name of the method that answers [`Info`].
pub const GET_INFO: &str = "org.varlink.service.GetInfo";
/// Full name of the method that answers [`Description`] to [`Interface`].
pub const GET_INTERFACE_DESCRIPTION: &str = "org.varlink.service.GetInterfaceDescription";

/// The interface that every Varlink service has, as <https://varlink.org/Service> declares it.
pub const DESCRIPTION: &str = include_str!("org.varlink.service.varlink");

/// Reply to `GetInfo`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Info {
    /// Who makes it.
    pub vendor: String,
    /// What it is.
    pub product: String,
    /// Its version.
    pub version: String,
    /// Where to read about it.
    pub url: String,
    /// What it speaks.
    pub interfaces: Vec<String>,
}

/// Parameters of `GetInterfaceDescription`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interface {
    /// Its name.
    pub interface: String,
}

/// Reply to `GetInterfaceDescription`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Description {
    /// The interface file.
    pub description: String,
}

/// What a broker of this version says about itself.
pub fn info(version: &str) -> Info {
    Info {
        vendor: "Plimsoll".to_owned(),
        product: "plimsolld".to_owned(),
        version: version.to_owned(),
        url: String::new(),
        interfaces: vec![INTERFACE.to_owned(), super::INTERFACE.to_owned()],
    }
}

/// The interface file of that name.
///
/// # Errors
/// `InterfaceNotFound`.
pub fn describe(asked: &Interface) -> Result<Description, WireError> {
    let description = match asked.interface.as_str() {
        INTERFACE => DESCRIPTION,
        super::INTERFACE => super::DESCRIPTION,
        other => return Err(WireError::unknown_interface(other)),
    };
    Ok(Description {
        description: description.to_owned(),
    })
}
