package io.plimsoll.memory;

/** Arithmetic with sizes and times that never wraps: none of the numbers is negative. */
final class Saturating {
  private Saturating() {}

  static long plus(long one, long other) {
    long sum = one + other;
    return sum < 0 ? Long.MAX_VALUE : sum;
  }

  static long minus(long one, long other) {
    return Math.max(one - other, 0);
  }
}
