//go:build c

// Brings in the C library, and with it another way of making threads.
package main

// #include <stdlib.h>
import "C"

var fromC = C.malloc(1 << 20)
