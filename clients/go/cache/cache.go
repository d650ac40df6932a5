// Package cache has a cache that sizes itself by the limit of its program. It is an [otter.Cache], charged in
// bytes. It grows only while the program uses less than its limit, gives back in steps what is owed, and
// reports its demand, and what more memory would be worth to it. A program follows its limit beside it ([plimsoll.Follow]).
package cache

import (
	"errors"
	"sync"
	"time"

	"github.com/maypok86/otter/v2"
	"plimsoll"
)

const (
	// While the cache is full it looks so often whether it may grow.
	lookWhenFull = 100 * time.Millisecond
	// Otherwise it looks at changes, and so often.
	lookWhenIdle = time.Second
	reportEvery  = time.Second
	// The size with which it starts, bytes.
	firstSize = 1 << 20
)

// A Cache is an otter cache whose maximum follows the limit of a principal. All methods may be called from
// any goroutine. SetMaximum is for the cache itself. It has to be closed.
type Cache[K comparable, V any] struct {
	*otter.Cache[K, V]
	principal *plimsoll.Principal
	sizer     sizer
	evicted   *evicted[K]
	reported  time.Time
	close     sync.Once
	ended     chan struct{}
	done      chan struct{}
}

// New returns a cache for a principal, which stays the caller's. Options.Weigher must return the bytes of an
// entry, with all that its value refers to. Options.MaximumWeight is the most that the cache can make use of,
// bytes; 0: as much as it may have. Options.MaximumSize must be 0.
func New[K comparable, V any](p *plimsoll.Principal, options otter.Options[K, V]) (*Cache[K, V], error) {
	if options.Weigher == nil {
		return nil, errors.New("the cache is charged in bytes: give it a Weigher")
	}
	most := options.MaximumWeight
	options.MaximumWeight = firstSize
	if most > 0 {
		options.MaximumWeight = min(firstSize, most)
	}
	evicted := newEvicted[K](options.MaximumWeight, most)
	weigher, onDeletion := options.Weigher, options.OnAtomicDeletion
	options.OnAtomicDeletion = func(e otter.DeletionEvent[K, V]) {
		if e.Cause == otter.CauseOverflow {
			evicted.add(e.Key, weigher(e.Key, e.Value))
		}
		if onDeletion != nil {
			onDeletion(e)
		}
	}
	inner, err := otter.New(&options)
	if err != nil {
		return nil, err
	}
	c := &Cache[K, V]{
		Cache:     inner,
		principal: p,
		sizer:     sizer{most: most},
		evicted:   evicted,
		ended:     make(chan struct{}),
		done:      make(chan struct{}),
	}
	go c.run()
	return c, nil
}

// Close ends the sizing. The cache keeps its entries and its maximum.
func (c *Cache[K, V]) Close() error {
	c.close.Do(func() { close(c.ended) })
	<-c.done
	return nil
}

func (c *Cache[K, V]) run() {
	defer close(c.done)
	for {
		changed := c.principal.Changed()
		timer := time.NewTimer(c.look())
		select {
		case <-changed:
		case <-timer.C:
		case <-c.ended:
			timer.Stop()
			return
		}
		timer.Stop()
	}
}

// look does one look, and returns the time until the next.
func (c *Cache[K, V]) look() time.Duration {
	now := c.principal.Read()
	if now.Owed > 0 {
		c.giveBack(now)
		now = c.principal.Read()
	}
	c.CleanUp()
	size := c.WeightedSize()
	isFull := c.sizer.isFull(size, c.GetMaximum())
	if now.Owed == 0 {
		c.setMaximum(c.sizer.maximum(now, size, readHeap()))
	}
	if time.Since(c.reported) >= reportEvery {
		report := c.sizer.report(now, size, isFull)
		if worth, ok := c.Worth(); ok {
			report.Worth = &worth
		}
		c.principal.Report(report)
		c.reported = time.Now()
	}
	if isFull {
		return lookWhenFull
	}
	return lookWhenIdle
}

// giveBack drops entries in steps until nothing is owed.
func (c *Cache[K, V]) giveBack(now plimsoll.Reading) {
	step := c.sizer.step(now.Owed)
	for now.Owed > 0 {
		began := time.Now()
		var dropped uint64
		freed := plimsoll.FreeMemory(func() {
			// Another part of the program may have paid meanwhile.
			now = c.principal.Read()
			dropped = c.drop(c.sizer.next(step, now))
		})
		c.sizer.reaction = time.Since(began)
		c.principal.Released(freed)
		if dropped == 0 || freed == 0 {
			return // there is nothing to give, or giving does not help now
		}
		now = c.principal.Read()
	}
}

// drop drops entries of this many bytes, and keeps the cache from growing again.
func (c *Cache[K, V]) drop(bytes uint64) (dropped uint64) {
	c.CleanUp()
	before := c.WeightedSize()
	c.setMaximum(before - min(bytes, before))
	c.CleanUp()
	return before - min(c.WeightedSize(), before)
}

func (c *Cache[K, V]) setMaximum(bytes uint64) {
	c.evicted.maximum.Store(bytes)
	if bytes != c.GetMaximum() {
		c.SetMaximum(bytes)
	}
}
