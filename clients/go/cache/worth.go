package cache

import (
	"context"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"
	"plimsoll"
)

// evicted are the keys that went lately to make room.
type evicted[K comparable] struct {
	begun   time.Time
	seed    maphash.Seed
	most    uint64        // the most that the cache can make use of; 0: as much as it may have
	maximum atomic.Uint64 // what it may have now

	mu    sync.Mutex
	ghost *plimsoll.Ghost
}

func newEvicted[K comparable](maximum, most uint64) *evicted[K] {
	e := &evicted[K]{begun: time.Now(), seed: maphash.MakeSeed(), most: most, ghost: plimsoll.NewGhost(0)}
	e.maximum.Store(maximum)
	return e
}

// add takes an entry that went. A cache at its most would not keep it with more memory either.
func (e *evicted[K]) add(key K, weight uint32) {
	maximum := e.maximum.Load()
	if e.most > 0 && maximum >= e.most {
		return
	}
	hash := maphash.Comparable(e.seed, key)
	e.mu.Lock()
	e.ghost.Evicted(hash, uint64(weight), maximum)
	e.mu.Unlock()
}

// Missed tells that a value was not there, and that making it took this long, for programs that do not use
// loaders: Get and BulkGet tell it themselves.
func (c *Cache[K, V]) Missed(key K, took time.Duration) {
	hash := maphash.Comparable(c.evicted.seed, key)
	c.evicted.mu.Lock()
	c.evicted.ghost.Missed(hash, took)
	c.evicted.mu.Unlock()
}

// Worth returns the nanoseconds per second that one more MiB would have saved lately; false in the first
// second.
func (c *Cache[K, V]) Worth() (worth uint64, ok bool) {
	c.evicted.mu.Lock()
	defer c.evicted.mu.Unlock()
	return c.evicted.ghost.Worth(time.Since(c.evicted.begun))
}

// Get is [otter.Cache.Get], and measures the loader.
func (c *Cache[K, V]) Get(ctx context.Context, key K, loader otter.Loader[K, V]) (V, error) {
	return c.Cache.Get(ctx, key, measured[K, V]{loader, c})
}

// BulkGet is [otter.Cache.BulkGet], and measures the loader.
func (c *Cache[K, V]) BulkGet(ctx context.Context, keys []K, loader otter.BulkLoader[K, V]) (map[K]V, error) {
	return c.Cache.BulkGet(ctx, keys, bulkMeasured[K, V]{loader, c})
}

// measured is a loader that tells the cost of its misses. A failed load would not be saved by more memory.
type measured[K comparable, V any] struct {
	otter.Loader[K, V]
	cache *Cache[K, V]
}

func (m measured[K, V]) Load(ctx context.Context, key K) (V, error) {
	began := time.Now()
	value, err := m.Loader.Load(ctx, key)
	if err == nil {
		m.cache.Missed(key, time.Since(began))
	}
	return value, err
}

type bulkMeasured[K comparable, V any] struct {
	otter.BulkLoader[K, V]
	cache *Cache[K, V]
}

// BulkLoad counts for each value its part of the time.
func (m bulkMeasured[K, V]) BulkLoad(ctx context.Context, keys []K) (map[K]V, error) {
	began := time.Now()
	values, err := m.BulkLoader.BulkLoad(ctx, keys)
	if err == nil {
		each := time.Since(began) / time.Duration(max(len(values), 1))
		for key := range values {
			m.cache.Missed(key, each)
		}
	}
	return values, err
}
