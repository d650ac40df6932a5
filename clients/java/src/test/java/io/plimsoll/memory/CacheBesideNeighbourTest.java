package io.plimsoll.memory;

import static org.junit.jupiter.api.Assertions.assertTrue;

import io.plimsoll.memory.cache.MemoryCache;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.time.Duration;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The cache with a real broker, beside a neighbour that starts when the cache is full. */
class CacheBesideNeighbourTest {
  private static final int MIB = 1 << 20;

  @TempDir Path folder;

  /** A program with a cache of direct buffers, which it fills. Says its numbers, in MiB. */
  static final class Hoarder {
    private Hoarder() {}

    /**
     * Runs until it is killed.
     *
     * @param arguments none
     * @throws Exception when something fails that should not
     */
    public static void main(String[] arguments) throws Exception {
      try (Principal principal = Principal.builder("hoarder").adapter("self").open();
          MemoryCache<Integer, ByteBuffer> cache =
              MemoryCache.<Integer, ByteBuffer>builder(principal, (key, value) -> value.capacity())
                  .directBuffers()
                  .demand(400L * MIB)
                  .build()) {
        for (int key = 0; true; key++) {
          ByteBuffer value = ByteBuffer.allocateDirect(MIB);
          for (int at = 0; at < MIB; at += 4096) {
            value.put(at, (byte) 1);
          }
          if (cache.weight() + MIB <= cache.maximum()) {
            cache.cache().put(key, value);
          }
          Numbers now = principal.read();
          System.out.printf(
              "%d %d %d %d%n",
              now.uses() / MIB, now.limit() / MIB, now.owed() / MIB, cache.weight() / MIB);
          Thread.sleep(Duration.ofMillis(20).toMillis());
        }
      }
    }
  }

  /** The next numbers that it says: uses, limit, owed, cached. */
  private static long[] numbers(Child hoarder) throws Exception {
    String[] words = hoarder.said.readLine().split(" ");
    return new long[] {
      Long.parseLong(words[0]),
      Long.parseLong(words[1]),
      Long.parseLong(words[2]),
      Long.parseLong(words[3])
    };
  }

  @Test
  void givesBackWhatANeighbourNeedsAndKeepsTheRest() throws Exception {
    String run = "exec \"$@\"";
    try (RealBroker broker = new RealBroker(folder, "384M");
        Child cache = new Child(run, broker.socket(), Hoarder.class)) {
      long[] full = new long[4];
      while (full[0] < 300) {
        full = numbers(cache);
      }
      try (Child neighbour = new Child(run, broker.socket(), Hoarder.class)) {
        boolean hasOwed = false;
        long most = 0;
        long[] rest = numbers(cache);
        while (!hasOwed || rest[2] > 0 || rest[1] > 230 || most < 150) {
          rest = numbers(cache);
          hasOwed |= rest[2] > 0;
          most = Math.max(most, numbers(neighbour)[0]);
        }
        assertTrue(rest[3] < full[3], "it dropped entries");
        assertTrue(rest[3] > 20, "and kept some: " + rest[3]);
      }
    }
  }
}
