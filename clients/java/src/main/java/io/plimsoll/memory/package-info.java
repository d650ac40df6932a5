/**
 * The client of Plimsoll: a program reads how much memory it may use now, gives back what it owes,
 * and says what it could use. {@link io.plimsoll.memory.Principal} is where to begin.
 *
 * <p>Sizes are bytes. Times are nanoseconds of {@code CLOCK_MONOTONIC} unless a name says
 * otherwise. Every wait for a broker is bounded. While none runs, the numbers come from local
 * sensing: the limit of the process's cgroup, the machine's memory, and what is free of it.
 */
package io.plimsoll.memory;
