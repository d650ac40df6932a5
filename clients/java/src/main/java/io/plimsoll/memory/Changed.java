package io.plimsoll.memory;

import io.plimsoll.memory.internal.wire.Message;

/**
 * A message of the stream of changes.
 *
 * @param numbers the broker's numbers; their heartbeat is the time at which they were heard
 */
record Changed(Numbers numbers) {

  static Changed of(Message message, long now) throws PlimsollException {
    message.number("id");
    Message numbers = message.object("numbers");
    Long sensed = numbers.optionalNumber("sensed");
    return new Changed(
        new Numbers(
            numbers.number("limit"),
            numbers.number("available"),
            numbers.number("owed"),
            numbers.number("deadline"),
            numbers.number("uses"),
            numbers.number("share"),
            level(numbers.text("level")),
            sensed == null ? 0 : sensed,
            Source.BROKER,
            message.number("generation"),
            now));
  }

  private static Level level(String name) throws PlimsollException {
    return switch (name) {
      case "normal" -> Level.NORMAL;
      case "warning" -> Level.WARNING;
      case "critical" -> Level.CRITICAL;
      default -> throw Message.against("there is no level " + name);
    };
  }
}
