package io.plimsoll.memory.internal.sensing;

import java.io.IOException;
import java.nio.file.Path;

/** The resident memory of processes. */
public final class Resident {
  private Resident() {}

  /**
   * Returns how much memory of this process is resident, without files.
   *
   * @return bytes; 0 if it cannot be read
   */
  public static long ofSelf() {
    return of(new Proc(Path.of("/")), "self");
  }

  static long of(Proc proc, String pid) {
    long[] resident = new long[1];
    try {
      Proc.pairs(
          proc.at("/proc/" + pid + "/status"),
          (name, bytes) -> {
            if (name.equals("RssAnon") || name.equals("RssShmem")) {
              resident[0] += bytes;
            }
          });
      return resident[0];
    } catch (IOException gone) {
      return 0;
    }
  }
}
