package io.plimsoll.memory;

import static io.plimsoll.memory.FakeBroker.MIB;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;

import io.plimsoll.memory.FakeBroker.Script;
import java.nio.file.Path;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Pages that are truncated under their readers. */
class TruncationTest {
  @TempDir Path folder;

  private FakeBroker broker;

  @BeforeEach
  void start() throws Exception {
    broker = new FakeBroker(folder, Script.GOOD);
  }

  @AfterEach
  void end() {
    broker.close();
  }

  private Principal open() throws PlimsollException {
    return Principal.builder("p").socket(broker.socket()).timeout(Await.SOON).open();
  }

  @Test
  void aReaderOfATruncatedPageHasTheLastNumbers() throws Exception {
    try (Principal principal = open()) {
      Await.event(principal, Event.Kind.JOINED);
      broker.truncatePage(1);
      assertEquals(100 * MIB, principal.read().limit());
      Await.until("the stream tells", () -> principal.read().source() == Source.BROKER);
      broker.publish(1, FakeBroker.numbers(30 * MIB));
      Await.until("it goes on", () -> principal.limit() == 30 * MIB);
      assertNotNull(principal.lastError().orElse(null));
    }
  }

  /** Compiled code learns of the fault later than the load: see {@code Page}. */
  @Test
  void hotReadersAreNotHarmed() throws Exception {
    AtomicReference<Throwable> harmed = new AtomicReference<>();
    try (Principal principal = open()) {
      Await.event(principal, Event.Kind.JOINED);
      Thread[] readers = new Thread[2];
      boolean[] isDone = new boolean[1];
      for (int index = 0; index < readers.length; index++) {
        readers[index] = new Thread(() -> readUntil(principal, isDone, harmed), "reader");
        readers[index].start();
      }
      for (int round = 0; round < 20; round++) {
        long id = principal.id().orElseThrow();
        Await.sleep(50);
        broker.truncatePage(id);
        Await.until("noticed", () -> principal.lastError().isPresent());
        broker.close();
        broker = new FakeBroker(folder, Script.GOOD, id + 1);
        Await.event(principal, Event.Kind.JOINED);
      }
      synchronized (isDone) {
        isDone[0] = true;
      }
      for (Thread reader : readers) {
        reader.join();
      }
    }
    assertNull(harmed.get(), () -> "a reader saw " + harmed.get());
  }

  private static void readUntil(
      Principal principal, boolean[] isDone, AtomicReference<Throwable> harmed) {
    try {
      long sum = 0;
      while (true) {
        for (int reads = 0; reads < 10_000; reads++) {
          Numbers now = principal.read();
          if (now.limit() < 0 || now.available() < now.limit() && now.owed() == 0) {
            throw new AssertionError("torn: " + now);
          }
          sum += now.limit() & 1;
        }
        synchronized (isDone) {
          if (isDone[0] || sum < 0) {
            return;
          }
        }
      }
    } catch (Throwable failure) {
      harmed.set(failure);
    }
  }
}
