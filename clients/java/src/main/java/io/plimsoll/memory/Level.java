package io.plimsoll.memory;

/** How urgent the numbers are, for programs that know levels only. */
public enum Level {
  /** It is within its limit. */
  NORMAL,
  /** It is at its limit and wants more, or it owes memory and has time left. */
  WARNING,
  /** It owes memory, and the deadline is near or past, or memory is being taken from it. */
  CRITICAL
}
