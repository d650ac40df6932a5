package plimsoll

// SetWeight changes the weight, 1 to 10000. Without a broker this is kept until one runs. It fails with a
// [RefusedError].
func (p *Principal) SetWeight(weight int) error {
	if err := checkWeight(weight); err != nil {
		return err
	}
	return p.set(setCall{Weight: &weight}, func(r *registerCall) { r.Weight = &weight })
}

// SetPriority changes the priority, -100 to 100. Without a broker this is kept until one runs. It fails with
// a [RefusedError].
func (p *Principal) SetPriority(priority int) error {
	if err := checkPriority(priority); err != nil {
		return err
	}
	return p.set(setCall{Priority: &priority}, func(r *registerCall) { r.Priority = &priority })
}

// SetMax changes the maximum, in bytes from 1 MiB; 0 removes it. Without a broker this is kept until one
// runs. It fails with a [RefusedError].
func (p *Principal) SetMax(bytes uint64) error {
	if err := checkMax(bytes); err != nil {
		return err
	}
	return p.set(setCall{Max: &bytes}, func(r *registerCall) {
		r.Max = &bytes
		if bytes == 0 {
			r.Max = nil
		}
	})
}

func (p *Principal) set(parameters setCall, keep func(*registerCall)) error {
	err := p.kept(func(c *connection, id uint64) error {
		parameters.ID = id
		return c.call("Set", parameters, &nothing{})
	})
	if err == nil {
		p.mu.Lock()
		keep(&p.wish.register)
		p.mu.Unlock()
	}
	return err
}

// Attach sets the process, by its number in the broker's namespace. Without a broker this is kept until one
// runs. It fails with a [RefusedError].
func (p *Principal) Attach(pid int) error {
	if err := checkPID(pid); err != nil {
		return err
	}
	p.mu.Lock()
	p.wish.register.PID = &pid
	p.mu.Unlock()
	return p.kept(func(c *connection, id uint64) error {
		return c.call("Attach", attachCall{id, pid}, &nothing{})
	})
}

// kept makes a call. Where there is no broker, the next one is told with the registration.
func (p *Principal) kept(call func(*connection, uint64) error) error {
	if p.ctx.Err() != nil {
		return ErrClosed
	}
	id, ok := p.ID()
	if !ok {
		return nil
	}
	err := p.call(func(c *connection) error { return call(c, id) })
	if isAbsent(err) {
		return nil
	}
	return err
}

// call makes a call on the connection that registered the principal.
func (p *Principal) call(call func(*connection) error) error {
	p.controlMu.Lock()
	defer p.controlMu.Unlock()
	if p.control == nil {
		return &absentError{text: "this call needs a broker"}
	}
	err := call(p.control)
	if p.control.broken {
		p.nudge()
	}
	return err
}

// The rest is for the watcher.

func (p *Principal) controlIsBroken() bool {
	p.controlMu.Lock()
	defer p.controlMu.Unlock()
	return p.control == nil || p.control.broken
}

// setControl replaces the connection for calls, and closes the old one.
func (p *Principal) setControl(control *connection) {
	p.controlMu.Lock()
	defer p.controlMu.Unlock()
	if p.control != nil {
		p.control.close()
	}
	p.control = control
}

func (p *Principal) setJoined(joined *joined, reading Reading) {
	p.setControl(joined.control)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.id = joined.id
	p.now = told{reading, p.now.joins + 1, true}
	p.outbox.startAnew()
	p.announce()
}

func (p *Principal) setAlone(reading Reading) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now.reading, p.now.joined = reading, false
	p.announce()
}

// tell takes new numbers over and wakes those who wait.
func (p *Principal) tell(reading Reading) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now.reading = reading
	p.announce()
}

// announce wakes those who wait. The caller holds the lock.
func (p *Principal) announce() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// settled is the present state, with what was given back. The caller holds the lock.
func (p *Principal) settled() told {
	now := p.now
	now.reading = p.paid.settle(now.reading)
	return now
}

func (p *Principal) nudge() {
	select {
	case p.nudged <- struct{}{}:
	default: // it is nudged already
	}
}

func (p *Principal) setError(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = err
}

func (p *Principal) takeOutbox() outbox {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.outbox.take()
}

// wishes is a copy: settings may change meanwhile. What its pointers point to never does.
func (p *Principal) wishes() wish {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.wish
}

func (p *Principal) places() []place { return p.wishes().places }

func (p *Principal) isAnothers() bool { return p.wishes().existing != nil }

// pid is the process to sense for; 0 for none.
func (p *Principal) pid() int {
	if pid := p.wishes().register.PID; pid != nil {
		return *pid
	}
	return 0
}
