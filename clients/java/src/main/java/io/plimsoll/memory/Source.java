package io.plimsoll.memory;

/** Where numbers come from. */
public enum Source {
  /** A broker that is alive. */
  BROKER,
  /**
   * A broker that gave no sign of life lately: its last numbers. Lasts for the moment that it takes
   * to check.
   */
  STALE,
  /** Local sensing, because there is no broker. */
  LOCAL
}
