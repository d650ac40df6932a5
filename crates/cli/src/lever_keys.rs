//! The options of levers as keys of a table in a file, beside the table's own keys.

use crate::args::LeverOptions;
use plimsoll_runtimes::lever_options::LeverOption;
use serde::de::{DeserializeSeed, Deserializer, Error, IntoDeserializer, MapAccess};

/// A table without the keys that name options of levers, which go to `given`. Errors are told with the place
/// of the key or value, as those of the table's own keys.
pub(crate) struct OwnKeys<'a, M> {
    /// The whole table.
    pub(crate) table: M,
    /// The values of options.
    pub(crate) given: &'a mut LeverOptions,
}

impl<'de, M: MapAccess<'de>> MapAccess<'de> for OwnKeys<'_, M> {
    type Error = M::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        own: K,
    ) -> Result<Option<K::Value>, M::Error> {
        let mut own = own;
        loop {
            match self.table.next_key_seed(KeySeed(own))? {
                None => return Ok(None),
                Some(Key::Own(key)) => return Ok(Some(key)),
                Some(Key::Option(option, seed)) => {
                    let given = &mut *self.given;
                    self.table.next_value_seed(ValueSeed { option, given })?;
                    own = seed;
                }
            }
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, M::Error> {
        self.table.next_value_seed(seed)
    }
}

struct KeySeed<K>(K);

enum Key<V, K> {
    Own(V),
    /// An option, and the seed that was not used.
    Option(&'static LeverOption, K),
}

impl<'de, K: DeserializeSeed<'de>> DeserializeSeed<'de> for KeySeed<K> {
    type Value = Key<K::Value, K>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        let name = <String as serde::Deserialize>::deserialize(from)?;
        match LeverOptions::named(&name) {
            Some(option) => Ok(Key::Option(option, self.0)),
            None => {
                let own = self.0.deserialize(name.into_deserializer());
                own.map(Key::Own).map_err(|error: D::Error| {
                    let names = LeverOptions::names().join("`, `");
                    D::Error::custom(format!("{}, `{names}`", error.to_string().trim_end()))
                })
            }
        }
    }
}

struct ValueSeed<'a> {
    option: &'static LeverOption,
    given: &'a mut LeverOptions,
}

impl<'de> DeserializeSeed<'de> for ValueSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        let value = <String as serde::Deserialize>::deserialize(from)?;
        let taken = self.given.0.give(self.option, &value);
        taken.map_err(D::Error::custom)
    }
}
