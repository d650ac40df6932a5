package io.plimsoll.memory;

import java.nio.charset.StandardCharsets;

/** Checks of parameters, by the same rules as the broker's. */
final class Checks {
  private static final int MAX_NAME = 64;
  private static final int MAX_ADAPTER = 32;
  private static final long LEAST_MAX = 1 << 20;
  private static final long MOST_MAX = 1L << 62;

  /** Marks that change the direction or the line on a terminal or in a page. */
  private static final String TURNING =
      "\u061C\u200E\u200F\u2028\u2029\u202A\u202B\u202C\u202D\u202E\u2066\u2067\u2068\u2069\uFEFF";

  private Checks() {}

  static String name(String name) {
    int length = name.getBytes(StandardCharsets.UTF_8).length;
    require(
        length >= 1 && length <= MAX_NAME,
        "a name has 1 to " + MAX_NAME + " bytes, this one has " + length);
    require(
        name.chars().noneMatch(each -> Character.isISOControl(each) || TURNING.indexOf(each) >= 0),
        "a name holds printable text only: leave out control characters and marks of direction");
    return name;
  }

  static String adapter(String adapter) {
    boolean isPlain =
        adapter
            .chars()
            .allMatch(
                each -> each >= 'a' && each <= 'z' || each >= '0' && each <= '9' || each == '-');
    require(
        isPlain && !adapter.isEmpty() && adapter.length() <= MAX_ADAPTER,
        "the name of an adapter has 1 to " + MAX_ADAPTER + " bytes of a to z, 0 to 9 and -");
    return adapter;
  }

  static int weight(int weight) {
    require(weight >= 1 && weight <= 10_000, "a weight is 1 to 10000, not " + weight);
    return weight;
  }

  static int priority(int priority) {
    require(priority >= -100 && priority <= 100, "a priority is -100 to 100, not " + priority);
    return priority;
  }

  static long pid(long pid) {
    require(pid >= 1 && pid <= Integer.MAX_VALUE, pid + " is no process number");
    return pid;
  }

  /** A maximum; 0 means none. */
  static long max(long bytes) {
    require(
        bytes == 0 || bytes >= LEAST_MAX && bytes <= MOST_MAX,
        "a maximum is 1 MiB or more, or 0 for none, not " + bytes + " bytes");
    return bytes;
  }

  static long bytes(long bytes) {
    require(bytes >= 0, bytes + " is no size: give 0 or more");
    return bytes;
  }

  private static void require(boolean isValid, String advice) {
    if (!isValid) {
      throw new IllegalArgumentException(advice);
    }
  }
}
