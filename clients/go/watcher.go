package plimsoll

import (
	"errors"
	"math/rand"
	"time"

	"plimsoll/internal/sense"
)

const (
	// How often the heartbeat is looked at while joined.
	lookEvery = time.Second
	// The first and the longest pause between tries to join.
	firstPause = 50 * time.Millisecond
	lastPause  = 5 * time.Second
	// After a broker is gone: how often to look for a principal that another process registered, before the
	// program registers by itself. Meanwhile `plimsoll run` rejoins, and brings weight and name back.
	mostFinds = 6
	// The least time between two sendings, because a broker bounds the calls of a connection.
	restAfterSending = 5 * time.Millisecond
)

// A watcher keeps a principal's numbers current, on a goroutine of its own. While joined it sleeps until the
// broker tells of a change, the program has something to send, or a second is over. While alone it senses,
// and tries to join with growing pauses.
type watcher struct {
	p         *Principal
	local     local
	bond      *bond // the principal at a broker; nil while alone
	nextTry   time.Time
	pause     time.Duration // after the next failed try; it doubles
	wasJoined bool
	finds     int // tries left to find the principal that another process registered
}

// bond is the principal at a broker.
type bond struct {
	joined
	last   changedReply // the last change
	heard  uint64       // when the broker last gave a sign of life other than on the page
	mapped *mapping     // the page; nil where the numbers come from the stream
	isOld  bool         // the broker does not know the field `worth` of a report
}

// begin makes the first try to join, on the caller's goroutine. Its error is the broker's refusal.
func (w *watcher) begin() error {
	w.pause = firstPause
	w.local.sensor = sense.New(w.p.pid())
	err := w.tryJoin()
	switch {
	case err == nil:
	case isAbsent(err), isUntrusted(err):
		// Where another user took a usual place of ours, there is no broker for us.
		w.sense()
	case isRefusal(err, "NoSuchPrincipal") && w.p.isAnothers():
		// The environment is older than the broker. From now on the principal is looked for by its process.
		w.wasJoined = true
		w.sense()
	default:
		return err
	}
	return nil
}

func (w *watcher) run() {
	defer close(w.p.done)
	for w.p.ctx.Err() == nil {
		w.sleep()
		switch {
		case w.p.ctx.Err() != nil:
		case w.bond != nil:
			w.tend()
		case time.Now().Before(w.nextTry):
			w.sense()
		case w.tryJoin() != nil:
			w.sense()
		}
	}
	w.leave()
	w.p.setAlone(w.p.Read())
}

func (w *watcher) sleep() {
	nudged, length := w.p.nudged, lookEvery
	if w.bond == nil {
		// There is nobody to send anything to.
		nudged, length = nil, min(time.Until(w.nextTry), w.local.interval())
	}
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-nudged:
	case <-timer.C:
	case <-w.p.ctx.Done():
	}
}

// While joined.

func (w *watcher) tend() {
	if err := w.tendBond(); err != nil {
		w.p.setError(err)
		w.part()
	}
}

func (w *watcher) tendBond() error {
	last, fresh, ended := w.bond.stream.take()
	if fresh {
		w.bond.last, w.bond.heard = last, monotonic()
	}
	isGone := w.bond.mapped != nil && !w.bond.mapped.isPage()
	if isGone {
		w.show()
	}
	if fresh || isGone {
		w.takeOver()
	}
	if ended != nil {
		return ended
	}
	if err := w.send(); err != nil {
		return err
	}
	return w.feelPulse()
}

// show lets readers read the broker's page. If that fails they get the numbers from the stream.
func (w *watcher) show() {
	mapped, err := openPage(w.bond.page, w.bond.id)
	if err != nil {
		w.p.setError(err)
	}
	w.bond.mapped = mapped
	w.publish(SourceBroker)
}

// publish is how readers see the numbers.
func (w *watcher) publish(source Source) {
	reading := readingOf(&w.bond.last, monotonic())
	reading.Source = source
	w.p.view.Store(&view{reading, w.bond.mapped})
}

// takeOver passes the broker's last numbers to those who wait, and to readers where there is no page.
func (w *watcher) takeOver() {
	if w.bond.mapped == nil {
		w.publish(SourceBroker)
	}
	w.p.tell(readingOf(&w.bond.last, monotonic()))
}

func (w *watcher) send() error {
	out := w.p.takeOutbox()
	var err error
	if out.released > 0 {
		err = w.call("Released", releasedCall{w.bond.id, out.released}, &nothing{})
	}
	if out.isNew && err == nil {
		err = w.report(out.report)
	}
	if out.isNew || out.released > 0 {
		pause(w.p.ctx, restAfterSending)
	}
	return err
}

