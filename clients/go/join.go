package plimsoll

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	// How many processes, from ours upwards, are checked for being a principal's.
	mostAncestors = 64
	// `plimsoll run` tells the broker the process only after its start. So long and so often it is looked for.
	awaitProcess = time.Second
	lookAgain    = 10 * time.Millisecond
)

// before is what happened before a join.
type before struct {
	joined bool // the principal was joined to a broker before
	found  bool // another process had registered our process, and is expected to do so again
}

// joined is the result of a join.
type joined struct {
	id         uint64
	page       string // path of its page
	registered bool   // by us, and not by another process
	control    *connection
	stream     *stream
}

// joining is a join that is under way.
type joining struct {
	ctx     context.Context
	wish    wish
	control *connection
	joined  joined
}

// join joins the first broker that answers. Each step is bounded by the timeout of the wish.
func join(ctx context.Context, wish wish, before before, news func()) (*joined, error) {
	control, err := dialFirst(ctx, wish.places, wish.timeout)
	if err != nil {
		return nil, err
	}
	j := &joining{ctx: ctx, wish: wish, control: control, joined: joined{control: control}}
	if err := j.run(before, news); err != nil {
		control.close()
		return nil, err
	}
	return &j.joined, nil
}

func (j *joining) run(before before, news func()) error {
	if err := j.identify(before); err != nil {
		return err
	}
	if !j.joined.registered {
		if err := j.steer(); err != nil {
			return err
		}
	}
	var err error
	j.joined.stream, err = subscribe(j.ctx, j.control.place, j.wish.timeout, j.joined.id, news)
	if j.joined.registered && isRefusal(err, "NoSuchPrincipal") {
		// It was registered a moment ago and is gone: the broker has ended the connection.
		return j.control.closed(nil)
	}
	return err
}

// identify registers the principal, or finds the one that is there.
func (j *joining) identify(before before) error {
	switch existing := j.wish.existing; {
	case existing != nil && !before.joined:
		j.joined.id, j.joined.page = existing.id, existing.page
		return nil
	case existing != nil:
		// After a broker's restart the number in the environment is no longer valid.
		return j.find(mostAncestors)
	case before.found:
		return j.find(1)
	}
	return j.registerOrFind()
}

// registerOrFind registers. If the process is a principal already, by `plimsoll run` or another part of the
// program, it uses that one.
func (j *joining) registerOrFind() error {
	if j.wish.named != nil && j.wish.isOwn() {
		if err := j.awaitProcess(*j.wish.named); err != nil {
			return err
		}
	}
	err := j.register()
	if isRefusal(err, "AlreadyRegistered") && j.wish.isOwn() {
		return j.find(1)
	}
	return err
}

func (j *joining) register() error {
	parameters := j.wish.register
	if parent := j.wish.parent; parent != nil {
		id, ok := parent.ID()
		if !ok {
			return &absentError{text: "a child of a principal needs a broker that knows the parent"}
		}
		parameters.Parent = &id
	}
	var granted registeredReply
	if err := j.control.call("Register", parameters, &granted); err != nil {
		return err
	}
	j.joined.id, j.joined.page, j.joined.registered = granted.ID, granted.Page, true
	return nil
}

// awaitProcess waits until the principal has its process. A program that registered before that would become
// a second principal.
func (j *joining) awaitProcess(id uint64) error {
	for end := time.Now().Add(awaitProcess); ; {
		all, err := j.list()
		if err != nil {
			return err
		}
		found := findIn(all, func(l *listed) bool { return l.ID == id })
		if found == nil || found.Kind == "group" || found.PID != nil {
			return nil
		}
		if !pause(j.ctx, lookAgain) || time.Now().After(end) {
			return nil
		}
	}
}

// steer tells which adapter steers a principal that another process registered, and what it is called if
// nobody gave it a name, if its process is this one. A child that merely inherited the environment must not.
func (j *joining) steer() error {
	if !j.wish.isOwn() {
		return nil
	}
	all, err := j.list()
	if err != nil {
		return err
	}
	own := withPID(all, os.Getpid())
	if own == nil || own.ID != j.joined.id {
		return nil
	}
	adapt := adaptCall{ID: own.ID, Adapter: j.wish.register.Adapter}
	if name := j.wish.register.Name; j.wish.unnamed && j.wish.existing == nil && own.Name != name {
		named := adapt
		named.Name = name
		// An older broker knows no names here.
		if j.control.call("Adapt", named, &nothing{}) == nil {
			return nil
		}
	}
	if own.Adapter == adapt.Adapter {
		return nil
	}
	return j.control.call("Adapt", adapt, &nothing{})
}

// find finds the principal of our process or of an ancestor, up to this many generations away.
func (j *joining) find(generations int) error {
	all, err := j.list()
	if err != nil {
		return err
	}
	pid := os.Getpid()
	if j.wish.register.PID != nil {
		pid = *j.wish.register.PID
	}
	for ; generations > 0 && pid > 1; generations-- {
		if found := withPID(all, pid); found != nil {
			j.joined.id, j.joined.page = found.ID, found.Page
			if found.Page == "" {
				j.joined.page = j.control.place.pageOf(found.ID)
			}
			return nil
		}
		pid = parentOf(pid)
	}
	return refuse("NoSuchPrincipal", "no principal holds this process yet; `plimsoll ps` lists them")
}

func (j *joining) list() ([]listed, error) {
	var all listReply
	err := j.control.call("List", nothing{}, &all)
	return all.Principals, err
}

func withPID(all []listed, pid int) *listed {
	return findIn(all, func(l *listed) bool { return l.PID != nil && *l.PID == pid })
}

// findIn may recurse: the parser bounds the depth of the tree.
func findIn(all []listed, isIt func(*listed) bool) *listed {
	for i := range all {
		if isIt(&all[i]) {
			return &all[i]
		}
		if found := findIn(all[i].Children, isIt); found != nil {
			return found
		}
	}
	return nil
}

// parentOf is the number of a process's parent; 0 if it is not known.
func parentOf(pid int) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	// The name of the program, in parentheses, may hold anything.
	end := bytes.LastIndexByte(text, ')')
	if err != nil || end < 0 {
		return 0
	}
	fields := strings.Fields(string(text[end+1:]))
	if len(fields) < 2 {
		return 0
	}
	parent, err := strconv.Atoi(fields[1])
	if err != nil {
		return 0
	}
	return parent
}
