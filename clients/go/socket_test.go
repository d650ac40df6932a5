package plimsoll

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestPlacesAreTriedInOrder(t *testing.T) {
	const ends = "/tmp/plimsoll-1234/broker.sock /run/plimsoll/broker.sock"
	const user = "/run/user/1234/plimsoll/broker.sock "
	for _, c := range []struct {
		around surroundings
		want   string
	}{
		{surroundings{}, user + ends},
		{surroundings{runtimeDir: "/x"}, "/x/plimsoll/broker.sock " + user + ends},
		{surroundings{runtimeDir: "/run/user/1234"}, user + ends},
		{surroundings{home: "/h"}, user + strings.Replace(ends, " ", " /h/.cache/plimsoll/broker.sock ", 1)},
		{surroundings{home: "/h", socket: "/y.sock"}, "/y.sock"},
	} {
		c.around.uid = 1234
		found := strings.ReplaceAll(namesOf(candidates(c.around)), ", ", " ")
		if found != c.want {
			t.Errorf("%+v: %s", c.around, found)
		}
	}
	if page := (place{path: "/a/b.sock"}).pageOf(7); page != "/a/pages/7" {
		t.Error(page)
	}
}

func TestADirectoryInTmpHasToBeTheUsersOwn(t *testing.T) {
	above := t.TempDir()
	must(t, os.Chmod(above, 0o755))
	dir := filepath.Join(above, "plimsoll")
	at := place{filepath.Join(dir, "broker.sock"), os.Getuid()}
	check := func(want string) {
		t.Helper()
		err := at.checkDirectory()
		if want == "" && err != nil || want != "" && (!isUntrusted(err) || !strings.Contains(err.Error(), want)) {
			t.Errorf("expected %q: %v", want, err)
		}
	}
	if err := at.checkDirectory(); !isAbsent(err) {
		t.Errorf("nothing there is no attack: %v", err)
	}
	must(t, os.Symlink("/tmp", dir))
	check("not a directory")
	must(t, os.Remove(dir))
	must(t, os.Mkdir(dir, 0o755))
	check("others than its owner")
	must(t, os.Chmod(above, 0o700)) // others cannot reach it
	check("")
	must(t, os.Chmod(dir, 0o777))
	check("others than its owner")
	must(t, os.Chmod(dir, 0o700))
	at.owner++
	check("belongs to user")
}

func TestAProgramWhosePlaceAnotherUserTookIsAlone(t *testing.T) {
	dir := t.TempDir()
	p := &Principal{}
	w := wish{places: []place{{dir + "/broker.sock", os.Getuid() + 1}}, timeout: soon}
	if _, err := join(context.Background(), w, before{}, p.nudge); !isUntrusted(err) {
		t.Errorf("it joined: %v", err)
	}
}

func TestWhoListensIsChecked(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o700))
	listener, err := net.Listen("unix", dir+"/broker.sock")
	must(t, err)
	defer listener.Close()
	conn, err := net.Dial("unix", dir+"/broker.sock")
	must(t, err)
	defer conn.Close()
	unix := conn.(*net.UnixConn)
	must(t, place{dir, os.Getuid()}.checkPeer(unix))
	if err := (place{dir, os.Getuid() + 1}).checkPeer(unix); os.Getuid() != 0 && !isUntrusted(err) {
		t.Errorf("it was trusted: %v", err)
	}
}

func TestAFullQueueIsWaitedForAndNotForEver(t *testing.T) {
	dir := t.TempDir()
	listener, err := net.Listen("unix", dir+"/s")
	must(t, err)
	defer listener.Close()
	raw, err := listener.(*net.UnixListener).SyscallConn()
	must(t, err)
	shorten := func(fd uintptr) { err = listenWithQueue(int(fd), 1) }
	must(t, raw.Control(shorten))
	must(t, err)
	for i := 0; i < 100; i++ {
		held, err := dial(context.Background(), place{dir + "/s", anyUser}, 50*time.Millisecond)
		if err != nil {
			if !isAbsent(err) {
				t.Error(err)
			}
			return
		}
		defer held.close()
		if i == 0 {
			for _, want := range []string{"did not answer", "closed"} {
				err := held.call("List", nothing{}, &nothing{})
				if !isAbsent(err) || !strings.Contains(err.Error(), want) {
					t.Errorf("expected %q: %v", want, err)
				}
			}
		}
	}
	t.Error("the queue never filled")
}

func TestSocketsThatCannotBeUsedAreNoBrokers(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(dir+"/file", nil, 0o600))
	for _, path := range []string{dir + "/absent", dir + "/file", dir + strings.Repeat("x", 200)} {
		if _, err := dial(context.Background(), place{path, anyUser}, soon); !isAbsent(err) {
			t.Errorf("%s: %v", path, err)
		}
	}
	all := []place{{"/nowhere/a", anyUser}, {"/nowhere/b", anyUser}}
	_, err := dialFirst(context.Background(), all, soon)
	if err == nil || !strings.Contains(err.Error(), "/nowhere/a, /nowhere/b") {
		t.Error(err)
	}
}

func TestDirectoriesOfOthersAreNotTakenFromTheEnvironment(t *testing.T) {
	own, uid := t.TempDir(), os.Getuid()
	found := []bool{
		isOwnDirectory(own, uid), isOwnDirectory(own, uid+1), isOwnDirectory(".", uid), isOwnDirectory("", uid),
		isOwnDirectory(own+"/absent", uid),
	}
	if !reflect.DeepEqual(found, []bool{true, false, false, false, false}) {
		t.Error(found)
	}
	t.Setenv("PLIMSOLL_SOCKET", "/named")
	t.Setenv("XDG_RUNTIME_DIR", own)
	if around := ownSurroundings(); around.socket != "/named" || around.runtimeDir != own || around.uid != uid {
		t.Error(fmt.Sprint(around))
	}
}
