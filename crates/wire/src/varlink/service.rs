//! `org.varlink.service`: the interface by which every Varlink service describes itself.

use super::WireError;
use serde::{Deserialize, Serialize};

/// The interface's name.
pub const INTERFACE: &str = "org.varlink.service";
/// Full name of the method that returns [`Info`].
pub const GET_INFO: &str = "org.varlink.service.GetInfo";
/// Full name of the method that returns [`Description`] for an [`Interface`].
pub const GET_INTERFACE_DESCRIPTION: &str = "org.varlink.service.GetInterfaceDescription";

/// The interface that every Varlink service has, as <https://varlink.org/Service> declares it.
pub const DESCRIPTION: &str = include_str!("org.varlink.service.varlink");

/// Reply to `GetInfo`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Info {
    /// The vendor.
    pub vendor: String,
    /// Name of the product.
    pub product: String,
    /// Its version.
    pub version: String,
    /// Address of its documentation.
    pub url: String,
    /// Names of its interfaces.
    pub interfaces: Vec<String>,
}

/// Parameters of `GetInterfaceDescription`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interface {
    /// Name of the interface.
    pub interface: String,
}

/// Reply to `GetInterfaceDescription`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Description {
    /// The interface file.
    pub description: String,
}

/// The description of a broker of this version.
pub fn info(version: &str) -> Info {
    Info {
        vendor: "Plimsoll".to_owned(),
        product: "plimsolld".to_owned(),
        version: version.to_owned(),
        url: String::new(),
        interfaces: vec![INTERFACE.to_owned(), super::INTERFACE.to_owned()],
    }
}

/// The interface file with that name.
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
