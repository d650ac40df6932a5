package plimsoll

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// listenWithQueue makes the queue of a listening socket shorter.
func listenWithQueue(fd, length int) error { return syscall.Listen(fd, length) }

// TestBelieved prints the variables that are trusted, for the test below.
func TestBelieved(t *testing.T) {
	if os.Getenv("PLIMSOLL_TEST_RIGHTS") == "" {
		t.Skip("a part of the next test")
	}
	around := ownSurroundings()
	t.Logf("believes [%s] [%s] [%s]", around.socket, around.runtimeDir, variable("PLIMSOLL_ID"))
}

func TestWhoHasMoreRightsThanWhoStartedItBelievesNoVariable(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("skipped: another user needs root")
	}
	const nobody = 65534
	folder, err := os.MkdirTemp("/var/tmp", "plimsoll-test-go-")
	must(t, err)
	defer os.RemoveAll(folder)
	must(t, os.Chmod(folder, 0o755))
	runtimeDir, program := filepath.Join(folder, "runtime"), filepath.Join(folder, "program")
	must(t, os.Mkdir(runtimeDir, 0o755))
	must(t, os.Chown(runtimeDir, nobody, nobody))
	executable, err := os.Executable()
	must(t, err)
	content, err := os.ReadFile(executable)
	must(t, err)
	must(t, os.WriteFile(program, content, 0o755))
	believed := func() string {
		command := exec.Command(program, "-test.run=^TestBelieved$", "-test.v")
		command.Dir = folder
		command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		command.Env = []string{
			"PLIMSOLL_TEST_RIGHTS=1", "PLIMSOLL_SOCKET=/named", "PLIMSOLL_ID=7", "XDG_RUNTIME_DIR=" + runtimeDir,
		}
		output, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, output)
		}
		return string(output)
	}
	if told := believed(); !strings.Contains(told, "believes [/named] ["+runtimeDir+"] [7]") {
		t.Error(told)
	}
	// cap_net_bind_service=ep, as the kernel keeps it (linux/capability.h).
	capable := bytes.Repeat([]byte{0}, 20)
	copy(capable, []byte{1, 0, 0, 2, 0, 4})
	if err := syscall.Setxattr(program, "security.capability", capable, 0); err != nil {
		t.Skipf("skipped in part: files have no capabilities here: %v", err)
	}
	if told := believed(); !strings.Contains(told, "believes [] [] []") {
		t.Error(told)
	}
}
