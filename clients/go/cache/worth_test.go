package cache

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/maypok86/otter/v2"
	"plimsoll"
)

// told are the reports that a scripted broker took.
type told struct {
	mu     sync.Mutex
	worths []uint64
}

func (b *told) serve(conn net.Conn, limit uint64) {
	defer conn.Close()
	numbers := fmt.Sprintf(`{"limit":%d,"available":%d,"owed":0,"deadline":0,"uses":0,"share":0,"level":"normal"}`,
		limit, limit)
	replies := map[string]string{
		"io.plimsoll.Register":  `{"parameters":{"id":1,"page":"/none","pressure":"","weight":1,"priority":0}}`,
		"io.plimsoll.Subscribe": `{"parameters":{"id":1,"generation":1,"numbers":` + numbers + `},"continues":true}`,
	}
	for reader := bufio.NewReader(conn); ; {
		message, err := reader.ReadBytes(0)
		if err != nil {
			return
		}
		var asked struct {
			Method     string
			Parameters struct{ Worth *uint64 }
		}
		_ = json.Unmarshal(message[:len(message)-1], &asked)
		if worth := asked.Parameters.Worth; worth != nil {
			b.mu.Lock()
			b.worths = append(b.worths, *worth)
			b.mu.Unlock()
		}
		reply := replies[asked.Method]
		if reply == "" {
			reply = `{"parameters":{}}`
		}
		_, _ = conn.Write([]byte(reply + "\x00"))
	}
}

// cacheOf is a cache at a scripted broker.
func cacheOf(t *testing.T, options otter.Options[int, []byte]) (*Cache[int, []byte], *told) {
	t.Helper()
	socket := t.TempDir() + "/broker.sock"
	listener, err := net.Listen("unix", socket)
	must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	broker := &told{}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go broker.serve(conn, 1<<40)
		}
	}()
	p, err := plimsoll.Open("cache", plimsoll.Options{Socket: socket, Timeout: soon})
	must(t, err)
	t.Cleanup(func() { _ = p.Close() })
	options.Weigher = bytesOf
	c, err := New(p, options)
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c, broker
}

func (b *told) most() (most uint64, count int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, worth := range b.worths {
		most = max(most, worth)
	}
	return most, len(b.worths)
}

func TestItReportsWhatMoreMemoryIsWorth(t *testing.T) {
	c, broker := cacheOf(t, otter.Options[int, []byte]{})
	load := otter.LoaderFunc[int, []byte](func(context.Context, int) ([]byte, error) {
		time.Sleep(time.Millisecond)
		return make([]byte, 64<<10), nil
	})
	next := 0
	eventually(t, "memory is worth something", func() bool {
		// It is smaller than the data that are asked for.
		c.setMaximum(4 * mib)
		_, err := c.Get(context.Background(), next%72, load)
		must(t, err)
		next++
		most, _ := broker.most()
		return most > 0
	})
}

func TestACacheThatEvictsNothingGainsNothing(t *testing.T) {
	c, broker := cacheOf(t, otter.Options[int, []byte]{})
	load := otter.BulkLoaderFunc[int, []byte](func(_ context.Context, keys []int) (map[int][]byte, error) {
		return map[int][]byte{keys[0]: {1}}, nil
	})
	next := 0
	eventually(t, "that is told", func() bool {
		_, err := c.BulkGet(context.Background(), []int{next % 100}, load)
		must(t, err)
		c.Missed(next%100, time.Second)
		next++
		_, count := broker.most()
		return count > 1
	})
	if most, _ := broker.most(); most != 0 {
		t.Errorf("it is worth %d", most)
	}
}

func TestACacheAtItsMostGainsNothing(t *testing.T) {
	c, _ := cacheOf(t, otter.Options[int, []byte]{MaximumWeight: mib})
	fill(c, 0, 100)
	c.CleanUp()
	for key := 0; key < 100; key++ {
		c.Missed(key, time.Second)
	}
	eventually(t, "that is known", func() bool {
		worth, ok := c.Worth()
		return ok && worth == 0
	})
}
