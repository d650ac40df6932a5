package io.plimsoll.memory;

import java.io.IOException;
import java.io.Serial;

/**
 * A call failed. The message says what happened, to what, and what to do. Reading the numbers never
 * fails.
 */
public final class PlimsollException extends IOException {
  @Serial private static final long serialVersionUID = 1;

  /** The kind of failure. */
  private final Kind kind;

  /** The broker's name for a refusal, or the kind's name. */
  private final String error;

  /** The kinds of failures. */
  public enum Kind {
    /** No broker is there: none runs, it hangs, or it closed the connection. */
    ABSENT,
    /** Another user could have put the broker's socket there. */
    UNTRUSTED,
    /** The broker answered against the protocol. */
    PROTOCOL,
    /** The broker refused the call. */
    REFUSED,
    /** The kernel gave no thread, descriptor or memory, or the page cannot be used. */
    RESOURCE
  }

  /**
   * Makes a failure that is no refusal.
   *
   * @param kind the kind of failure
   * @param message what happened, to what, and what to do
   * @param cause the failure below it, or null
   */
  public PlimsollException(Kind kind, String message, Throwable cause) {
    this(kind, kind.name(), message, cause);
  }

  private PlimsollException(Kind kind, String error, String message, Throwable cause) {
    super(message, cause);
    this.kind = kind;
    this.error = error;
  }

  /**
   * Makes a refusal.
   *
   * @param error the name of the error, as the broker gives it
   * @param message the broker's message
   * @return the failure
   */
  public static PlimsollException refused(String error, String message) {
    return new PlimsollException(Kind.REFUSED, error, message, null);
  }

  /**
   * Returns the kind of failure.
   *
   * @return the kind
   */
  public Kind kind() {
    return kind;
  }

  /**
   * Returns the name of a refusal, for example {@code io.plimsoll.TooMany}.
   *
   * @return the broker's name of the error; for other failures the name of the kind
   */
  public String error() {
    return error;
  }

  /** Whether the broker refused with this error of the interface {@code io.plimsoll}. */
  boolean isRefusal(String name) {
    return kind == Kind.REFUSED && error.equals("io.plimsoll." + name);
  }
}
