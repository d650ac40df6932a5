package io.plimsoll.memory;

import static org.junit.jupiter.api.Assertions.assertTrue;

import io.plimsoll.memory.FakeBroker.Script;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Random;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A chaotic broker, for some seconds: {@code PLIMSOLL_CHAOS_SECONDS} makes it longer. */
class ChaosTest {
  private static final long MIB = 1 << 20;

  @TempDir Path folder;

  private final Random random = new Random();
  private long id = 1;

  private static long seconds() {
    String seconds = System.getenv("PLIMSOLL_CHAOS_SECONDS");
    return seconds == null ? 5 : Long.parseLong(seconds);
  }

  private static long heap() {
    System.gc();
    return Runtime.getRuntime().totalMemory() - Runtime.getRuntime().freeMemory();
  }

  @Test
  void nothingGrowsAndNothingEnds() throws Exception {
    AtomicReference<Throwable> harmed = new AtomicReference<>();
    AtomicBoolean isDone = new AtomicBoolean();
    Path socket = folder.resolve("broker.sock");
    try (Principal principal =
        Principal.builder("chaos").socket(socket).timeout(Duration.ofMillis(100)).open()) {
      Thread user = new Thread(() -> use(principal, isDone, harmed), "user");
      user.start();
      rounds(10_000_000_000L, 20);
      long heap = heap();
      long descriptors = LeakTest.descriptors();
      int rounds = rounds(seconds() * 1_000_000_000L, Integer.MAX_VALUE);
      assertTrue(rounds > 0);
      Await.until("descriptors are as before", () -> LeakTest.descriptors() <= descriptors + 4);
      Await.until("the heap is as before", () -> heap() < heap + 8 * MIB);
      try (FakeBroker broker = new FakeBroker(folder, Script.GOOD, ++id << 20)) {
        Await.until("it joins", () -> principal.read().source() == Source.BROKER);
        assertTrue(broker.count(broker.registered) > 0);
      }
      isDone.set(true);
      user.join();
    }
    assertTrue(harmed.get() == null, () -> "a thread of the program saw " + harmed.get());
  }

  /** Brokers come, misbehave and go. Returns how many. */
  private int rounds(long nanoseconds, int most) throws Exception {
    long end = System.nanoTime() + nanoseconds;
    int count = 0;
    while (System.nanoTime() - end < 0 && count < most) {
      try (FakeBroker broker = new FakeBroker(folder, script(), ++id << 20)) {
        broker.lateMs = random.nextInt(200);
        for (int step = random.nextInt(8); step > 0; step--) {
          Await.sleep(random.nextInt(40));
          disturb(broker);
        }
      }
      count++;
    }
    return count;
  }

  private Script script() {
    Script[] all = Script.values();
    return random.nextBoolean() ? Script.GOOD : all[random.nextInt(all.length)];
  }

  private void disturb(FakeBroker broker) throws Exception {
    synchronized (broker) {
      if (broker.principals.isEmpty()) {
        return;
      }
      long known = broker.principals.lastKey();
      boolean hasPage = broker.principals.get(known).page != null;
      switch (random.nextInt(5)) {
        case 0 -> broker.script = script();
        case 1 -> broker.isFrozen = random.nextBoolean();
        case 2 -> broker.publishSilently(known, numbers());
        case 3 -> {
          if (hasPage) {
            broker.truncatePage(known);
          }
        }
        default -> broker.publish(known, numbers());
      }
    }
  }

  private Numbers numbers() {
    long limit = random.nextLong() >>> (1 + random.nextInt(60));
    return random.nextBoolean()
        ? FakeBroker.numbers(limit / 4)
        : FakeBroker.owing(limit / 4, limit / 8, System.nanoTime(), System.nanoTime());
  }

  private static void use(
      Principal principal, AtomicBoolean isDone, AtomicReference<Throwable> harmed) {
    try {
      while (!isDone.get()) {
        Event event = principal.await(Duration.ofMillis(5));
        principal.released(event.numbers().owed());
        principal.report(new Report().demand(event.numbers().uses()));
        setWeight(principal, 1 + (int) (event.numbers().generation() % 100));
        for (int reads = 0; reads < 2000; reads++) {
          if (principal.read().limit() < 0 || principal.limit() < 0) {
            throw new AssertionError("a number is negative");
          }
        }
      }
    } catch (Throwable failure) {
      harmed.set(failure);
    }
  }

  private static void setWeight(Principal principal, int weight) throws PlimsollException {
    try {
      principal.setWeight(weight);
    } catch (PlimsollException refused) {
      if (refused.kind() != PlimsollException.Kind.REFUSED) {
        throw refused;
      }
    }
  }
}
