package io.plimsoll.memory.internal.wire;

import io.plimsoll.memory.PlimsollException;
import java.util.List;
import java.util.Map;

/**
 * The fields of a JSON object, by their types. A field of null is the same as an absent one.
 *
 * @param fields the fields
 */
public record Message(Map<?, ?> fields) {
  /** An object without a field. */
  public static final Message EMPTY = new Message(Map.of());

  /**
   * Returns a number that is not negative.
   *
   * @param name the name of the field
   * @return the number
   * @throws PlimsollException when there is none
   */
  public long number(String name) throws PlimsollException {
    Long number = optionalNumber(name);
    if (number == null) {
      throw against("it has no " + name);
    }
    return number;
  }

  /**
   * Returns a number that is not negative.
   *
   * @param name the name of the field
   * @return the number, or null
   * @throws PlimsollException when it is something else
   */
  public Long optionalNumber(String name) throws PlimsollException {
    Long number = optional(name, Long.class);
    if (number != null && number < 0) {
      throw against(name + " is negative");
    }
    return number;
  }

  /**
   * Returns a text.
   *
   * @param name the name of the field
   * @return the text
   * @throws PlimsollException when there is none
   */
  public String text(String name) throws PlimsollException {
    String text = optionalText(name);
    if (text == null) {
      throw against("it has no " + name);
    }
    return text;
  }

  /**
   * Returns a text.
   *
   * @param name the name of the field
   * @return the text, or null
   * @throws PlimsollException when it is something else
   */
  public String optionalText(String name) throws PlimsollException {
    return optional(name, String.class);
  }

  /**
   * Returns a flag.
   *
   * @param name the name of the field
   * @return the flag; false when there is none
   * @throws PlimsollException when it is something else
   */
  public boolean flag(String name) throws PlimsollException {
    return Boolean.TRUE.equals(optional(name, Boolean.class));
  }

  /**
   * Returns an object.
   *
   * @param name the name of the field
   * @return the object; an empty one when there is none
   * @throws PlimsollException when it is something else
   */
  public Message object(String name) throws PlimsollException {
    Map<?, ?> object = optional(name, Map.class);
    return object == null ? EMPTY : new Message(object);
  }

  /**
   * Returns a list of objects.
   *
   * @param name the name of the field
   * @return the objects; none when there is no such field
   * @throws PlimsollException when it is something else
   */
  public List<Message> objects(String name) throws PlimsollException {
    List<?> list = optional(name, List.class);
    if (list == null) {
      return List.of();
    }
    if (!list.stream().allMatch(Map.class::isInstance)) {
      throw against(name + " holds more than objects");
    }
    return list.stream().map(object -> new Message((Map<?, ?>) object)).toList();
  }

  private <T> T optional(String name, Class<T> type) throws PlimsollException {
    Object value = fields.get(name);
    if (value != null && !type.isInstance(value)) {
      throw against(name + " has the wrong type");
    }
    return type.cast(value);
  }

  /**
   * Makes the failure of a broker that breaks the protocol.
   *
   * @param why the fault of its answer
   * @return the failure
   */
  public static PlimsollException against(String why) {
    String message = "the broker answered against the protocol: " + why;
    String advice = message + "; update the older of the two";
    return new PlimsollException(PlimsollException.Kind.PROTOCOL, advice, null);
  }
}
