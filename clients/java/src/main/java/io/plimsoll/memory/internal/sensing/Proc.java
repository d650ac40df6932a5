package io.plimsoll.memory.internal.sensing;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.function.ObjLongConsumer;

/** Reads small texts of the kernel. Nothing stays open. */
final class Proc {
  /** The longest text that is read, bytes: that of a machine with many mounts. */
  private static final int MAX_TEXT = 4 << 20;

  private static final long KIB = 1024;

  /** The root directory; another one in tests. */
  private final Path root;

  Proc(Path root) {
    this.root = root;
  }

  Path at(String path) {
    return root.resolve(path.substring(1));
  }

  static String text(Path file) throws IOException {
    try (InputStream in = Files.newInputStream(file)) {
      return new String(in.readNBytes(MAX_TEXT), StandardCharsets.UTF_8);
    }
  }

  static List<String> lines(Path file) throws IOException {
    return text(file).lines().toList();
  }

  /**
   * Gives each {@code name value} or {@code name: value kB} of a text to a taker, with the value in
   * bytes if there is a unit. Other lines are passed over.
   */
  static void pairs(Path file, ObjLongConsumer<String> taker) throws IOException {
    for (String line : lines(file)) {
      String[] words = line.trim().split("\\s+");
      long value = words.length < 2 ? -1 : number(words[1]);
      if (value >= 0) {
        String name =
            words[0].endsWith(":") ? words[0].substring(0, words[0].length() - 1) : words[0];
        boolean isKib = words.length > 2 && words[2].equals("kB");
        taker.accept(name, isKib ? times(value, KIB) : value);
      }
    }
  }

  /** The number in a file; -1 for another text, such as {@code max}. */
  static long number(Path file) throws IOException {
    return number(text(file).trim());
  }

  /** A decimal number without sign; the largest one where it does not fit, -1 for another text. */
  static long number(String text) {
    boolean isNumber = !text.isEmpty() && text.chars().allMatch(each -> each >= '0' && each <= '9');
    if (!isNumber) {
      return -1;
    }
    try {
      return Long.parseLong(text);
    } catch (NumberFormatException tooLarge) {
      return Long.MAX_VALUE;
    }
  }

  private static long times(long value, long unit) {
    return value > Long.MAX_VALUE / unit ? Long.MAX_VALUE : value * unit;
  }
}
