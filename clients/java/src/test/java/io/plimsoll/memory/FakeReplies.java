package io.plimsoll.memory;

import io.plimsoll.memory.internal.wire.Json;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;

/** Messages of the scripted broker. */
final class FakeReplies {
  private FakeReplies() {}

  static String answer(Map<String, ?> parameters) {
    return Json.write(Map.of("parameters", parameters)) + '\0';
  }

  static String refusal(String error, String message) {
    String name = "io.plimsoll." + error;
    return Json.write(Map.of("error", name, "parameters", Map.of("message", message))) + '\0';
  }

  /** The refusal of a parameter that the broker does not know. */
  static String unknown(String parameter) {
    String name = "org.varlink.service.InvalidParameter";
    Map<String, String> told = Map.of("parameter", parameter, "message", "unknown field");
    return Json.write(Map.of("error", name, "parameters", told)) + '\0';
  }

  static String changed(long id, Numbers numbers, boolean continues) {
    Map<String, Object> fields = new LinkedHashMap<>();
    fields.put("limit", numbers.limit());
    fields.put("available", numbers.available());
    fields.put("owed", numbers.owed());
    fields.put("deadline", numbers.deadline());
    fields.put("uses", numbers.uses());
    fields.put("share", numbers.share());
    fields.put("level", numbers.level().name().toLowerCase(Locale.ROOT));
    fields.put("sensed", numbers.sensed());
    Map<String, Object> parameters = new LinkedHashMap<>();
    parameters.put("id", id);
    parameters.put("generation", 1);
    parameters.put("numbers", fields);
    return Json.write(Map.of("parameters", parameters, "continues", continues)) + '\0';
  }

  /** Returns whether the client took it. */
  static boolean send(SocketChannel channel, String message) {
    return send(channel, message.getBytes(StandardCharsets.UTF_8));
  }

  static boolean send(SocketChannel channel, byte[] bytes) {
    try {
      ByteBuffer out = ByteBuffer.wrap(bytes);
      while (out.hasRemaining()) {
        channel.write(out);
      }
      return true;
    } catch (IOException closed) {
      return false;
    }
  }
}
