package plimsoll

import (
	"os"
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"
)

// Options say how to register. The zero value is good: a field of 0 means its default.
type Options struct {
	Weight   int    // 1 to 10000; 0: 100
	Priority int    // -100 to 100; a higher class is served first
	Max      uint64 // never more than this, bytes from 1 MiB; 0: no bound
	Adapter  string // who adapts: 1 to 32 bytes of a to z, 0 to 9 and -; "": "self"
	Socket   string // the only broker's socket to try; "": the usual places
	Alone    bool   // no broker: local sensing only

	PID       int  // the process, by its number in the broker's namespace; 0: this one
	NoProcess bool // the process comes later, by [Principal.Attach]; until then the broker grants nothing

	// FromEnvironment uses the principal that the environment names, even if its process is another: for
	// a library inside a program that `plimsoll run` started. A program itself does not need it.
	FromEnvironment bool

	Timeout time.Duration // the longest wait for each answer of a broker; 0: one second
}

const (
	defaultTimeout = time.Second
	longestTimeout = 24 * time.Hour
	leastMax       = 1 << 20
	mostMax        = 1 << 62
)

// wish is all that the program asked for. Every new broker is told it.
type wish struct {
	register registerCall
	parent   *Principal // a principal of this process; its number changes at a rejoin
	existing *existing  // a principal that another process registered
	named    *uint64    // the principal that the environment names
	unnamed  bool       // nobody gave that principal a name, so what the program calls itself prevails
	places   []place
	timeout  time.Duration
}

type existing struct {
	id   uint64
	page string
}

// isOwn tells whether it is for this process and no child of another principal.
func (w *wish) isOwn() bool {
	return w.register.PID != nil && *w.register.PID == os.Getpid() && w.parent == nil
}

// wish checks the options and takes them.
func (o Options) wish(name string, parent *Principal) (wish, error) {
	if o.Adapter == "" {
		o.Adapter = "self"
	}
	w := wish{
		register: registerCall{Name: name, Kind: "process", Adapter: o.Adapter},
		parent:   parent,
		unnamed:  variable("PLIMSOLL_UNNAMED") != "",
		timeout:  min(o.Timeout, longestTimeout),
	}
	if w.timeout <= 0 {
		w.timeout = defaultTimeout
	}
	for _, err := range []error{checkName(name), checkAdapter(o.Adapter), w.set(o), w.setProcess(o)} {
		if err != nil {
			return wish{}, err
		}
	}
	if id, err := strconv.ParseUint(variable("PLIMSOLL_ID"), 10, 64); err == nil {
		w.named = &id
	}
	if page := variable("PLIMSOLL_PAGE"); o.FromEnvironment && w.named != nil && page != "" {
		w.existing = &existing{*w.named, page}
	}
	switch {
	case o.Alone:
	case parent != nil:
		w.places = parent.places()
	case o.Socket != "":
		w.places = []place{{o.Socket, anyUser}}
	default:
		w.places = candidates(ownSurroundings())
	}
	return w, nil
}

// set takes weight, priority and maximum, where they are no defaults.
func (w *wish) set(o Options) error {
	if o.Weight != 0 {
		if err := checkWeight(o.Weight); err != nil {
			return err
		}
		w.register.Weight = &o.Weight
	}
	if o.Priority != 0 {
		w.register.Priority = &o.Priority
	}
	if o.Max != 0 {
		w.register.Max = &o.Max
	}
	if err := checkPriority(o.Priority); err != nil {
		return err
	}
	return checkMax(o.Max)
}

func (w *wish) setProcess(o Options) error {
	if o.NoProcess {
		return nil
	}
	pid := o.PID
	if pid == 0 {
		pid = os.Getpid()
	}
	w.register.PID = &pid
	return checkPID(pid)
}

func checkName(name string) error {
	const most = 64
	if len(name) < 1 || len(name) > most {
		return refuse("BadName", "a name has 1 to %d bytes, this one has %d", most, len(name))
	}
	if !utf8.ValidString(name) {
		return refuse("BadName", "a name is UTF-8, this one is not")
	}
	for _, letter := range name {
		if unicode.IsControl(letter) || unicode.Is(turnsTheLine, letter) {
			return refuse("BadName", "a name holds printable text only, this one has %+q; leave it out", letter)
		}
	}
	return nil
}

// turnsTheLine has the marks that change the direction or the line on a terminal.
var turnsTheLine = &unicode.RangeTable{R16: []unicode.Range16{
	{Lo: 0x061C, Hi: 0x061C, Stride: 1},
	{Lo: 0x200E, Hi: 0x200F, Stride: 1},
	{Lo: 0x2028, Hi: 0x202E, Stride: 1},
	{Lo: 0x2066, Hi: 0x2069, Stride: 1},
	{Lo: 0xFEFF, Hi: 0xFEFF, Stride: 1},
}}

func checkAdapter(adapter string) error {
	valid := len(adapter) >= 1 && len(adapter) <= 32
	for _, letter := range []byte(adapter) {
		valid = valid && (letter >= 'a' && letter <= 'z' || letter >= '0' && letter <= '9' || letter == '-')
	}
	if !valid {
		return refuse("BadName", "the name of an adapter has 1 to 32 bytes of a to z, 0 to 9 and -")
	}
	return nil
}

func checkWeight(weight int) error {
	if weight < 1 || weight > 10_000 {
		return refuse("BadWeight", "weight %d is out of range: give 1 to 10000", weight)
	}
	return nil
}

func checkPriority(priority int) error {
	if priority < -100 || priority > 100 {
		return refuse("BadPriority", "priority %d is out of range: give -100 to 100", priority)
	}
	return nil
}

func checkMax(bytes uint64) error {
	if bytes != 0 && (bytes < leastMax || bytes > mostMax) {
		return refuse("BadMax", "max %d is out of range: give bytes from %d (1 MiB), or 0 for no bound",
			bytes, leastMax)
	}
	return nil
}

func checkPID(pid int) error {
	if pid < 1 || pid > 1<<31-1 {
		return refuse("NoSuchProcess", "%d is no process number: give the number that `ps` shows", pid)
	}
	return nil
}
