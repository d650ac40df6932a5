package plimsoll

import (
	"encoding/binary"
	"os"
	"syscall"
)

// fakePage is a page of the scripted broker.
type fakePage struct {
	file  *os.File
	words [pageWords]uint64
	last  Numbers
	call  registerCall
}

// newFakePage makes a page as the script says.
func newFakePage(path string, id uint64, script script) *fakePage {
	page := new(fakePage)
	// As brokers do, make a new inode, so that readers of an old page of this name keep the old one.
	_ = os.Remove(path)
	switch script {
	case noPage:
		return page
	case pipePage:
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			panic(err)
		}
		return page
	case shortPage:
		if err := os.WriteFile(path, make([]byte, 100), 0o600); err != nil {
			panic(err)
		}
		return page
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		err = file.Truncate(pageSize)
	}
	if err != nil {
		panic(err)
	}
	page.file = file
	version := uint64(pageVersion)
	if script == newerPage {
		version = 9
	}
	if script == wrongPage {
		id += 70
	}
	page.put(wordMagic, pageMagic)
	page.put(wordVersion, version|pageSize<<32)
	page.put(wordID, id)
	return page
}

// put stores a word of the page.
func (p *fakePage) put(word int, value uint64) {
	p.words[word] = value
	if p.file != nil {
		var raw [8]byte
		binary.NativeEndian.PutUint64(raw[:], value)
		_, _ = p.file.WriteAt(raw[:], int64(word)*8)
	}
}

// write publishes numbers as a broker does: the sequence is odd meanwhile.
func (p *fakePage) write(n Numbers) {
	p.last = n
	sequence := p.words[wordSequence]
	p.put(wordSequence, sequence+1)
	for word, value := range map[int]uint64{
		wordLimit: n.Limit, wordAvailable: n.Available, wordOwed: n.Owed, wordDeadline: n.Deadline,
		wordUses: n.Uses, wordShare: n.Share, wordLevel: uint64(n.Level), wordSensed: n.Sensed,
		wordHeartbeat: monotonic(), wordGeneration: p.words[wordGeneration] + 1,
	} {
		p.put(word, value)
	}
	p.put(wordSequence, sequence+2)
}

func (p *fakePage) changed(id uint64) changedReply {
	return changedReply{ID: id, Generation: p.words[wordGeneration], Numbers: p.last}
}
