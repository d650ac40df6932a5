//! The entries, and what was evicted lately.

use plimsoll_client::{Bytes, Ghost, Nanos};
use plimsoll_unit::MIB;
use quick_cache::sync::Cache;
use quick_cache::{Lifecycle, Weighter};
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Tells the bytes of an entry.
pub(crate) type Weight<K, V> = Arc<dyn Fn(&K, &V) -> u64 + Send + Sync>;

/// Bytes that the cache itself takes for an entry, about.
const OVERHEAD: u64 = 64;
/// Bytes that a new cache may have.
const FIRST: u64 = 16 * MIB;

/// Weighs entries by their bytes.
pub(crate) struct Weigh<K, V>(Weight<K, V>);

impl<K, V> Clone for Weigh<K, V> {
    fn clone(&self) -> Weigh<K, V> {
        Weigh(Arc::clone(&self.0))
    }
}

impl<K, V> Weighter<K, V> for Weigh<K, V> {
    fn weight(&self, key: &K, value: &V) -> u64 {
        (self.0)(key, value).saturating_add(OVERHEAD)
    }
}

/// The ghost list, told of each eviction.
#[derive(Debug)]
struct Evicted {
    ghost: Mutex<Ghost>,
    /// When it was made: its time begins there.
    made: Instant,
    hash: RandomState,
    /// Bytes that the entries may have.
    capacity: AtomicU64,
}

impl Evicted {
    fn with<T>(&self, work: impl FnOnce(&mut Ghost) -> T) -> T {
        work(&mut self.ghost.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Tells the ghost list of an eviction. Entries are not dropped while a part is locked.
pub(crate) struct Evicts<K, V> {
    evicted: Arc<Evicted>,
    weigh: Weigh<K, V>,
}

impl<K, V> Clone for Evicts<K, V> {
    fn clone(&self) -> Evicts<K, V> {
        Evicts {
            evicted: Arc::clone(&self.evicted),
            weigh: self.weigh.clone(),
        }
    }
}

impl<K: Hash, V> Lifecycle<K, V> for Evicts<K, V> {
    type RequestState = Vec<(K, V)>;

    fn begin_request(&self) -> Vec<(K, V)> {
        Vec::new()
    }

    fn on_evict(&self, state: &mut Vec<(K, V)>, key: K, value: V) {
        state.push((key, value));
    }

    fn end_request(&self, state: Vec<(K, V)>) {
        let evicted = &self.evicted;
        let left = evicted.capacity.load(Ordering::Relaxed);
        for (key, value) in &state {
            let bytes = self.weigh.weight(key, value);
            let hash = evicted.hash.hash_one(key);
            evicted.with(|ghost| ghost.evicted(hash, Bytes(bytes), Bytes(left)));
        }
    }
}

/// The entries of a cache.
pub(crate) struct Entries<K, V> {
    cache: Cache<K, V, Weigh<K, V>, RandomState, Evicts<K, V>>,
    evicted: Arc<Evicted>,
}

impl<K: Eq + Hash, V: Clone> Entries<K, V> {
    /// None yet. About as many are `expected`.
    pub(crate) fn new(expected: usize, bytes: Weight<K, V>) -> Entries<K, V> {
        let evicted = Arc::new(Evicted {
            ghost: Mutex::new(Ghost::new(Nanos::ZERO)),
            made: Instant::now(),
            hash: RandomState::new(),
            capacity: AtomicU64::new(FIRST),
        });
        let weigh = Weigh(bytes);
        let evicts = Evicts {
            evicted: Arc::clone(&evicted),
            weigh: weigh.clone(),
        };
        Entries {
            cache: Cache::with(expected, FIRST, weigh, RandomState::new(), evicts),
            evicted,
        }
    }

    pub(crate) fn get(&self, key: &K) -> Option<V> {
        self.cache.get(key)
    }

    pub(crate) fn insert(&self, key: K, value: V) {
        self.cache.insert(key, value);
    }

    pub(crate) fn remove(&self, key: &K) {
        self.cache.remove(key);
    }

    /// Making the value of a key took this long.
    pub(crate) fn missed(&self, key: &K, took: Duration) {
        let hash = self.evicted.hash.hash_one(key);
        self.evicted
            .with(|ghost| ghost.missed(hash, Nanos::from(took)));
    }
}

/// The size of a cache, whatever it has in it.
pub(crate) trait Resizable: Send + Sync {
    /// Bytes of its entries.
    fn size(&self) -> u64;
    /// Bytes that its entries may have.
    fn capacity(&self) -> u64;
    /// Sets these; what is above is evicted.
    fn resize(&self, capacity: u64);
    /// The worth of one more MiB, nanoseconds per second; `None` in the first second.
    fn worth(&self) -> Option<u64>;
}

impl<K: Eq + Hash + Send + Sync, V: Clone + Send + Sync> Resizable for Entries<K, V> {
    fn size(&self) -> u64 {
        self.cache.weight()
    }

    fn capacity(&self) -> u64 {
        self.evicted.capacity.load(Ordering::Relaxed)
    }

    fn resize(&self, capacity: u64) {
        self.evicted.capacity.store(capacity, Ordering::Relaxed);
        self.cache.set_capacity(capacity);
    }

    fn worth(&self) -> Option<u64> {
        let now = Nanos::from(self.evicted.made.elapsed());
        self.evicted.with(|ghost| ghost.worth(now))
    }
}
