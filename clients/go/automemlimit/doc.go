// Package automemlimit has the tests of [plimsoll.Principal.MemoryLimit] as a provider of
// github.com/KimMachineGun/automemlimit, on which package plimsoll does not depend:
//
//	memlimit.Set(memlimit.WithProvider(p.MemoryLimit))
package automemlimit

import _ "plimsoll" // for the reference above
