package plimsoll

import (
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// freeing lets only one part of a program at a time count the bytes that it frees.
var freeing sync.Mutex

// FreeMemory calls drop, which lets go of data, collects, gives what became free to the system, and returns
// how many bytes that were. Without that, Go keeps freed memory for some time, and it stays owed. It costs a
// collection. If several goroutines call it, one does so at a time; so drop had better read anew what is owed.
func FreeMemory(drop func()) (freed uint64) {
	freeing.Lock()
	defer freeing.Unlock()
	before := readHeap().mapped
	drop()
	debug.FreeOSMemory()
	return minus(before, readHeap().mapped)
}

// heap is the memory of Go's runtime, as it counts it. Sizes are bytes.
type heap struct {
	mapped      uint64 // all that it has from the system, as [debug.SetMemoryLimit] counts it
	live        uint64 // of objects that the last collection found in use
	overhead    uint64 // stacks, tables of the runtime, and the like
	allocated   uint64 // of all objects ever made
	collections uint64
	busy        float64 // processor time of collections, seconds
}

// heapMetrics are in the order of [readHeap].
var heapMetrics = [...]string{
	"/memory/classes/total:bytes",
	"/memory/classes/heap/released:bytes",
	"/memory/classes/heap/objects:bytes",
	"/memory/classes/heap/free:bytes",
	"/memory/classes/heap/unused:bytes",
	"/gc/heap/live:bytes",
	"/gc/heap/allocs:bytes",
	"/gc/cycles/total:gc-cycles",
	"/cpu/classes/gc/total:cpu-seconds",
	"/cpu/classes/gc/mark/idle:cpu-seconds", // processor time that nobody else wanted
}

func readHeap() heap {
	var samples [len(heapMetrics)]metrics.Sample
	for i, name := range heapMetrics {
		samples[i].Name = name
	}
	metrics.Read(samples[:])
	number := func(i int) uint64 { return samples[i].Value.Uint64() }
	h := heap{
		mapped:      minus(number(0), number(1)),
		live:        number(5),
		allocated:   number(6),
		collections: number(7),
		busy:        max(samples[8].Value.Float64()-samples[9].Value.Float64(), 0),
	}
	h.overhead = minus(h.mapped, number(2)+number(3)+number(4))
	return h
}
