//! Types that are checked while they are read. A message with an invalid value is refused on
//! arrival, so no handler can forget the check. The rules are those of [`crate::checks`].

use crate::checks;
use crate::varlink::{WireError, marked};
use serde::{Deserialize, Deserializer, Serialize};

macro_rules! checked_text {
    ($(#[$documentation:meta])* $name:ident, $check:path) => {
        $(#[$documentation])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// Checks the text and takes it.
            ///
            /// # Errors
            /// As the check of this kind in [`crate::checks`].
            pub fn new(text: impl Into<String>) -> Result<$name, WireError> {
                let text = text.into();
                $check(&text)?;
                Ok($name(text))
            }
        }

        impl std::ops::Deref for $name {
            type Target = str;

            fn deref(&self) -> &str {
                &self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl From<$name> for String {
            fn from(text: $name) -> String {
                text.0
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$name, D::Error> {
                $name::new(String::deserialize(deserializer)?).map_err(refused)
            }
        }
    };
}

checked_text! {
    /// The name of a principal: 1 to 64 bytes of printable text.
    Name, checks::name
}

checked_text! {
    /// Name of the adapter of a principal: 1 to 32 bytes of `a` to `z`, `0` to `9` and `-`.
    Adapter, checks::adapter
}

checked_text! {
    /// A cgroup's path: absolute below the hierarchy's root, without `..`.
    CgroupPath, checks::cgroup
}

impl Name {
    /// The nearest name, for text that comes from elsewhere; see [`checks::mend_name`].
    #[must_use]
    pub fn mend(text: &str) -> Name {
        Name(checks::mend_name(text))
    }
}

/// `unnamed`.
impl Default for Name {
    fn default() -> Name {
        Name::mend("")
    }
}

/// A failed check as an error of serde.
pub(crate) fn refused<E: serde::de::Error>(error: WireError) -> E {
    E::custom(marked(&error))
}

/// A process number or none.
pub(crate) fn optional_pid<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<u32>, D::Error> {
    let pid = Option::<u32>::deserialize(deserializer)?;
    pid.map_or(Ok(()), checks::pid)
        .map_err(refused::<D::Error>)?;
    Ok(pid)
}

/// A process number.
pub(crate) fn pid<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let pid = u32::deserialize(deserializer)?;
    checks::pid(pid).map_err(refused::<D::Error>)?;
    Ok(pid)
}

/// An interval of `Watch`, milliseconds.
pub(crate) fn interval_ms<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let interval_ms = u64::deserialize(deserializer)?;
    checks::interval_ms(interval_ms).map_err(refused::<D::Error>)?;
    Ok(interval_ms)
}
