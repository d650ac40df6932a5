package io.plimsoll.memory;

import java.io.IOException;
import java.io.Serial;
import java.util.Optional;

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

  /** The parameter that the broker does not take; null where it names none. */
  private final String parameter;

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
    super(message, cause);
    this.kind = kind;
    this.error = kind.name();
    this.parameter = null;
  }

  private PlimsollException(String error, String message, String parameter) {
    super(message);
    this.kind = Kind.REFUSED;
    this.error = error;
    this.parameter = parameter;
  }

  /**
   * Makes a refusal.
   *
   * @param error the name of the error, as the broker gives it
   * @param message the broker's message
   * @return the failure
   */
  public static PlimsollException refused(String error, String message) {
    return refused(error, message, null);
  }

  /**
   * Makes a refusal of a parameter.
   *
   * @param error the name of the error, as the broker gives it
   * @param message the broker's message
   * @param parameter the parameter that it does not take, or null
   * @return the failure
   */
  public static PlimsollException refused(String error, String message, String parameter) {
    return new PlimsollException(error, message, parameter);
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

  /**
   * Returns the parameter that the broker does not take.
   *
   * @return its name; empty where the broker names none
   */
  public Optional<String> parameter() {
    return Optional.ofNullable(parameter);
  }

  /** Whether the broker refused with this error of the interface {@code io.plimsoll}. */
  boolean isRefusal(String name) {
    return kind == Kind.REFUSED && error.equals("io.plimsoll." + name);
  }
}
