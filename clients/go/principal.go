package plimsoll

import (
	"context"
	"sync"
	"sync/atomic"
)

// A Principal is a program to which memory is accounted: registered with a broker, or on its own. All methods
// may be called from any goroutine. It has to be closed.
type Principal struct {
	view   atomic.Pointer[view] // what readers see; set by the watcher
	paidAt atomic.Uint64        // when memory was given back last; numbers that are older need `paid`

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	done   chan struct{} // closed when the watcher has ended
	nudged chan struct{} // wakes the watcher

	controlMu sync.Mutex  // held during a call
	control   *connection // for calls; nil while alone

	mu      sync.Mutex // protects what follows
	wish    wish
	now     told // the present state; set by the watcher
	told    told // the state that Wait told last
	id      uint64
	outbox  outbox
	paid    releases
	err     error         // the last failure with a broker
	changed chan struct{} // closed, and made anew, at each change
}

// view is what readers see. It never changes: the watcher puts another in its place.
type view struct {
	reading Reading  // the numbers, and the source of those on the page
	page    *mapping // the broker's page; nil where there is none
}

// Open registers the process under a name of 1 to 64 bytes of printable text. If it is a principal already,
// because `plimsoll run` started it, that principal is used, and keeps its weight, priority and maximum.
//
// It succeeds without a broker, too; the principal is alone then, until one runs. If a broker hangs, it takes
// a few timeouts. It fails with a [RefusedError] if an option is invalid or the broker refuses.
func Open(name string, options Options) (*Principal, error) {
	return open(name, options, nil)
}

// Child registers a child, which shares what this principal gets and rejoins with it. It is for another
// process that this program started ([Options.PID]) or will start ([Options.NoProcess]). The fields Socket,
// Alone and FromEnvironment are not used. It fails as [Open] does.
func (p *Principal) Child(name string, options Options) (*Principal, error) {
	options.FromEnvironment = false
	return open(name, options, p)
}

func open(name string, options Options, parent *Principal) (*Principal, error) {
	wish, err := options.wish(name, parent)
	if err != nil {
		return nil, err
	}
	p := &Principal{
		done:    make(chan struct{}),
		nudged:  make(chan struct{}, 1),
		changed: make(chan struct{}),
		wish:    wish,
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.view.Store(&view{reading: Reading{Source: SourceLocal}})
	w := &watcher{p: p}
	if err := w.begin(); err != nil {
		p.cancel()
		return nil, err
	}
	go w.run()
	return p, nil
}

// Close ends the registration. It does not wait for the broker. Afterwards Read returns the last numbers, and
// all other calls have no effect or fail with [ErrClosed]. It always returns nil.
func (p *Principal) Close() error {
	p.cancel()
	<-p.done
	return nil
}

// Read returns the present numbers. It takes some nanoseconds, no lock and no system call, and cannot fail.
// Memory that [Principal.Released] told of counts as given back at once; until the broker has seen that,
// reading takes a lock.
func (p *Principal) Read() (reading Reading) {
	switch v := p.view.Load(); {
	case v.page == nil:
		reading = v.reading
	case v.page.read(&reading):
		reading.Source = v.reading.Source
	default:
		reading = p.readSlowly(v.page)
	}
	if p.paidAt.Load() > reading.asOf() {
		p.settle(&reading)
	}
	return reading
}

// settle takes what was given back off numbers that do not show it yet.
func (p *Principal) settle(reading *Reading) {
	p.mu.Lock()
	*reading = p.paid.settle(*reading)
	p.mu.Unlock()
}

// readSlowly returns the last numbers that were told, for a page without any, and wakes the watcher.
func (p *Principal) readSlowly(page *mapping) Reading {
	p.mu.Lock()
	reading := p.now.reading
	p.mu.Unlock()
	if reading.Source == SourceBroker && !page.isPage() {
		reading.Source = SourceStale
		p.nudge()
	}
	return reading
}

// Wait returns the next event. A principal has one stream of them: if several goroutines wait, each event
// goes to one. It fails with the context's error, or with [ErrClosed].
func (p *Principal) Wait(ctx context.Context) (Event, error) {
	return p.wait(ctx, &p.told)
}

// wait waits for a state that differs from the one that was told before, which p.mu protects.
func (p *Principal) wait(ctx context.Context, before *told) (Event, error) {
	for p.ctx.Err() == nil {
		p.mu.Lock()
		now := p.settled()
		kind := now.newsSince(before)
		*before = now // small changes are taken over without an event
		changed := p.changed
		p.mu.Unlock()
		if kind != 0 {
			return Event{kind, now.reading}, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return Event{}, ctx.Err()
		case <-p.ctx.Done():
		}
	}
	return Event{}, ErrClosed
}

// Changed returns a channel that is closed at the next change, for select statements: get it, then Read, then
// receive from it.
func (p *Principal) Changed() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.changed
}

// Report tells what is known about the program. It does not wait: the watcher sends it, and sends it again to
// every new broker.
func (p *Principal) Report(report Report) {
	p.mu.Lock()
	p.outbox.add(report)
	p.mu.Unlock()
	p.nudge()
}

// Released tells that the program has given bytes back. It does not wait. Call it after the memory was freed,
// with the bytes that really were: from then on they are not owed any more, also where the broker has not seen
// it yet. If the broker then finds the memory still in use, it is owed again.
func (p *Principal) Released(bytes uint64) {
	if bytes == 0 {
		return
	}
	p.mu.Lock()
	p.outbox.released = plus(p.outbox.released, bytes)
	now := monotonic()
	p.paid.add(bytes, now, &p.now.reading)
	p.paidAt.Store(now)
	p.announce()
	p.mu.Unlock()
	p.nudge()
}

// MemoryLimit returns the bytes that the program may use now, or [ErrNoBroker]. It has the signature of a
// provider of github.com/KimMachineGun/automemlimit/memlimit.
func (p *Principal) MemoryLimit() (uint64, error) {
	reading := p.Read()
	if reading.Source == SourceLocal || reading.Limit == 0 {
		return 0, ErrNoBroker
	}
	return reading.Limit, nil
}

// ID returns the number of the principal at its broker; false while alone. It changes at a rejoin.
func (p *Principal) ID() (id uint64, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.id, p.now.joined
}

// Err returns why the last try to join, report or release failed; nil after a join.
func (p *Principal) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}
