package io.plimsoll.memory;

/**
 * The result of {@link Principal#await}. Changes that come faster than they are fetched are merged:
 * the last numbers are always told, earlier ones may be skipped.
 *
 * @param kind the kind of change
 * @param numbers the numbers at that moment
 */
public record Event(Kind kind, Numbers numbers) {

  /** The kinds of events. */
  public enum Kind {
    /** Nothing happened in that time, or {@link Principal#interrupt} ended the wait. */
    TIMEOUT,
    /**
     * Memory must be given back before the deadline. The debt is new, larger, or has another
     * deadline.
     */
    OWED,
    /** Nothing is owed any more, or the level fell. The principal may grow to its limit again. */
    RELIEF,
    /** Other numbers changed, usually the limit. */
    CHANGED,
    /** The broker is gone. The numbers are local now. */
    BROKER_LOST,
    /** A broker runs (again) and knows the principal. */
    JOINED
  }
}
