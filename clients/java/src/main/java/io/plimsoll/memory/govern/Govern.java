package io.plimsoll.memory.govern;

import io.plimsoll.memory.Report;
import java.util.OptionalLong;

/**
 * The result of a look. Sizes are bytes.
 *
 * @param family the use of the rest of the family: descendants that are no principals of their own
 * @param processLimit this process may use as much before it collects
 * @param heapLimit the part of that for its heap
 * @param releaseTo the size to which the heap is to shrink now, if the use is too high
 * @param mayRelease whether a release would help, as far as the last one tells
 * @param due the facts of a report that is due, or null. The sender adds what the collector knows
 */
public record Govern(
    long family,
    long processLimit,
    long heapLimit,
    OptionalLong releaseTo,
    boolean mayRelease,
    Due due) {

  /**
   * The facts of a report that is due.
   *
   * @param allocationRate bytes per second; unknown in the first second
   * @param floor bytes
   * @param reactionMs how long the last release took, milliseconds
   */
  public record Due(OptionalLong allocationRate, long floor, long reactionMs) {
    /**
     * Makes a report of the facts.
     *
     * @return the report, to which the facts of the collector can be added
     */
    public Report report() {
      Report report = new Report().floor(floor).reactionMs(reactionMs);
      allocationRate.ifPresent(report::allocationRate);
      return report;
    }
  }
}
