package io.plimsoll.memory;

/**
 * Messages that wait to be sent. Reports are merged and released bytes summed, so it never grows.
 * Belongs to the lock of the principal.
 */
final class Outbox {
  /** All reports so far, merged: a new broker gets all of it. */
  private final Report known = new Report();

  private boolean isReportNew;
  private long released;

  /**
   * Messages to send now.
   *
   * @param report null if there is no news
   * @param released bytes
   */
  record Contents(Report report, long released) {}

  void report(Report news) {
    known.merge(news);
    isReportNew = true;
  }

  void released(long bytes) {
    released = Saturating.plus(released, bytes);
  }

  boolean isEmpty() {
    return !isReportNew && released == 0;
  }

  /** A new broker needs the whole report again, but released bytes are old news. */
  void startAnew() {
    isReportNew |= !known.isEmpty();
    released = 0;
  }

  Contents take() {
    Contents contents = new Contents(isReportNew ? known.copy() : null, released);
    isReportNew = false;
    released = 0;
    return contents;
  }
}
