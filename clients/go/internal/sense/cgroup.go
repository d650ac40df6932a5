package sense

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// mostLevels are walked upwards.
const mostLevels = 64

// group is a memory cgroup.
type group struct {
	dir       string
	isUnified bool // of version 2
}

// mount is a place where a hierarchy of cgroups is mounted.
type mount struct {
	root, point string
	isUnified   bool
}

// groupsOf returns the groups whose limits bind a process (0: this one), innermost first. There are none
// where the memory controller is off, or where its hierarchy is not visible.
func groupsOf(pid int) ([]group, error) {
	whose := "self"
	if pid != 0 {
		whose = strconv.Itoa(pid)
	}
	membership, err := os.ReadFile("/proc/" + whose + "/cgroup")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	v1, v2 := namesOf(string(membership))
	for _, mount := range mountsOf(string(mounts)) {
		name := v1
		if mount.isUnified {
			name = v2
		}
		if dir, ok := mount.below(name); ok && mount.hasMemory() {
			return above(dir, mount), nil
		}
	}
	return nil, nil
}

// namesOf reads /proc/PID/cgroup: the group in the hierarchy of version 1 that has the memory controller, and
// the one in version 2. Empty where there is none.
func namesOf(membership string) (v1, v2 string) {
	for _, line := range strings.Split(membership, "\n") {
		fields := strings.SplitN(line, ":", 3)
		if len(fields) < 3 || !strings.HasPrefix(fields[2], "/") {
			continue
		}
		name := strings.TrimSuffix(fields[2], " (deleted)")
		switch {
		case fields[0] == "0" && fields[1] == "":
			v2 = name
		case slices.Contains(strings.Split(fields[1], ","), "memory"):
			v1 = name
		}
	}
	return v1, v2
}

// mountsOf reads /proc/self/mountinfo: hierarchies of version 1 with the memory controller, and of version 2.
func mountsOf(mountinfo string) []mount {
	var found []mount
	for _, line := range strings.Split(mountinfo, "\n") {
		head, tail, ok := strings.Cut(line, " - ")
		fields, kind := strings.Fields(head), strings.Fields(tail)
		if !ok || len(fields) < 5 || len(kind) < 3 {
			continue
		}
		here := mount{unescape(fields[3]), unescape(fields[4]), kind[0] == "cgroup2"}
		isV1 := kind[0] == "cgroup" && slices.Contains(strings.Split(kind[2], ","), "memory")
		if here.isUnified || isV1 {
			found = append(found, here)
		}
	}
	return found
}

// below is the directory of a group; false if the mount does not show it. A name or a mount that begins above
// the namespace (/../..) says how far up it is, not what is on the way down.
func (m mount) below(name string) (string, bool) {
	if name == "" || strings.HasPrefix(name, "/..") || strings.HasPrefix(m.root, "/..") {
		return "", false
	}
	rest, err := filepath.Rel(m.root, name)
	if err != nil || rest == ".." || strings.HasPrefix(rest, "../") {
		return "", false
	}
	return filepath.Join(m.point, rest), true
}

// hasMemory tells whether the memory controller is there. Another mount may lie over this one.
func (m mount) hasMemory() bool {
	if !m.isUnified {
		_, err := os.Stat(filepath.Join(m.point, "memory.limit_in_bytes"))
		return err == nil
	}
	text, err := os.ReadFile(filepath.Join(m.point, "cgroup.controllers"))
	return err == nil && slices.Contains(strings.Fields(string(text)), "memory")
}

// above are a group and those above it, up to the mount, as far as their limits bind it.
func above(dir string, m mount) []group {
	var groups []group
	for len(groups) < mostLevels {
		groups = append(groups, group{dir, m.isUnified})
		if dir == m.point {
			break
		}
		dir = filepath.Dir(dir)
		if text, err := os.ReadFile(filepath.Join(dir, "memory.use_hierarchy")); err == nil &&
			strings.TrimSpace(string(text)) == "0" {
			break
		}
	}
	return groups
}

// read reads a group; false if it has no limit below the machine's memory, or cannot have less room.
func (g group) read(machine, room uint64) (domain, bool, error) {
	limitFile, usageFile := "memory.limit_in_bytes", "memory.usage_in_bytes"
	if g.isUnified {
		limitFile, usageFile = "memory.max", "memory.current"
	}
	limit, err := g.number(limitFile)
	if errors.Is(err, fs.ErrNotExist) {
		// The top group of version 2 has no limit.
		_, err = os.Stat(g.dir)
		return domain{}, false, err
	}
	if err != nil || limit >= machine {
		return domain{}, false, err
	}
	usage, err := g.number(usageFile)
	if err != nil || minus(limit, usage) > room {
		return domain{}, false, err
	}
	text, err := os.ReadFile(filepath.Join(g.dir, "memory.stat"))
	if err != nil {
		return domain{}, false, err
	}
	return domain{limit, minus(usage, droppable(string(text), g.isUnified))}, true, nil
}

// number reads a file with one number. "max" is the largest.
func (g group) number(file string) (uint64, error) {
	raw, err := os.ReadFile(filepath.Join(g.dir, file))
	if err != nil {
		return 0, err
	}
	text := strings.TrimSpace(string(raw))
	if text == "max" {
		return ^uint64(0), nil
	}
	number, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s of %s: %w", file, g.dir, err)
	}
	return number, nil
}

// droppable is the memory in memory.stat that the kernel can free without writing and that no process uses:
// clean inactive file pages, and pages of the swap cache that no process has mapped.
func droppable(stat string, isUnified bool) uint64 {
	m := pairs(stat)
	of := func(name string) uint64 { return m[name] }
	anon, dirty := "anon", "file_dirty"
	if !isUnified {
		anon, dirty = "rss", "dirty"
		// The lines with this prefix count the groups below, too.
		if _, ok := m["total_inactive_file"]; ok {
			of = func(name string) uint64 { return m["total_"+name] }
		}
	}
	files := minus(of("inactive_file"), of(dirty))
	unmapped := minus(minus(of("inactive_anon")+of("active_anon"), of("shmem")), of(anon))
	return files + min(of("swapcached"), unmapped)
}
