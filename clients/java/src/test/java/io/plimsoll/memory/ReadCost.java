package io.plimsoll.memory;

import java.util.Arrays;
import java.util.function.LongSupplier;

/**
 * Measures the cost of reading the numbers, and prints one JSON object: nanoseconds per call. If a
 * broker runs, the numbers are the broker's.
 */
public final class ReadCost {
  private static final int ROUNDS = 501;
  private static final int CALLS = 20_000;

  private static volatile long sink;

  private ReadCost() {}

  /** Median and minimum of the rounds. */
  private static double[] measure(LongSupplier call) {
    double[] costs = new double[ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
      long sum = 0;
      long began = System.nanoTime();
      for (int calls = 0; calls < CALLS; calls++) {
        sum += call.getAsLong();
      }
      costs[round] = (double) (System.nanoTime() - began) / CALLS;
      sink = sum;
    }
    Arrays.sort(costs);
    return new double[] {costs[ROUNDS / 2], costs[0]};
  }

  /**
   * Measures and prints.
   *
   * @param arguments none
   * @throws Exception when no principal can be opened
   */
  public static void main(String[] arguments) throws Exception {
    try (Principal principal = Principal.builder("read-cost").adapter("self").open()) {
      double[] read = measure(() -> principal.read().limit());
      Numbers[] kept = new Numbers[1];
      double[] whole =
          measure(
              () -> {
                kept[0] = principal.read();
                return kept[0].uses();
              });
      double[] limit = measure(principal::limit);
      System.out.printf(
          "{\"unit\":\"ns\",\"source\":\"%s\",\"read\":{\"median\":%.2f,\"min\":%.2f},"
              + "\"read_kept\":{\"median\":%.2f,\"min\":%.2f},"
              + "\"limit\":{\"median\":%.2f,\"min\":%.2f}}%n",
          principal.read().source(), read[0], read[1], whole[0], whole[1], limit[0], limit[1]);
    }
  }
}
