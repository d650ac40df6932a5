package plimsoll

import (
	"os"
	"syscall"
	"testing"
)

func BenchmarkRead(b *testing.B) {
	p := openAt(b, startFake(b, b.TempDir(), good, 1), Options{})
	b.ResetTimer()
	for i := 0; i < b.N; i++ {
		p.Read()
	}
}

func BenchmarkReadAlone(b *testing.B) {
	p, err := Open("alone", Options{Alone: true})
	must(b, err)
	defer p.Close()
	b.ResetTimer()
	for i := 0; i < b.N; i++ {
		p.Read()
	}
}

// A page without the guard: a truncated one would kill.
func BenchmarkReadUnguarded(b *testing.B) {
	p := openAt(b, startFake(b, b.TempDir(), good, 1), Options{})
	page := p.view.Load().page
	var reading Reading
	b.ResetTimer()
	for i := 0; i < b.N; i++ {
		page.words.read(&reading)
	}
}

// The way without a mapping.
func BenchmarkReadFile(b *testing.B) {
	f := startFake(b, b.TempDir(), good, 1)
	openAt(b, f, Options{})
	file, err := os.Open(f.pagePath(1))
	must(b, err)
	defer file.Close()
	var page [pageWords * 8]byte
	b.ResetTimer()
	for i := 0; i < b.N; i++ {
		if _, err := syscall.Pread(int(file.Fd()), page[:], 0); err != nil {
			b.Fatal(err)
		}
	}
}
