package io.plimsoll.memory.govern;

import io.plimsoll.memory.Numbers;

/**
 * The numbers that a program follows, bytes.
 *
 * @param limit may be used now
 * @param owed must be given back
 * @param uses the use of the program as the broker counts it; 0 if unknown
 */
public record Granted(long limit, long owed, long uses) {
  /**
   * Takes them from a principal's numbers.
   *
   * @param numbers the numbers
   * @return the three that matter
   */
  public static Granted of(Numbers numbers) {
    return new Granted(numbers.limit(), numbers.owed(), numbers.uses());
  }
}
