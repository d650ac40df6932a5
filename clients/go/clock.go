package plimsoll

import (
	"syscall"
	"unsafe"
)

// monotonic is the time of CLOCK_MONOTONIC in nanoseconds, the clock of pages and messages. The clock in
// package time has the same pace, but hides its value.
func monotonic() uint64 {
	const clockMonotonic = 1
	var t syscall.Timespec
	// It cannot fail: the clock exists, and t is writable.
	_, _, _ = syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&t)), 0)
	return uint64(t.Nano())
}
