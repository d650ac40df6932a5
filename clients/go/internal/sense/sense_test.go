package sense

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

const mib = 1 << 20

func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestItSensesThisProcess(t *testing.T) {
	s := New(os.Getpid())
	for i := 0; i < 2*looksPerScan; i++ {
		now := s.Look()
		if now.Capacity == 0 || now.Room > now.Capacity || now.Uses == 0 {
			t.Fatalf("%+v", now)
		}
	}
	if now := New(0).Look(); now.Uses != 0 || now.Capacity == 0 {
		t.Errorf("%+v", now)
	}
	if capacity, room := fromSysinfo(); capacity == 0 || room > capacity {
		t.Errorf("%d %d", capacity, room)
	}
}

func TestAProcessThatIsGoneKeepsItsLastNumbers(t *testing.T) {
	s := New(1<<31 - 1)
	if now := s.Look(); now.Capacity == 0 || now.Uses != 0 {
		t.Errorf("%+v", now)
	}
}

func TestTheMachineIsNeverSeenMoreHopefullyThanTheKernelSeesIt(t *testing.T) {
	const text = "MemTotal: 1000 kB\nMemFree: 100 kB\nInactive(file): 300 kB\nDirty: 50 kB\nSReclaimable: 100 kB\n" +
		"SwapCached: 10 kB\nnonsense\nx: y kB\n"
	if found := parseMachine(text); found != (domain{1000 << 10, 590 << 10}) {
		t.Errorf("%+v", found)
	}
	if found := parseMachine(text + "MemAvailable: 200 kB\n"); found.used != 800<<10 {
		t.Errorf("%+v", found)
	}
	if found := parseMachine(""); found != (domain{}) {
		t.Errorf("%+v", found)
	}
}

func TestGroupsAreFound(t *testing.T) {
	const membership = "12:cpu,memory:/a/b\n5:cpu:/x\nnonsense\n0::/u (deleted)\n"
	if v1, v2 := namesOf(membership); v1 != "/a/b" || v2 != "/u" {
		t.Errorf("%q %q", v1, v2)
	}
	const mountinfo = "30 23 0:26 / /sys/fs/cgroup\\040x rw shared:4 - cgroup2 cgroup2 rw\n" +
		"31 23 0:27 /a /m rw - cgroup cgroup rw,memory\n32 23 0:28 / /c rw - cgroup cgroup rw,cpu\nnonsense - x\n"
	want := []mount{{"/", "/sys/fs/cgroup x", true}, {"/a", "/m", false}}
	found := mountsOf(mountinfo)
	if !reflect.DeepEqual(found, want) {
		t.Fatalf("%+v", found)
	}
	for _, c := range []struct {
		mount      mount
		name, want string
	}{
		{want[0], "/u/v", "/sys/fs/cgroup x/u/v"},
		{want[1], "/a/b", "/m/b"},
		{want[1], "/a", "/m"},
		{want[1], "/ab", ""},
		{want[1], "/", ""},
		{want[0], "", ""},
		{want[0], "/../x", ""},
		{mount{"/..", "/m", true}, "/", ""},
	} {
		dir, ok := c.mount.below(c.name)
		if dir != c.want || ok != (c.want != "") {
			t.Errorf("%+v %s: %s", c.mount, c.name, dir)
		}
	}
}

func TestTheTightestGroupBinds(t *testing.T) {
	const stat = "anon 0\ninactive_file 20971520\nfile_dirty 10485760\nswapcached 4096\n"
	dir := write(t, map[string]string{
		"cgroup.controllers": "cpu memory\n",
		"a/memory.max":       "104857600\n", "a/memory.current": "62914560\n", "a/memory.stat": stat,
		"a/b/memory.max": "max\n",
	})
	m := mount{"/", dir, true}
	if !m.hasMemory() {
		t.Error("it has no memory controller")
	}
	groups := above(filepath.Join(dir, "a/b"), m)
	if len(groups) != 3 {
		t.Fatalf("%+v", groups)
	}
	s := Sensor{groups: groups, pid: os.Getpid()}
	if tightest, err := s.tightest(); err != nil || tightest != (domain{100 * mib, 50 * mib}) {
		t.Errorf("%+v, %v", tightest, err)
	}
	// Without a limit, or far from it, the machine binds.
	if _, bounded, err := groups[1].read(99*mib, 1<<40); bounded || err != nil {
		t.Errorf("%v, %v", bounded, err)
	}
	if _, bounded, err := groups[1].read(1<<40, 39*mib); bounded || err != nil {
		t.Errorf("%v, %v", bounded, err)
	}
	// A group that is removed is looked for anew.
	if err := os.RemoveAll(filepath.Join(dir, "a")); err != nil {
		t.Fatal(err)
	}
	if now := s.Look(); now.Capacity == 0 || s.looks != looksPerScan {
		t.Errorf("%+v", now)
	}
}

func TestVersionOneCountsTheGroupsBelow(t *testing.T) {
	const stat = "rss 1\ninactive_file 1\ndirty 0\ntotal_inactive_file 5242880\ntotal_dirty 1048576\n"
	dir := write(t, map[string]string{
		"memory.limit_in_bytes": "9223372036854771712\n", "memory.use_hierarchy": "0\n",
		"a/memory.limit_in_bytes": "104857600\n", "a/memory.usage_in_bytes": "104857600\n", "a/memory.stat": stat,
		"a/memory.use_hierarchy": "1\n",
	})
	m := mount{"/", dir, false}
	groups := above(filepath.Join(dir, "a"), m)
	if !m.hasMemory() || len(groups) != 1 {
		t.Fatalf("the group above does not bind: %+v", groups)
	}
	if here, bounded, err := groups[0].read(1<<40, 1<<40); !bounded || err != nil || here.room() != 4*mib {
		t.Errorf("%+v, %v", here, err)
	}
}
