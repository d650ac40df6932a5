package io.plimsoll.memory;

import static io.plimsoll.memory.FakeBroker.MIB;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;

import io.plimsoll.memory.FakeBroker.Script;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.LongSupplier;
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
    AtomicBoolean isDone = new AtomicBoolean();
    try (Principal principal = open()) {
      Await.event(principal, Event.Kind.JOINED);
      List<LongSupplier> ways =
          List.of(
              principal::limit,
              () -> principal.read().limit(),
              () -> principal.limit() + principal.read().available());
      List<Thread> readers =
          ways.stream().map(way -> new Thread(() -> read(way, isDone, harmed))).toList();
      readers.forEach(Thread::start);
      for (int round = 0; round < 20; round++) {
        long id = principal.id().orElseThrow();
        Await.sleep(50);
        broker.truncatePage(id);
        Await.until("noticed", () -> principal.lastError().isPresent());
        broker.close();
        broker = new FakeBroker(folder, Script.GOOD, id + 1);
        Await.event(principal, Event.Kind.JOINED);
      }
      isDone.set(true);
      for (Thread reader : readers) {
        reader.join();
      }
    }
    assertNull(harmed.get(), () -> "a reader saw " + harmed.get());
  }

  private static void read(
      LongSupplier way, AtomicBoolean isDone, AtomicReference<Throwable> harmed) {
    try {
      while (!isDone.get()) {
        for (int reads = 0; reads < 10_000; reads++) {
          if (way.getAsLong() < 0) {
            throw new AssertionError("a number is negative");
          }
        }
      }
    } catch (Throwable failure) {
      harmed.set(failure);
    }
  }
}
