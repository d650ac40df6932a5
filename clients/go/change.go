package plimsoll

import (
	"context"
	"errors"
	"time"
)

// onceMore is the pause between two calls without news while memory is owed.
const onceMore = time.Second

// OnChange calls a function once at the start, at each change, and each second while memory is owed, on a
// goroutine of its own. It frees what is owed and nothing more: the limit is that of the whole program, and
// what is owed is the part of its use that is above. It returns how many bytes it freed ([FreeMemory] counts
// them); the broker is told, and they are not owed any more. Each OnChange hears of every change; a
// [Principal.Wait] beside it loses none.
//
// The calls end with stop, which waits for the last one, or with Close. The function must not call either.
func (p *Principal) OnChange(change func(Reading) (freed uint64)) (stop func()) {
	ctx, cancel := context.WithCancel(p.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.callAtChanges(ctx, change)
	}()
	return func() {
		cancel()
		<-done
	}
}

func (p *Principal) callAtChanges(ctx context.Context, change func(Reading) uint64) {
	p.mu.Lock()
	before := p.settled()
	p.mu.Unlock()
	p.Released(change(p.Read()))
	for ctx.Err() == nil {
		within, cancel := ctx, context.CancelFunc(func() {})
		if p.Read().Owed > 0 {
			within, cancel = context.WithTimeout(ctx, onceMore)
		}
		_, err := p.wait(within, &before)
		cancel()
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return
		}
		// Memory may have been given back since the event, so read again.
		p.Released(change(p.Read()))
	}
}
