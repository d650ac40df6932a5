// Package sense reads how much memory there is for a process: the machine's, or that of the tightest cgroup
// above it, and how much the process uses.
package sense

import (
	"fmt"
	"os"
	"syscall"
)

// Sensed is a reading of the memory that bounds a process. All are bytes.
type Sensed struct {
	Capacity uint64 // the limit of the binding cgroup, or the machine's memory
	Room     uint64 // the part of it that is free or can be dropped for free
	Uses     uint64 // the anonymous and shared memory of the process
}

// looksPerScan is how often the cgroups are read before they are looked up again: a process can be moved.
const looksPerScan = 256

// A Sensor senses for one process. One goroutine may use it at a time.
type Sensor struct {
	pid    int
	groups []group
	looks  int // since the groups were looked up
	last   Sensed
}

// New returns a sensor for the process with this number; 0 for none. It opens nothing.
func New(pid int) *Sensor { return &Sensor{pid: pid, looks: looksPerScan} }

// PID is the number of the process; 0 for none.
func (s *Sensor) PID() int { return s.pid }

// Look reads. It keeps no file open. Numbers that cannot be read now, for want of descriptors or of /proc, are
// those of the last time, or those of sysinfo(2).
func (s *Sensor) Look() Sensed {
	if uses, err := Uses(s.pid); err == nil {
		s.last.Uses = uses
	}
	tightest, err := s.tightest()
	switch {
	case err == nil:
		s.last.Capacity, s.last.Room = tightest.capacity, minus(tightest.capacity, tightest.used)
	case s.last.Capacity == 0:
		capacity, room := fromSysinfo()
		return Sensed{capacity, room, s.last.Uses}
	}
	return s.last
}

// domain is an amount of memory, and what is in use of it and cannot be dropped for free.
type domain struct{ capacity, used uint64 }

func (d domain) room() uint64 { return minus(d.capacity, d.used) }

// tightest reads the machine and the groups, innermost first. The one with the least room binds.
func (s *Sensor) tightest() (domain, error) {
	machine, err := readMachine()
	if err != nil {
		return domain{}, err
	}
	if s.looks >= looksPerScan {
		s.groups, err = groupsOf(s.pid)
		if err != nil {
			return domain{}, err
		}
		s.looks = 0
	}
	s.looks++
	tightest := machine
	for _, group := range s.groups {
		here, bounded, err := group.read(machine.capacity, tightest.room())
		if err != nil {
			s.looks = looksPerScan // it was removed, or the process was moved
			return domain{}, err
		}
		if bounded && here.room() <= tightest.room() {
			tightest = here
		}
	}
	return tightest, nil
}

func readMachine() (domain, error) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return domain{}, err
	}
	machine := parseMachine(string(text))
	if machine.capacity == 0 {
		return domain{}, fmt.Errorf("/proc/meminfo has no line MemTotal")
	}
	return machine, nil
}

// parseMachine reads /proc/meminfo. Used is what cannot be dropped for free, and never less than what the
// kernel itself calls unavailable.
func parseMachine(text string) domain {
	m := pairs(text)
	total := m["MemTotal"]
	files := minus(m["Inactive(file)"], m["Dirty"])
	droppable := files + m["SwapCached"] + m["SReclaimable"]/2
	used := minus(minus(total, m["MemFree"]), droppable)
	// Kernels before 3.14 have no MemAvailable.
	if available := m["MemAvailable"]; available != 0 {
		used = max(used, minus(total, available))
	}
	return domain{total, used}
}

// Uses are the anonymous and shared bytes of a process that are in memory; 0 for no process.
func Uses(pid int) (uint64, error) {
	if pid == 0 {
		return 0, nil
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	m := pairs(string(text))
	return m["RssAnon"] + m["RssShmem"], nil
}

func fromSysinfo() (capacity, room uint64) {
	var info syscall.Sysinfo_t
	if syscall.Sysinfo(&info) != nil {
		return 0, 0
	}
	unit := uint64(max(info.Unit, 1))
	return uint64(info.Totalram) * unit, uint64(info.Freeram) * unit
}

func minus(a, b uint64) uint64 { return a - min(a, b) }
