package plimsoll

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// script is how the scripted broker misbehaves.
type script string

const (
	good      script = "good"
	silent    script = "takes calls and never answers"
	late      script = "answers late"
	truncated script = "sends half an answer and closes"
	garbage   script = "sends what is no JSON"
	endless   script = "sends a message that never ends"
	liar      script = "sends JSON of another kind"
	refuses   script = "refuses to register"
	strict    script = "refuses a process that is a principal already"
	elsewhere script = "keeps its pages elsewhere, and says where"
	noPage    script = "makes no page"
	shortPage script = "makes a page that is too short"
	newerPage script = "makes a page of a newer version"
	wrongPage script = "makes the page of another principal"
	pipePage  script = "names a pipe as the page"
	dies      script = "closes after the answer to Register"
	old       script = "does not know the field worth of a report"
)

// fake is a scripted broker. It writes real pages.
type fake struct {
	dir      string
	listener net.Listener
	wg       sync.WaitGroup
	dead     chan struct{}

	mu          sync.Mutex
	script      script
	delay       time.Duration // of late
	frozen      bool          // no heartbeats
	nextID      uint64
	first       Numbers
	pages       map[uint64]*fakePage
	subscribers map[net.Conn]uint64
	conns       map[net.Conn]bool

	registered []registerCall
	reports    []reportCall
	sets       []setCall
	attached   []attachCall
	adapted    []adaptCall
	gone       []uint64
	released   uint64
}

// numbersOf are numbers with this limit.
func numbersOf(limit uint64) Numbers {
	return Numbers{Limit: limit, Available: 2 * limit, Uses: limit / 2, Share: limit}
}

// startFake starts a broker in this directory. It ends with the test.
func startFake(t testing.TB, dir string, script script, firstID uint64) *fake {
	t.Helper()
	f := &fake{
		dir: dir, script: script, nextID: firstID, first: numbersOf(100 * mib), dead: make(chan struct{}),
		pages: map[uint64]*fakePage{}, subscribers: map[net.Conn]uint64{}, conns: map[net.Conn]bool{},
	}
	for _, name := range []string{"pages", "elsewhere"} {
		must(t, os.MkdirAll(filepath.Join(dir, name), 0o755))
	}
	_ = os.Remove(f.socket())
	listener, err := net.Listen("unix", f.socket())
	must(t, err)
	f.listener = listener
	f.wg.Add(2)
	go f.accept()
	go f.beat()
	t.Cleanup(f.kill)
	return f
}

func (f *fake) socket() string { return filepath.Join(f.dir, "broker.sock") }

func (f *fake) pagePath(id uint64) string { return filepath.Join(f.dir, "pages", fmt.Sprint(id)) }

// kill ends it as SIGKILL does: connections end, files stay.
func (f *fake) kill() {
	f.mu.Lock()
	select {
	case <-f.dead:
		f.mu.Unlock()
		return
	default:
	}
	close(f.dead)
	_ = f.listener.Close()
	for conn := range f.conns {
		_ = conn.Close()
	}
	f.mu.Unlock()
	f.wg.Wait()
}

// state runs a look at the broker's state, or a change of it.
func (f *fake) state(look func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	look()
}

func (f *fake) be(script script) { f.state(func() { f.script = script }) }

// freeze stops heartbeats and answers but keeps connections, as a stopped process does.
func (f *fake) freeze() { f.state(func() { f.script, f.frozen = silent, true }) }

// publish writes a page and tells the subscribers.
func (f *fake) publish(id uint64, numbers Numbers) {
	f.mu.Lock()
	defer f.mu.Unlock()
	page := f.pages[id]
	page.write(numbers)
	message := encodeReply(page.changed(id), true)
	for conn, whose := range f.subscribers {
		if whose == id {
			_, _ = conn.Write(message)
		}
	}
}

// publishSilently writes a page and tells nobody.
func (f *fake) publishSilently(id uint64, numbers Numbers) {
	f.state(func() { f.pages[id].write(numbers) })
}

func (f *fake) accept() {
	defer f.wg.Done()
	for {
		conn, err := f.listener.Accept()
		if err != nil {
			return
		}
		f.mu.Lock()
		f.conns[conn] = true
		f.wg.Add(1)
		go f.serve(conn)
		select {
		case <-f.dead:
			_ = conn.Close()
		default:
		}
		f.mu.Unlock()
	}
}

