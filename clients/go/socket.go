package plimsoll

import (
	"encoding/binary"
	"fmt"
	"io/fs"
	"math/bits"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

const (
	systemSocket = "/run/plimsoll/broker.sock"
	anyUser      = -1
)

// A place is where a broker may listen.
type place struct {
	path string
	// The user who has to own the directory and run the broker; anyUser where the protection of the
	// directory is enough.
	owner int
}

// surroundings are what the usual places depend on.
type surroundings struct {
	socket     string // PLIMSOLL_SOCKET
	runtimeDir string // XDG_RUNTIME_DIR, if it is the user's own
	home       string // HOME, if it is the user's own
	uid        int
}

func ownSurroundings() surroundings {
	uid := os.Getuid()
	own := func(name string) string {
		directory := variable(name)
		if !isOwnDirectory(directory, uid) {
			return ""
		}
		return directory
	}
	return surroundings{
		socket:     variable("PLIMSOLL_SOCKET"),
		runtimeDir: own("XDG_RUNTIME_DIR"),
		home:       own("HOME"),
		uid:        uid,
	}
}

// candidates are the places, in the order to try them.
func candidates(around surroundings) []place {
	if around.socket != "" {
		return []place{{around.socket, anyUser}}
	}
	byUser := fmt.Sprintf("/run/user/%d", around.uid)
	var found []place
	add := func(parts ...string) {
		found = append(found, place{filepath.Join(parts...), around.uid})
	}
	if around.runtimeDir != "" && around.runtimeDir != byUser {
		add(around.runtimeDir, "plimsoll/broker.sock")
	}
	add(byUser, "plimsoll/broker.sock")
	add(fmt.Sprintf("/tmp/plimsoll-%d/broker.sock", around.uid))
	if around.home != "" {
		add(around.home, ".cache/plimsoll/broker.sock")
	}
	return append(found, place{systemSocket, anyUser})
}

// pageOf is the path of a principal's page, for a broker that does not tell it.
func (p place) pageOf(id uint64) string {
	return filepath.Join(filepath.Dir(p.path), "pages", fmt.Sprint(id))
}

// checkDirectory checks the socket's directory. Where everybody may write, anybody could create it first.
// So it has to be ours, no link, and closed to others unless others cannot reach it.
func (p place) checkDirectory() error {
	if p.owner == anyUser {
		return nil
	}
	directory := filepath.Dir(p.path)
	found, err := os.Lstat(directory)
	if err != nil {
		return &absentError{"cannot look at " + directory, err}
	}
	refused := func(format string, values ...any) error {
		return &untrustedError{directory, fmt.Sprintf(format, values...)}
	}
	if !found.IsDir() {
		return refused("it is not a directory")
	}
	if uid := ownerOf(found); uid != p.owner {
		return refused("it belongs to user %d", uid)
	}
	others := fs.FileMode(0o077)
	above, err := os.Stat(filepath.Dir(directory))
	if err == nil && above.Mode().Perm()&0o001 == 0 {
		others = 0o022
	}
	if found.Mode().Perm()&others != 0 {
		return refused("others than its owner may use it")
	}
	return nil
}

// checkPeer checks that the process that answers belongs to the owner or to root.
func (p place) checkPeer(conn *net.UnixConn) error {
	if p.owner == anyUser {
		return nil
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return &absentError{"cannot see who listens at " + p.path, err}
	}
	var peer *syscall.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) {
		peer, failed = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return &absentError{"cannot see who listens at " + p.path, err}
	}
	if uid := int(peer.Uid); uid != p.owner && uid != 0 {
		return &untrustedError{p.path, fmt.Sprintf("user %d listens there", uid)}
	}
	return nil
}

// isOwnDirectory tells whether a directory belongs to this user. `su` leaves the previous user's directory in
// the environment; a broker there is not to be trusted.
func isOwnDirectory(directory string, uid int) bool {
	if !filepath.IsAbs(directory) {
		return false
	}
	found, err := os.Stat(directory)
	return err == nil && ownerOf(found) == uid
}

func ownerOf(file fs.FileInfo) int {
	if stat, ok := file.Sys().(*syscall.Stat_t); ok {
		return int(stat.Uid)
	}
	return anyUser
}

// variable is the value of a variable; empty if it is not set or the environment is not trusted.
func variable(name string) string {
	value := os.Getenv(name)
	if value == "" || !isTrusted() {
		return ""
	}
	return value
}

// isTrusted tells whether this process has no more rights than the user who started it (AT_SECURE in
// getauxval(3)). With more rights, its variables come from somebody with fewer rights. Such a process may
// not even read the file.
func isTrusted() bool {
	const atSecure, word = 23, bits.UintSize / 8
	vector, err := os.ReadFile("/proc/self/auxv")
	if err != nil {
		return false
	}
	number := func(at int) uint64 {
		if word == 4 {
			return uint64(binary.NativeEndian.Uint32(vector[at:]))
		}
		return binary.NativeEndian.Uint64(vector[at:])
	}
	for at := 0; at+2*word <= len(vector); at += 2 * word {
		if number(at) == atSecure {
			return number(at+word) == 0
		}
	}
	return false
}

// namesOf lists the paths of places, for people.
func namesOf(places []place) string {
	names := make([]string, len(places))
	for i, place := range places {
		names[i] = place.path
	}
	return strings.Join(names, ", ")
}
