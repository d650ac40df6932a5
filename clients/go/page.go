package plimsoll

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"syscall"
	"unsafe"
)

const (
	pageSize    = 4096
	pageMagic   = 0x4c4c_4f53_4d49_4c50 // "PLIMSOLL" in memory
	pageVersion = 1
	staleAfter  = 3_000_000_000 // ns; the broker renews the heartbeat each second
	pageTries   = 1000          // a broker that dies while it writes leaves the sequence odd
)

// The words of a page, in their order.
const (
	wordMagic = iota
	wordVersion
	wordSequence
	wordLimit
	wordAvailable
	wordOwed
	wordDeadline
	wordUses
	wordShare
	wordLevel
	wordHeartbeat
	wordGeneration
	wordID
	wordSensed
	pageWords
)

// words is the written part of a page. A broker writes it meanwhile, so all loads are atomic.
type words [pageWords]uint64

func (w *words) at(word int) uint64 { return atomic.LoadUint64(&w[word]) }

// check tells whether this is a page that this package can read.
func (w *words) check() error {
	form := w.at(wordVersion)
	version, size := uint32(form), uint32(form>>32)
	switch {
	case w.at(wordMagic) != pageMagic:
		return errors.New("it does not begin with PLIMSOLL: it is no availability page, or it was truncated")
	case version != pageVersion:
		return fmt.Errorf("its layout version is %d, this program reads %d: update the older of the two",
			version, pageVersion)
	case size != pageSize:
		return fmt.Errorf("it says that it is %d bytes long, expected %d", size, pageSize)
	}
	return nil
}

// read takes the numbers of one moment; false if there are none.
func (w *words) read(into *Reading) bool {
	for try := 0; try < pageTries; try++ {
		if w.attempt(into) {
			return true
		}
		if w.at(wordMagic) != pageMagic || w.at(wordSequence) == 0 {
			return false
		}
	}
	return false
}

// attempt is one pass through the sequence lock.
func (w *words) attempt(into *Reading) bool {
	before := w.at(wordSequence)
	into.Limit = w.at(wordLimit)
	into.Available = w.at(wordAvailable)
	into.Owed = w.at(wordOwed)
	into.Deadline = w.at(wordDeadline)
	into.Uses = w.at(wordUses)
	into.Share = w.at(wordShare)
	into.Level = Level(min(w.at(wordLevel), uint64(LevelCritical)))
	into.Heartbeat = w.at(wordHeartbeat)
	into.Generation = w.at(wordGeneration)
	into.Sensed = w.at(wordSensed)
	magic := w.at(wordMagic)
	return w.at(wordSequence) == before && before&1 == 0 && before != 0 && magic == pageMagic
}

// A mapping is a broker's page in memory. It is unmapped once no reader has it any more.
type mapping struct {
	words  *words
	memory []byte
}

// read takes the numbers of one moment; false if there are none.
func (m *mapping) read(into *Reading) (ok bool) {
	defer endGuard(debug.SetPanicOnFault(true), &ok)
	ok = m.words.read(into)
	runtime.KeepAlive(m)
	return ok
}

// isPage tells whether this is still a page.
func (m *mapping) isPage() (ok bool) {
	defer endGuard(debug.SetPanicOnFault(true), &ok)
	ok = m.words.check() == nil
	runtime.KeepAlive(m)
	return ok
}

// endGuard is deferred by a look at a page. If somebody truncated the file, the look faults. The fault becomes a
// panic that ends here, and the look counts as false. Other goroutines and the program notice nothing.
func endGuard(before bool, ok *bool) {
	debug.SetPanicOnFault(before)
	if recover() != nil {
		*ok = false
	}
}

// openPage maps the page of the principal with this number.
func openPage(path string, id uint64) (*mapping, error) {
	fault := func(err error) error { return fmt.Errorf("the availability page %.200q: %w", path, err) }
	// A liar may name a pipe or a device. Without O_NONBLOCK opening it would wait.
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, fault(err)
	}
	defer func() { _ = syscall.Close(fd) }()
	if err := checkPage(fd, id); err != nil {
		return nil, fault(err)
	}
	memory, err := syscall.Mmap(fd, 0, pageSize, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil, fault(err)
	}
	m := &mapping{words: (*words)(unsafe.Pointer(&memory[0])), memory: memory}
	runtime.SetFinalizer(m, func(m *mapping) { _ = syscall.Munmap(m.memory) })
	return m, nil
}

// checkPage reads instead of mapping, because the file may be too short.
func checkPage(fd int, id uint64) error {
	var stat syscall.Stat_t
	if err := syscall.Fstat(fd, &stat); err != nil {
		return err
	}
	if stat.Mode&syscall.S_IFMT != syscall.S_IFREG {
		return errors.New("it is not a regular file")
	}
	var page [pageSize / 8]uint64
	count, err := syscall.Pread(fd, unsafe.Slice((*byte)(unsafe.Pointer(&page)), pageSize), 0)
	if err != nil {
		return err
	}
	if count < pageSize {
		return fmt.Errorf("it has %d bytes, expected %d", count, pageSize)
	}
	found := (*words)(page[:pageWords])
	if err := found.check(); err != nil {
		return err
	}
	if found[wordID] != id {
		return fmt.Errorf("it belongs to principal %d, not to %d", found[wordID], id)
	}
	return nil
}
