// Package plimsoll tells a program how much memory it may use now, and takes part in sharing memory with
// others by weight and priority.
//
// A program opens a [Principal] and reads at any time, within nanoseconds, how much memory it may use now. It
// waits for changes, or is called at them, where that suits it; it gives back what it owes, and reports that it
// did. If no broker runs, or the broker dies, the numbers come from local sensing: from what the library can
// observe by itself. Every wait for a broker has a time limit, and reading cannot fail.
//
//	p, err := plimsoll.Open("my-cache", plimsoll.Options{Weight: 50})
//	if err != nil {
//		return err
//	}
//	defer p.Close()
//	stop := p.OnChange(func(now plimsoll.Reading) (freed uint64) {
//		if now.Owed == 0 {
//			return 0
//		}
//		return plimsoll.FreeMemory(func() { cache.Drop(now.Owed) })
//	})
//	defer stop()
//	// Before the cache grows:
//	if p.Read().Room() >= bytes {
//		cache.Add(entry)
//	}
//
// [Follow] keeps the memory limit of Go's runtime at what the process may use. [Principal.MemoryLimit] is a
// provider for github.com/KimMachineGun/automemlimit. Module plimsoll/cache has a cache that sizes itself.
//
// All sizes are bytes. Times are nanoseconds of CLOCK_MONOTONIC unless a name or type says otherwise.
//
// # Effects on a program
//
// Importing the package does nothing. An open principal has two goroutines, two connections that are closed on
// exec, and one mapped page. It needs no signal handler: where somebody truncates that page, the fault ends in
// the package ([runtime/debug.SetPanicOnFault], for the few instructions of a read). A process that has more
// rights than the user who started it trusts no variable of that user. Linux only.
package plimsoll
