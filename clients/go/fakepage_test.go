package plimsoll

import (
	"os"
	"syscall"
)

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
