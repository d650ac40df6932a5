package plimsoll

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The quick start of README.md runs as it stands.
func TestTheQuickStartRuns(t *testing.T) {
	text, err := os.ReadFile("README.md")
	must(t, err)
	_, rest, _ := strings.Cut(string(text), "```go\n")
	quickStart, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("README.md has no block of Go")
	}
	here, err := os.Getwd()
	must(t, err)
	dir := t.TempDir()
	module := "module quickstart\n\ngo 1.21\n\nrequire plimsoll v0.1.0\n\nreplace plimsoll => " + here + "\n"
	must(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte(module), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(quickStart), 0o600))
	f := startFake(t, t.TempDir(), good, 1)
	command := exec.Command("go", "run", ".")
	command.Dir = dir
	command.Env = append(os.Environ(), "PLIMSOLL_SOCKET="+f.socket(), "GOPROXY=off", "GOWORK=off")
	output, err := command.CombinedOutput()
	if err != nil || !strings.Contains(string(output), "may use 104857600 bytes") {
		t.Errorf("%v: %s", err, output)
	}
}
