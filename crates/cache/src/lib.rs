//! A cache whose size follows the memory that is really there: it grows while its program may use more, gives
//! back what the program owes, and tells the broker what more memory would be worth.
//!
//! The entries are in `quick_cache`, which many threads use at once and which keeps what is used most.
//!
//! ```no_run
//! use plimsoll_cache::Cache;
//!
//! let pictures = Cache::builder("pictures", |_: &u64, picture: &Vec<u8>| picture.len() as u64)
//!     .weight(50)
//!     .open()?;
//! let picture = pictures.get_or_insert_with(&7, || vec![0; 1 << 20]);
//! # assert_eq!(picture.len(), 1 << 20);
//! # Ok::<(), plimsoll_client::Error>(())
//! ```
//!
//! # Map
//! | module | is |
//! |---|---|
//! | `entries` | the entries, and what was evicted lately |
//! | `follow` | the size that the cache may have now; the thread that sets it |

mod entries;
mod follow;

use entries::{Entries, Resizable};
use follow::Follower;
use plimsoll_client::{Builder as Principal, Result};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Instant;

/// The cache. Clones are the same cache; the last one that is dropped ends its principal.
pub struct Cache<K, V> {
    entries: Arc<Entries<K, V>>,
    follower: Arc<Follower>,
}

impl<K, V> Clone for Cache<K, V> {
    fn clone(&self) -> Cache<K, V> {
        Cache {
            entries: Arc::clone(&self.entries),
            follower: Arc::clone(&self.follower),
        }
    }
}

impl<K, V> std::fmt::Debug for Cache<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cache").finish_non_exhaustive()
    }
}

impl<K, V> Cache<K, V>
where
    K: Eq + Hash + Clone + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    /// Begins to make one. `name`: of its principal, 1 to 64 bytes of printable UTF-8. `bytes`: the memory
    /// that an entry takes, without the cache's own tables; it must say the same each time.
    pub fn builder(
        name: &str,
        bytes: impl Fn(&K, &V) -> u64 + Send + Sync + 'static,
    ) -> Builder<K, V> {
        Builder {
            principal: plimsoll_client::Principal::builder(name).adapter("self"),
            bytes: Arc::new(bytes),
            expected: 10_000,
            most: u64::MAX,
        }
    }

    /// The value of a key, if it is cached. Values are cloned: large ones belong into an [`Arc`].
    pub fn get(&self, key: &K) -> Option<V> {
        self.entries.get(key)
    }

    /// The value of a key; made by `make` if it is not cached. Several threads that ask for the same key may
    /// each make it.
    pub fn get_or_insert_with(&self, key: &K, make: impl FnOnce() -> V) -> V {
        self.get(key).unwrap_or_else(|| {
            let begun = Instant::now();
            let value = make();
            self.entries.missed(key, begun.elapsed());
            self.insert(key.clone(), value.clone());
            value
        })
    }

    /// Takes a value in, if there is room or another one is used less.
    pub fn insert(&self, key: K, value: V) {
        self.entries.insert(key, value);
    }

    /// Drops a value that is no longer valid.
    pub fn remove(&self, key: &K) {
        self.entries.remove(key);
    }

    /// Bytes of its entries.
    pub fn size(&self) -> u64 {
        self.entries.size()
    }

    /// Bytes that its entries may have now.
    pub fn capacity(&self) -> u64 {
        self.entries.capacity()
    }

    /// Nanoseconds per second that one more MiB would have saved it lately; `None` in its first second.
    pub fn worth(&self) -> Option<u64> {
        self.entries.worth()
    }

    /// Its principal: the memory that its program may use.
    pub fn principal(&self) -> &plimsoll_client::Principal {
        self.follower.principal()
    }
}

/// The settings of a cache.
#[must_use]
pub struct Builder<K, V> {
    principal: Principal,
    bytes: entries::Weight<K, V>,
    expected: usize,
    most: u64,
}

impl<K, V> std::fmt::Debug for Builder<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder").finish_non_exhaustive()
    }
}

impl<K, V> Builder<K, V>
where
    K: Eq + Hash + Clone + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    /// Its weight, 1 to 10000. Under `plimsoll run` the user's weight counts.
    pub fn weight(self, weight: u32) -> Builder<K, V> {
        Builder {
            principal: self.principal.weight(weight),
            ..self
        }
    }

    /// About how many entries it will have. Where they are few and large, say so: it is divided into parts
    /// that lock apart, and no entry can be larger than a part.
    pub fn expected(self, entries: usize) -> Builder<K, V> {
        Builder {
            expected: entries,
            ..self
        }
    }

    /// Bytes that it never exceeds, and reports as its demand.
    pub fn most(self, bytes: u64) -> Builder<K, V> {
        Builder {
            most: bytes,
            ..self
        }
    }

    /// Other settings of its principal: its socket, for example.
    pub fn principal(self, change: impl FnOnce(Principal) -> Principal) -> Builder<K, V> {
        Builder {
            principal: change(self.principal),
            ..self
        }
    }

    /// Makes the cache. Without a broker it follows the machine and its cgroup, and joins a broker that
    /// appears.
    ///
    /// # Errors
    /// If the name or a setting cannot be, the broker refuses, or the kernel gives no thread.
    pub fn open(self) -> Result<Cache<K, V>> {
        let principal = Arc::new(self.principal.open()?);
        let entries = Arc::new(Entries::new(self.expected, self.bytes));
        let theirs = Arc::clone(&entries);
        let follower = Follower::start(principal, self.most, theirs)?;
        Ok(Cache {
            entries,
            follower: Arc::new(follower),
        })
    }
}
