package io.plimsoll.memory;

import io.plimsoll.memory.internal.page.Page;
import io.plimsoll.memory.internal.wire.Connection;
import java.nio.file.Path;
import java.util.Optional;

/** The principal at a broker. */
final class Bond {
  final long id;
  final Path path;
  final Connection control;
  final Connection stream;

  /** The broker's page; null where it cannot be read, and the stream tells the numbers. */
  Page page;

  /** The last message of the stream. */
  Changed last;

  /** When the broker last gave a sign of life other than on the page. */
  long heard;

  /** Whether the stream may hold further changes that were already received. */
  boolean hasMore;

  /** Whether the broker is not known to be older than the field {@code worth} of a report. */
  private boolean takesWorth = true;

  Bond(Join.Joined joined) {
    id = joined.found().id();
    path = joined.found().page();
    control = joined.control();
    stream = joined.stream();
    last = joined.first();
    heard = System.nanoTime();
  }

  /** The numbers from the stream, as heard at this time. */
  Numbers numbers(long now) {
    return last.numbers().from(Source.BROKER, last.numbers().generation(), now);
  }

  void close() {
    control.close();
    stream.close();
  }

  /**
   * Sends a report. An older broker refuses the whole of it for a field that it does not know.
   *
   * @throws PlimsollException when the broker refuses, or does not take it in time
   */
  void report(Report report) throws PlimsollException {
    Report sent = takesWorth ? report : report.withoutWorth();
    if (sent.isEmpty()) {
      return;
    }
    try {
      control.call(Calls.report(id, sent));
    } catch (PlimsollException refusal) {
      if (!sent.hasWorth() || !refusal.parameter().equals(Optional.of("worth"))) {
        throw refusal;
      }
      takesWorth = false;
      report(report);
    }
  }
}
