package io.plimsoll.memory.internal.wire;

import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * A call of a method of the broker.
 *
 * @param method the full name of the method
 * @param parameters the parameters; null for one that is left out
 * @param mode how many answers are wanted
 */
public record Call(String method, Map<String, Object> parameters, Mode mode) {

  /** How many answers a caller wants. */
  public enum Mode {
    /** One. */
    ONCE,
    /** All of them. */
    MORE,
    /** None. */
    ONEWAY
  }

  /**
   * Begins a call that wants one answer.
   *
   * @param method the name of a method of {@code io.plimsoll}
   * @return a call without parameters
   */
  public static Call of(String method) {
    return new Call("io.plimsoll." + method, new LinkedHashMap<>(), Mode.ONCE);
  }

  /**
   * The cheapest call, which tells whether the broker lives.
   *
   * @return the call
   */
  public static Call info() {
    return new Call("org.varlink.service.GetInfo", Map.of(), Mode.ONCE);
  }

  /**
   * Adds a parameter.
   *
   * @param name its name
   * @param value its value; null leaves it out
   * @return this call
   */
  public Call with(String name, Object value) {
    if (value != null) {
      parameters.put(name, value);
    }
    return this;
  }

  /**
   * Returns the same call for another number of answers.
   *
   * @param wanted how many answers are wanted
   * @return the call
   */
  public Call wanting(Mode wanted) {
    return new Call(method, parameters, wanted);
  }

  /**
   * Returns the bytes to send.
   *
   * @return the message with its NUL byte
   */
  public byte[] encoded() {
    Map<String, Object> message = new LinkedHashMap<>();
    message.put("method", method);
    message.put("parameters", parameters);
    if (mode != Mode.ONCE) {
      message.put(mode == Mode.MORE ? "more" : "oneway", true);
    }
    return (Json.write(message) + '\0').getBytes(StandardCharsets.UTF_8);
  }
}
