/**
 * The rule of what a limit means inside a program: how large its heap may be, when it gives memory
 * back and down to what, how fast it allocates, and when it reports. Pure: no clock and no I/O.
 */
package io.plimsoll.memory.govern;
