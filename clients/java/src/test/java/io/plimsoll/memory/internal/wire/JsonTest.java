package io.plimsoll.memory.internal.wire;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import io.plimsoll.memory.PlimsollException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** JSON, and how it is cut into messages. */
class JsonTest {
  private static Object parse(String text) throws Json.Malformed {
    return Json.parse(text, name -> true);
  }

  @Test
  void valuesAreRead() throws Exception {
    String text = " {\"a\": [1, -2.5e1, true, false, null, \"x\\u00e4\\n\\\"\"], \"b\": {}} ";
    List<Object> list = Arrays.asList(1L, -25.0, true, false, null, "xä\n\"");
    assertEquals(Map.of("a", list, "b", Map.of()), parse(text));
    assertEquals(Long.MAX_VALUE, parse("18446744073709551615"));
    assertEquals(Long.MIN_VALUE, parse("-99999999999999999999"));
    assertNull(parse("null"));
    assertEquals(Map.of("b", 2L), Json.parse("{\"a\":[{\"b\":1}],\"b\":2}", "b"::equals));
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "",
        " ",
        "{",
        "[1,]",
        "{\"a\"}",
        "{a:1}",
        "01",
        "-",
        "1.",
        "1e",
        "tru",
        "\"\\x\"",
        "\"\\u12",
        "\"a\nb\"",
        "{} {}",
        "nan",
        "+1",
        "[1 2]",
        "{\"a\":1,}",
        "\u0000",
        "\"",
        "\"\\",
        "--1",
        ".5"
      })
  void otherTextsAreRefused(String text) {
    assertThrows(Json.Malformed.class, () -> parse(text));
  }

  @Test
  void depthIsBounded() throws Exception {
    parse("[".repeat(60) + "]".repeat(60));
    assertThrows(Json.Malformed.class, () -> parse("[".repeat(100_000)));
    assertThrows(Json.Malformed.class, () -> parse("{\"a\":".repeat(100_000)));
  }

  @Test
  void allThatIsWrittenIsReadAgain() throws Exception {
    Random random = new Random(7);
    for (int round = 0; round < 2000; round++) {
      Object value = value(random, 0);
      assertEquals(value, parse(Json.write(value)));
    }
  }

  @Test
  void noiseEndsInAnError() {
    Random random = new Random(8);
    for (int round = 0; round < 20_000; round++) {
      StringBuilder text = new StringBuilder();
      for (int length = random.nextInt(20); length > 0; length--) {
        text.append("{}[]:,\"\\u0123456789eE+-.tfn ".charAt(random.nextInt(28)));
      }
      try {
        parse(text.toString());
      } catch (Json.Malformed expected) {
        // Nothing else is ever thrown.
      }
    }
  }

  private static Object value(Random random, int depth) {
    switch (random.nextInt(depth > 4 ? 4 : 6)) {
      case 0:
        return random.nextLong();
      case 1:
        return random.nextBoolean();
      case 2:
        return null;
      case 3:
        return random
            .ints(random.nextInt(9), 0, 300)
            .collect(StringBuilder::new, (out, each) -> out.append((char) each), (a, b) -> {})
            .toString();
      case 4:
        List<Object> list = new ArrayList<>();
        for (int length = random.nextInt(4); length > 0; length--) {
          list.add(value(random, depth + 1));
        }
        return list;
      default:
        Map<String, Object> map = new HashMap<>();
        for (int length = random.nextInt(4); length > 0; length--) {
          map.put("k" + random.nextInt(9), value(random, depth + 1));
        }
        return map;
    }
  }

  @Test
  void messagesAreCutHoweverTheBytesCome() throws Exception {
    byte[] stream = "one\0two\0thr".getBytes(StandardCharsets.UTF_8);
    for (int cut = 1; cut < stream.length; cut++) {
      Framing framing = new Framing();
      List<String> found = new ArrayList<>();
      for (int at = 0; at < stream.length; at += cut) {
        byte[] part = Arrays.copyOfRange(stream, at, Math.min(at + cut, stream.length));
        framing.push(part, part.length);
        for (byte[] next = framing.next(9); next != null; next = framing.next(9)) {
          found.add(new String(next, StandardCharsets.UTF_8));
        }
      }
      assertEquals(List.of("one", "two"), found);
      assertEquals(3, framing.pending());
    }
  }

  @Test
  void longMessagesAreTakenUpToTheBound() throws Exception {
    Framing framing = new Framing();
    byte[] message = new byte[50_000];
    Arrays.fill(message, (byte) 'x');
    framing.push(message, message.length);
    assertNull(framing.next(50_000));
    framing.push(new byte[] {0, 'y', 0, 0}, 4);
    assertArrayEquals(message, framing.next(50_000));
    assertArrayEquals(new byte[] {'y'}, framing.next(9));
    assertThrows(PlimsollException.class, () -> framing.next(9), "an empty message");
    Framing endless = new Framing();
    endless.push(message, message.length);
    assertThrows(PlimsollException.class, () -> endless.next(49_999));
  }
}
