package io.plimsoll.memory.internal.wire;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;

/**
 * The environment that the usual places of the socket depend on. Tests can make one.
 *
 * @param socket {@code PLIMSOLL_SOCKET}, or null
 * @param runtimeDirectory {@code XDG_RUNTIME_DIR} if it is the user's own, or null
 * @param home {@code HOME} if it is the user's own, or null
 * @param user the number of the real user
 */
public record Surroundings(Path socket, Path runtimeDirectory, Path home, long user) {
  /** The entry of the auxiliary vector that tells of more rights (getauxval(3)), and its end. */
  private static final long AT_SECURE = 23;

  private static final long AT_NULL = 0;
  private static final Path AUXILIARY = Path.of("/proc/self/auxv");

  /** Whether the environment can be trusted. It does not change while a process runs. */
  private static final boolean IS_TRUSTED = !isSecure(AUXILIARY);

  /**
   * Returns the surroundings of this process.
   *
   * @return the surroundings
   */
  public static Surroundings ofSelf() {
    long user = realUser();
    return new Surroundings(
        path(variable("PLIMSOLL_SOCKET")),
        owned(path(variable("XDG_RUNTIME_DIR")), user),
        owned(path(variable("HOME")), user),
        user);
  }

  /**
   * Returns a variable of the environment. A program with more rights than the user who started it
   * trusts none.
   *
   * @param name its name
   * @return its value; null if it is not set or not trusted
   */
  public static String variable(String name) {
    return IS_TRUSTED ? System.getenv(name) : null;
  }

  /**
   * Returns whether the process has more rights than the user who started it. Such a process may
   * not read its own vector, which counts as yes.
   *
   * @param auxiliary the file with the auxiliary vector
   * @return whether it has
   */
  static boolean isSecure(Path auxiliary) {
    try {
      ByteBuffer words = ByteBuffer.wrap(Files.readAllBytes(auxiliary));
      words.order(ByteOrder.nativeOrder());
      while (words.remaining() >= 2 * Long.BYTES) {
        long name = words.getLong();
        long value = words.getLong();
        if (name == AT_SECURE || name == AT_NULL) {
          return name == AT_SECURE && value != 0;
        }
      }
      return true;
    } catch (IOException unreadable) {
      return true;
    }
  }

  private static Path path(String text) {
    try {
      return text == null || text.isEmpty() ? null : Path.of(text);
    } catch (InvalidPathException unusable) {
      return null;
    }
  }

  /**
   * The directory if it belongs to this user: `su` leaves the previous user's in the environment.
   */
  private static Path owned(Path directory, long user) {
    try {
      boolean isOwn =
          directory != null
              && directory.isAbsolute()
              && Integer.toUnsignedLong((int) Files.getAttribute(directory, "unix:uid")) == user;
      return isOwn ? directory : null;
    } catch (IOException absent) {
      return null;
    }
  }

  private static long realUser() {
    try {
      for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
        if (line.startsWith("Uid:")) {
          return Long.parseLong(line.split("\\s+")[1]);
        }
      }
      return ownerOfSelf();
    } catch (IOException | RuntimeException unreadable) {
      return ownerOfSelf();
    }
  }

  private static long ownerOfSelf() {
    try {
      return Integer.toUnsignedLong((int) Files.getAttribute(Path.of("/proc/self"), "unix:uid"));
    } catch (IOException unreadable) {
      // A number that no user has, so that no directory is taken for the user's own.
      return 0xFFFF_FFFFL;
    }
  }
}