// report sends a report. An older broker refuses the whole of it for a field that it does not know.
func (w *watcher) report(report Report) error {
	if w.bond.isOld {
		report.Worth = nil
	}
	if report == (Report{}) {
		return nil
	}
	send := func(c *connection) error { return c.call("Report", reportCall{w.bond.id, report}, &nothing{}) }
	err := w.p.call(send)
	var refused *RefusedError
	if errors.As(err, &refused) && refused.Parameter == "worth" && report.Worth != nil {
		w.bond.isOld = true
		return w.report(report)
	}
	return w.passed(err)
}

// call makes a call. A refusal is a mistake of the program: the connection is fine.
func (w *watcher) call(method string, parameters, into any) error {
	return w.passed(w.p.call(func(c *connection) error { return c.call(method, parameters, into) }))
}

// passed notes a refusal, and returns other errors.
func (w *watcher) passed(err error) error {
	var refused *RefusedError
	if errors.As(err, &refused) {
		w.p.setError(err)
		return nil
	}
	return err
}

// feelPulse checks whether the broker lives. One that hangs keeps its connections, but its page grows old. A
// call tells whether the broker is dead, or only the page.
func (w *watcher) feelPulse() error {
	if w.p.controlIsBroken() {
		return &absentError{text: "the connection that registered the principal is broken"}
	}
	now := monotonic()
	if w.bond.mapped == nil {
		if minus(now, w.bond.heard) < staleAfter/3 {
			return nil
		}
	} else {
		var page Reading
		if w.bond.mapped.read(&page) && !page.isStale(now) {
			return nil
		}
		w.publish(SourceStale)
	}
	if err := w.call("org.varlink.service.GetInfo", nothing{}, &nothing{}); err != nil {
		return err
	}
	w.bond.heard = monotonic()
	// The broker lives. Where its page does not, the numbers come from the stream from now on.
	w.bond.mapped = nil
	w.takeOver()
	return nil
}

// part changes to local numbers at once, and tries to rejoin soon.
func (w *watcher) part() {
	limit := w.bond.last.Numbers.Limit
	w.leave()
	w.local.inherit(limit, monotonic())
	w.pause = firstPause
	w.nextTry = time.Now().Add(w.pause)
	w.p.setAlone(w.showLocal())
}

// leave closes what is open at a broker.
func (w *watcher) leave() {
	if w.bond != nil {
		w.p.setControl(nil)
		w.bond.stream.close()
		w.bond = nil
	}
}

// While alone.

func (w *watcher) sense() { w.p.tell(w.showLocal()) }

func (w *watcher) showLocal() Reading {
	if pid := w.p.pid(); pid != w.local.sensor.PID() {
		w.local.sensor, w.local.last = sense.New(pid), Numbers{}
	}
	now := monotonic()
	reading := Reading{Numbers: w.local.sense(now), Source: SourceLocal, Heartbeat: now}
	before := w.p.view.Load().reading
	reading.Generation = 1
	if before.Source == SourceLocal {
		reading.Generation = before.Generation
		if reading.Numbers.settings() != before.Numbers.settings() {
			reading.Generation++
		}
	}
	w.p.view.Store(&view{reading: reading})
	return reading
}

func (w *watcher) tryJoin() error {
	wish := w.p.wishes()
	joined, err := join(w.p.ctx, wish, before{w.wasJoined, w.finds > 0}, w.p.nudge)
	if err != nil {
		w.p.setError(err)
		// A random part, so that a thousand programs do not rejoin at once.
		w.nextTry = time.Now().Add(w.pause/2 + time.Duration(rand.Int63n(int64(w.pause)/2)))
		w.pause = min(w.pause*2, lastPause)
		w.finds = max(w.finds-1, 0)
		return err
	}
	last, _, _ := joined.stream.take()
	w.bond = &bond{joined: *joined, last: last, heard: monotonic()}
	w.wasJoined, w.finds, w.pause = true, 0, firstPause
	if !joined.registered && wish.existing == nil {
		w.finds = mostFinds
	}
	w.p.setError(nil)
	w.show()
	w.p.setJoined(joined, readingOf(&last, w.bond.heard))
	return nil
}

func readingOf(changed *changedReply, heard uint64) Reading {
	return Reading{
		Numbers:    changed.Numbers,
		Source:     SourceBroker,
		Generation: changed.Generation,
		Heartbeat:  heard,
	}
}
