import io.plimsoll.memory.Event;
import io.plimsoll.memory.Principal;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayDeque;

/**
 * Keeps memory in the client's hands: Keep MIB. Fills so many blocks outside of the heap, says so, and gives
 * back what is owed. They are free after a collection, which it asks for.
 */
final class Keep {
  private static final int MIB = 1 << 20;
  private static final int READS = 5_000_000;

  public static void main(String[] arguments) throws Exception {
    try (Principal principal = Principal.builder("keep").adapter("self").open()) {
      long sum = 0;
      long begun = 0;
      for (int i = 0; i < 2 * READS; i++) {
        if (i == READS) {
          begun = System.nanoTime();
        }
        sum += principal.read().limit();
      }
      double each = (double) (System.nanoTime() - begun) / READS;
      System.out.printf("{\"read_ns\": %.1f, \"sum\": %d}%n", each, sum);
      ArrayDeque<ByteBuffer> blocks = new ArrayDeque<>();
      for (int i = Integer.parseInt(arguments[0]); i > 0; i--) {
        ByteBuffer block = ByteBuffer.allocateDirect(MIB);
        for (int at = 0; at < MIB; at += 4096) {
          block.put(at, (byte) 1);
        }
        blocks.add(block);
      }
      System.out.printf("{\"ready\": %d}%n", (long) blocks.size() * MIB);
      while (true) {
        Event event = principal.await(Duration.ofSeconds(60));
        long owed = event.numbers().owed();
        long freed = 0;
        for (; freed < owed && !blocks.isEmpty(); freed += MIB) {
          blocks.remove();
        }
        if (freed > 0) {
          System.gc();
          principal.released(freed);
        }
      }
    }
  }
}
