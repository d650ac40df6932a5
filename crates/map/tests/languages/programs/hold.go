// Holds MiB of objects, half of them small, lets go of a quarter, and says what the runtime counts.
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"time"
)

type node struct {
	next *node
	pad  [6]uint64
}

// Waits in a deep stack.
func deep(left int, end chan bool) int {
	var pad [128]int
	pad[left%128] = left
	if left == 0 {
		<-end
		return pad[0]
	}
	return deep(left-1, end) + pad[left%128]
}

func main() {
	mib, _ := strconv.Atoi(os.Args[1])
	var small *node
	for i := 0; i < mib*(1<<20)/2/56; i++ {
		small = &node{next: small}
	}
	var large [][]byte
	for i := 0; i < mib/2; i++ {
		bytes := make([]byte, 1<<20)
		for j := 0; j < len(bytes); j += 4096 {
			bytes[j] = 1
		}
		large = append(large, bytes)
	}
	end := make(chan bool)
	for i := 0; i < 200; i++ {
		go deep(100, end)
	}
	large = large[:len(large)/2:len(large)/2]
	for i := range large[:cap(large)] {
		large[i][0] = 2
	}
	kept := append([][]byte(nil), large...)
	large = nil
	time.Sleep(100 * time.Millisecond)
	runtime.GC()
	runtime.GC()
	var says runtime.MemStats
	runtime.ReadMemStats(&says)
	fmt.Printf("heap=%d idle=%d stacks=%d\n", says.HeapInuse, says.HeapIdle, says.StackInuse)
	fmt.Scanln()
	fmt.Println(small, len(kept))
}
