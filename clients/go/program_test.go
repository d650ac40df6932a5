package plimsoll

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// programVariable names the program as which this test binary runs: principals need processes of their own.
const programVariable = "PLIMSOLL_TEST_PROGRAM"

var programs = map[string]func() error{
	"cache": runCache, "follow": runFollow, "tell": runTell, "starve": runStarve, "rejoin": runRejoin,
}

func TestMain(m *testing.M) {
	name := os.Getenv(programVariable)
	if name == "" {
		os.Exit(m.Run())
	}
	// It ends with the test that started it.
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(3)
	}()
	if err := programs[name](); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// program is this test binary, running as one of the programs.
type program struct {
	*exec.Cmd
	lines chan string // of its output; closed at the end
}

// startProgram starts a program of a broker, with further variables. It ends with the test.
func startProgram(t *testing.T, name, socket string, variables ...string) *program {
	t.Helper()
	executable, err := os.Executable()
	must(t, err)
	return startCommand(t, exec.Command(executable), name, socket, variables...)
}

func startCommand(t *testing.T, command *exec.Cmd, name, socket string, variables ...string) *program {
	t.Helper()
	command.Env = append(os.Environ(), programVariable+"="+name, "PLIMSOLL_SOCKET="+socket)
	command.Env = append(command.Env, variables...)
	command.Stderr = os.Stderr
	stdin, err := command.StdinPipe()
	must(t, err)
	stdout, err := command.StdoutPipe()
	must(t, err)
	p := &program{command, make(chan string, 100_000)}
	must(t, command.Start())
	go func() {
		defer close(p.lines)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			p.lines <- lines.Text()
		}
	}()
	t.Cleanup(func() {
		_ = stdin.Close()
		p.kill()
	})
	return p
}

func (p *program) kill() {
	_ = p.Process.Signal(syscall.SIGKILL)
	_ = p.Wait()
}

// until waits for a line that contains a text.
func (p *program) until(t *testing.T, text string) string {
	t.Helper()
	timeout := time.After(2 * soon)
	for {
		select {
		case line, ok := <-p.lines:
			if !ok {
				t.Fatalf("the program ended before it said %q", text)
			}
			if strings.Contains(line, text) {
				return line
			}
		case <-timeout:
			t.Fatalf("the program never said %q", text)
		}
	}
}

// runCache is the cache of the documentation: it fills itself up to its limit, and gives back what it owes.
func runCache() error {
	const block = 1 << 20
	p, err := Open("cache", Options{})
	if err != nil {
		return err
	}
	defer p.Close()
	var blocks [][]byte
	for {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		_, err := p.Wait(ctx)
		cancel()
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		now := p.Read()
		switch {
		case now.Owed > 0:
			drop := min(int((now.Owed+block-1)/block), len(blocks))
			freed := FreeMemory(func() {
				for i := len(blocks) - drop; i < len(blocks); i++ {
					blocks[i] = nil
				}
				blocks = blocks[:len(blocks)-drop]
			})
			p.Released(freed)
			fmt.Printf("limit %d owed %d freed %d cached %d\n", now.Limit, now.Owed, freed, len(blocks)*block)
		case now.Room() > 2*block:
			fresh := make([]byte, block)
			for i := 0; i < block; i += 4096 {
				fresh[i] = 1
			}
			blocks = append(blocks, fresh)
		}
	}
}

// runTell says which principal it is, once it is joined.
func runTell() error {
	p, err := Open("own-name", Options{})
	if err != nil {
		return err
	}
	defer p.Close()
	id, ok := p.ID()
	now := p.Read()
	fmt.Printf("id %d %v source %v named %s limit %d\n", id, ok, now.Source, os.Getenv("PLIMSOLL_ID"), now.Limit)
	time.Sleep(time.Hour)
	return nil
}

// runRejoin says at which brokers it is.
func runRejoin() error {
	p, err := Open("stopped", Options{Timeout: soon})
	if err != nil {
		return err
	}
	defer p.Close()
	for {
		event, err := p.Wait(context.Background())
		if err != nil {
			return err
		}
		id, _ := p.ID()
		fmt.Printf("%v %d\n", event.Kind, id)
	}
}

// runStarve works without any descriptor to be had, and joins once there are some.
func runStarve() error {
	file, err := os.Open("/proc/self/stat") // Go's runtime needs a descriptor for its first file
	if err != nil {
		return err
	}
	var before, none syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
		return err
	}
	none = before
	none.Cur = 0
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none); err != nil {
		return err
	}
	p, err := Open("starving", Options{Socket: os.Getenv("PLIMSOLL_SOCKET")})
	if err != nil {
		return err
	}
	defer p.Close()
	now := p.Read()
	fmt.Printf("source %v limit %v\n", now.Source, now.Limit > 0)
	// Local sensing and tries to join go on meanwhile.
	time.Sleep(2 * time.Second)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
		return err
	}
	_ = file.Close()
	for p.Read().Source == SourceLocal {
		time.Sleep(10 * time.Millisecond)
	}
	fmt.Println("joined")
	time.Sleep(time.Hour)
	return nil
}

func TestExhaustedDescriptorsDelayAJoin(t *testing.T) {
	f := startFake(t, t.TempDir(), good, 1)
	p := startProgram(t, "starve", f.socket())
	if line := p.until(t, "source"); line != "source local limit true" {
		t.Error(line)
	}
	p.until(t, "joined")
}

func TestAProcessThatWasStoppedFindsTheNextBroker(t *testing.T) {
	dir := t.TempDir()
	f := startFake(t, dir, good, 1)
	p := startProgram(t, "rejoin", f.socket())
	p.until(t, "joined 1")
	must(t, p.Process.Signal(syscall.SIGSTOP))
	// The broker cuts it off, and its page grows older than a broker that lives.
	f.kill()
	time.Sleep(4 * time.Second)
	startFake(t, dir, good, 9)
	must(t, p.Process.Signal(syscall.SIGCONT))
	p.until(t, "joined 9")
}
