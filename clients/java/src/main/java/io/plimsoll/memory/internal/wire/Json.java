package io.plimsoll.memory.internal.wire;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Predicate;

/**
 * Reads and writes JSON (RFC 8259). Objects are maps, arrays lists, whole numbers {@link Long},
 * other numbers {@link Double}. A whole number that is too large is shown as {@link
 * Long#MAX_VALUE}.
 */
public final class Json {
  /** The deepest nesting. A broker's tree has 8 levels, two of JSON for each. */
  private static final int MAX_DEPTH = 64;

  private final String text;
  private final Predicate<String> keep;
  private int at;

  private Json(String text, Predicate<String> keep) {
    this.text = text;
    this.keep = keep;
  }

  /** A text that is not JSON. */
  public static final class Malformed extends Exception {
    private static final long serialVersionUID = 1;

    Malformed(String why, int at) {
      super(why + " at character " + at, null, false, false);
    }
  }

  /**
   * Parses a text.
   *
   * @param text one JSON value
   * @param keep the names of the fields to keep. Others are checked and passed over, so that a long
   *     listing takes little memory
   * @return the value; null for {@code null}
   * @throws Malformed when the text is not JSON, or is nested too deep
   */
  public static Object parse(String text, Predicate<String> keep) throws Malformed {
    Json json = new Json(text, keep);
    Object value = json.value(0);
    json.skipBlanks();
    if (json.at < text.length()) {
      throw json.malformed("more than one value");
    }
    return value;
  }

  /**
   * Writes a value as JSON.
   *
   * @param value maps with text as keys, lists, texts, numbers, booleans and null
   * @return the text
   */
  public static String write(Object value) {
    StringBuilder out = new StringBuilder();
    append(out, value);
    return out.toString();
  }

  private Object value(int depth) throws Malformed {
    if (depth > MAX_DEPTH) {
      throw malformed("nested too deep");
    }
    skipBlanks();
    return switch (peek()) {
      case '{' -> object(depth);
      case '[' -> array(depth);
      case '"' -> string();
      case 't' -> word("true", Boolean.TRUE);
      case 'f' -> word("false", Boolean.FALSE);
      case 'n' -> word("null", null);
      default -> number();
    };
  }

  private Map<String, Object> object(int depth) throws Malformed {
    Map<String, Object> object = new LinkedHashMap<>();
    at++;
    skipBlanks();
    if (take('}')) {
      return object;
    }
    do {
      skipBlanks();
      if (peek() != '"') {
        throw malformed("a field without a name");
      }
      String name = string();
      skipBlanks();
      expect(':');
      Object value = value(depth + 1);
      if (keep.test(name)) {
        object.put(name, value);
      }
      skipBlanks();
    } while (take(','));
    expect('}');
    return object;
  }

  private List<Object> array(int depth) throws Malformed {
    List<Object> array = new ArrayList<>();
    at++;
    skipBlanks();
    if (take(']')) {
      return array;
    }
    do {
      array.add(value(depth + 1));
      skipBlanks();
    } while (take(','));
    expect(']');
    return array;
  }

  private String string() throws Malformed {
    int begin = ++at;
    while (peek() != '"' && peek() != '\\' && peek() >= ' ') {
      at++;
    }
    if (peek() == '"') {
      return text.substring(begin, at++);
    }
    StringBuilder out = new StringBuilder(text.substring(begin, at));
    while (peek() != '"') {
      char next = next();
      if (next < ' ') {
        throw malformed("a control character in a text");
      }
      out.append(next == '\\' ? escape() : next);
    }
    at++;
    return out.toString();
  }

  private char escape() throws Malformed {
    char kind = next();
    return switch (kind) {
      case '"', '\\', '/' -> kind;
      case 'b' -> '\b';
      case 'f' -> '\f';
      case 'n' -> '\n';
      case 'r' -> '\r';
      case 't' -> '\t';
      case 'u' -> {
        int code = 0;
        for (int digits = 0; digits < 4; digits++) {
          int digit = Character.digit(next(), 16);
          if (digit < 0) {
            throw malformed("an escape without four digits");
          }
          code = code << 4 | digit;
        }
        yield (char) code;
      }
      default -> throw malformed("an unknown escape");
    };
  }

  private Object number() throws Malformed {
    int begin = at;
    take('-');
    int whole = digits();
    boolean isPadded = whole > 1 && text.charAt(at - whole) == '0';
    boolean isFraction = take('.');
    boolean isBroken = whole == 0 || isPadded || isFraction && digits() == 0;
    if (take('e') || take('E')) {
      isFraction = true;
      if (!take('+')) {
        take('-');
      }
      isBroken |= digits() == 0;
    }
    if (isBroken) {
      throw malformed("not a value");
    }
    String number = text.substring(begin, at);
    if (isFraction) {
      return Double.valueOf(number);
    }
    try {
      return Long.valueOf(number);
    } catch (NumberFormatException tooLarge) {
      return number.startsWith("-") ? Long.MIN_VALUE : Long.MAX_VALUE;
    }
  }

  private int digits() {
    int begin = at;
    while (at < text.length() && text.charAt(at) >= '0' && text.charAt(at) <= '9') {
      at++;
    }
    return at - begin;
  }

  private Object word(String word, Object value) throws Malformed {
    if (!text.startsWith(word, at)) {
      throw malformed("not a value");
    }
    at += word.length();
    return value;
  }

  private void skipBlanks() {
    while (at < text.length() && " \t\n\r".indexOf(text.charAt(at)) >= 0) {
      at++;
    }
  }

  private char peek() throws Malformed {
    if (at >= text.length()) {
      throw malformed("it ends too early");
    }
    return text.charAt(at);
  }

  private char next() throws Malformed {
    char next = peek();
    at++;
    return next;
  }

  private boolean take(char wanted) {
    boolean isThere = at < text.length() && text.charAt(at) == wanted;
    at += isThere ? 1 : 0;
    return isThere;
  }

  private void expect(char wanted) throws Malformed {
    if (!take(wanted)) {
      throw malformed("no '" + wanted + "'");
    }
  }

  private Malformed malformed(String why) {
    return new Malformed(why, at);
  }

  private static void append(StringBuilder out, Object value) {
    if (value instanceof Map<?, ?> object) {
      String comma = "{";
      for (Map.Entry<?, ?> field : object.entrySet()) {
        out.append(comma);
        appendText(out, field.getKey().toString());
        append(out.append(':'), field.getValue());
        comma = ",";
      }
      out.append(object.isEmpty() ? "{}" : "}");
    } else if (value instanceof List<?> array) {
      String comma = "[";
      for (Object element : array) {
        append(out.append(comma), element);
        comma = ",";
      }
      out.append(array.isEmpty() ? "[]" : "]");
    } else if (value instanceof CharSequence characters) {
      appendText(out, characters);
    } else {
      out.append(value);
    }
  }

  private static void appendText(StringBuilder out, CharSequence characters) {
    out.append('"');
    for (int index = 0; index < characters.length(); index++) {
      char character = characters.charAt(index);
      if (character == '"' || character == '\\') {
        out.append('\\').append(character);
      } else if (character < ' ') {
        out.append(String.format("\\u%04x", (int) character));
      } else {
        out.append(character);
      }
    }
    out.append('"');
  }
}