func (f *fake) beat() {
	defer f.wg.Done()
	for {
		f.state(func() {
			for _, page := range f.pages {
				if page.file != nil && !f.frozen {
					page.put(wordHeartbeat, monotonic())
				}
			}
		})
		select {
		case <-f.dead:
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (f *fake) serve(conn net.Conn) {
	defer f.wg.Done()
	var life uint64
	defer func() {
		_ = conn.Close()
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.conns, conn)
		delete(f.subscribers, conn)
		if life != 0 {
			f.gone = append(f.gone, life)
			if page := f.pages[life]; page.file != nil {
				_ = page.file.Close()
			}
			delete(f.pages, life)
		}
	}()
	var buffer bytes.Buffer
	chunk := make([]byte, 4096)
	for {
		count, err := conn.Read(chunk)
		if err != nil {
			return
		}
		buffer.Write(chunk[:count])
		for {
			message, err := buffer.ReadBytes(0)
			if err != nil {
				buffer.Write(message) // the rest is still to come
				break
			}
			if !f.answer(conn, message[:len(message)-1], &life) {
				return
			}
		}
	}
}

// answer answers a message. It returns false if the connection is to be closed.
func (f *fake) answer(conn net.Conn, message []byte, life *uint64) bool {
	f.mu.Lock()
	script, delay := f.script, f.delay
	f.mu.Unlock()
	switch script {
	case silent:
		return true
	case late:
		time.Sleep(delay)
	case truncated:
		_, _ = conn.Write([]byte(`{"parameters":{"id":1,"pa`))
		return false
	case garbage:
		_, err := conn.Write([]byte("\xff\xfe nonsense\x00"))
		return err == nil
	case liar:
		_, err := conn.Write([]byte(`{"parameters":{"id":-1,"page":[],"numbers":7,"principals":{"x":1}}}` + "\x00"))
		return err == nil
	case endless:
		blanks := bytes.Repeat([]byte{' '}, 1<<16)
		for {
			if _, err := conn.Write(blanks); err != nil {
				return false
			}
		}
	}
	var asked struct {
		Method     string
		Parameters json.RawMessage
	}
	if json.Unmarshal(message, &asked) != nil {
		return false
	}
	f.mu.Lock()
	out := f.dispatch(conn, asked.Method, asked.Parameters, life)
	_, err := conn.Write(out)
	f.mu.Unlock()
	return err == nil && !(script == dies && *life != 0)
}

func encodeReply(parameters any, continues bool) []byte {
	raw, err := json.Marshal(parameters)
	if err != nil {
		panic(err)
	}
	message, err := json.Marshal(reply{Parameters: raw, Continues: continues})
	if err != nil {
		panic(err)
	}
	return append(message, 0)
}

func encodeError(name, text string) []byte {
	return []byte(fmt.Sprintf(`{"error":"io.plimsoll.%s","parameters":{"message":%q}}`+"\x00", name, text))
}

func (f *fake) dispatch(conn net.Conn, method string, raw json.RawMessage, life *uint64) []byte {
	read := func(into any) {
		decoder := json.NewDecoder(bytes.NewReader(raw))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(into); err != nil {
			panic(fmt.Sprintf("%s %s: %v", method, raw, err))
		}
	}
	var which whichCall
	switch method {
	case "io.plimsoll.Register":
		var asked registerCall
		read(&asked)
		return f.register(asked, life)
	case "io.plimsoll.Subscribe":
		read(&which)
		page := f.pages[which.ID]
		if page == nil {
			return encodeError("NoSuchPrincipal", fmt.Sprintf("no %d", which.ID))
		}
		f.subscribers[conn] = which.ID
		return encodeReply(page.changed(which.ID), true)
	case "io.plimsoll.Attach":
		f.attached = append(f.attached, attachCall{})
		read(&f.attached[len(f.attached)-1])
	case "io.plimsoll.Adapt":
		f.adapted = append(f.adapted, adaptCall{})
		read(&f.adapted[len(f.adapted)-1])
	case "io.plimsoll.Report":
		f.reports = append(f.reports, reportCall{})
		read(&f.reports[len(f.reports)-1])
		if f.script == old && f.reports[len(f.reports)-1].Worth != nil {
			return []byte(`{"error":"org.varlink.service.InvalidParameter","parameters":` +
				`{"parameter":"worth","message":"worth: unknown field"}}` + "\x00")
		}
	case "io.plimsoll.Set":
		f.sets = append(f.sets, setCall{})
		read(&f.sets[len(f.sets)-1])
	case "io.plimsoll.Released":
		var asked releasedCall
		read(&asked)
		f.released += asked.Bytes
	case "io.plimsoll.List":
		return encodeReply(f.listing(), false)
	}
	return encodeReply(nothing{}, false)
}

func (f *fake) listing() listReply {
	all := listReply{Principals: []listed{}}
	for id, page := range f.pages {
		here := listed{ID: id, PID: page.call.PID, Name: page.call.Name, Adapter: page.call.Adapter}
		if f.script == elsewhere {
			here.Page = filepath.Join(f.dir, "elsewhere", fmt.Sprint(id))
		}
		all.Principals = append(all.Principals, here)
	}
	return all
}

func (f *fake) register(asked registerCall, life *uint64) []byte {
	if f.script == refuses {
		return encodeError("TooMany", "full; raise max_principals")
	}
	for _, page := range f.pages {
		if f.script == strict && page.call.PID != nil && asked.PID != nil && *page.call.PID == *asked.PID {
			return encodeError("AlreadyRegistered", "it is one")
		}
	}
	id := f.nextID
	f.nextID++
	*life = id
	path := f.pagePath(id)
	if f.script == elsewhere {
		path = filepath.Join(f.dir, "elsewhere", fmt.Sprint(id))
	}
	f.pages[id] = newFakePage(path, id, f.script)
	f.pages[id].call = asked
	f.pages[id].write(f.first)
	f.registered = append(f.registered, asked)
	return encodeReply(registeredReply{ID: id, Page: path, Weight: 100}, false)
}
