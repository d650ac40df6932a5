package io.plimsoll.memory.govern;

import java.math.BigInteger;

/** Products that do not fit into 64 bits. Results that do not are the largest number. */
final class WideMath {
  private static final BigInteger MOST = BigInteger.valueOf(Long.MAX_VALUE);

  private WideMath() {}

  /** The part of {@code value} that {@code times / of} is, rounded down; 0 of 0. */
  static long part(long value, long times, long of) {
    return of == 0 ? 0 : quotient(product(value, times), of);
  }

  /** The mean of two values, each by its part of the whole, rounded down. */
  static long mix(long one, long itsPart, long other, long otherPart, long whole) {
    return quotient(product(one, itsPart).add(product(other, otherPart)), whole);
  }

  private static BigInteger product(long one, long other) {
    return BigInteger.valueOf(one).multiply(BigInteger.valueOf(other));
  }

  private static long quotient(BigInteger product, long by) {
    return product.divide(BigInteger.valueOf(by)).min(MOST).longValue();
  }
}
