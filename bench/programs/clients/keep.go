// keep keeps memory in the client's hands: keep MIB. It fills so many blocks, says so, and gives back what is owed.
package main

import (
	"fmt"
	"os"
	"plimsoll"
	"strconv"
	"time"
)

const (
	mib   = 1 << 20
	reads = 2_000_000
)

func main() {
	count, err := strconv.Atoi(os.Args[1])
	if err != nil {
		panic(err)
	}
	p, err := plimsoll.Open("keep", plimsoll.Options{Adapter: "self"})
	if err != nil {
		panic(err)
	}
	begun := time.Now()
	for range reads {
		p.Read()
	}
	fmt.Printf("{\"read_ns\": %.1f}\n", float64(time.Since(begun).Nanoseconds())/reads)
	blocks := make([][]byte, count)
	for i := range blocks {
		blocks[i] = make([]byte, mib)
		for at := 0; at < mib; at += 4096 {
			blocks[i][at] = 1
		}
	}
	fmt.Printf("{\"ready\": %d}\n", count*mib)
	defer p.OnChange(func(now plimsoll.Reading) uint64 {
		if now.Owed == 0 {
			return 0
		}
		return plimsoll.FreeMemory(func() {
			drop := min((int(now.Owed)+mib-1)/mib, len(blocks))
			clear(blocks[:drop])
			blocks = blocks[drop:]
		})
	})()
	select {}
}
