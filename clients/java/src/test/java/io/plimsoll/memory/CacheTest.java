package io.plimsoll.memory;

import static io.plimsoll.memory.FakeBroker.MIB;
import static io.plimsoll.memory.FakeBroker.numbers;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.plimsoll.memory.FakeBroker.Script;
import io.plimsoll.memory.cache.MemoryCache;
import io.plimsoll.memory.cache.MemoryCacheBuilder;
import java.lang.ref.WeakReference;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The cache that sizes itself. Its values here only say how large they are. */
class CacheTest {
  @TempDir Path folder;

  private final AtomicLong freed = new AtomicLong();

  private Principal open(FakeBroker broker, String adapter) throws Exception {
    PrincipalBuilder builder = Principal.builder("p").socket(broker.socket()).timeout(Await.SOON);
    return adapter == null ? builder.open() : builder.adapter(adapter).open();
  }

  private MemoryCacheBuilder<Integer, Integer> cacheOf(Principal principal) {
    return MemoryCache.<Integer, Integer>builder(principal, (key, size) -> size);
  }

  private static void fill(MemoryCache<Integer, Integer> cache, int entries) {
    for (int key = 0; key < entries; key++) {
      cache.cache().put(key, (int) MIB);
    }
  }

  @Test
  void growsBelowTheLimitAndPaysItsDebtInSteps() throws Exception {
    try (FakeBroker broker = new FakeBroker(folder, Script.GOOD);
        Principal principal = open(broker, "self");
        MemoryCache<Integer, Integer> cache =
            cacheOf(principal).minimum(5 * MIB).freedBy(freed::addAndGet).build()) {
      // The use is half of the limit, 100 MiB: it may grow by half of the rest.
      assertEquals(25 * MIB, cache.maximum());
      fill(cache, 20);
      assertEquals(20 * MIB, cache.weight());
      assertEquals(0, freed.get());

      long now = System.nanoTime();
      broker.publish(1, FakeBroker.owing(40 * MIB, 10 * MIB, now + 200_000_000, now));
      Await.until("it is paid", () -> broker.released() >= 10 * MIB);
      assertEquals(10 * MIB, cache.weight());
      assertEquals(10 * MIB, freed.get());
      assertEquals(0, principal.read().owed(), "it is not owed any more");

      // The broker agrees; now the program uses all that it may.
      now = System.nanoTime();
      broker.publish(1, FakeBroker.owing(40 * MIB, 0, 0, now));
      fill(cache, 30);
      Await.until("it does not grow", () -> cache.maximum() == 10 * MIB);
      assertTrue(cache.weight() <= 10 * MIB);

      now = System.nanoTime();
      broker.publish(1, FakeBroker.owing(20 * MIB, 50 * MIB, now, now));
      Await.until("it has its minimum", () -> cache.weight() == 5 * MIB);
      Await.until("that is told", () -> broker.released() == 15 * MIB);
      broker.publish(1, numbers(100 * MIB));
      Await.until("it grows again", () -> cache.maximum() > 20 * MIB);
      assertEquals(15 * MIB, broker.released());
    }
  }

  @Test
  void reportsItsDemandWhereNoAdapterOutsideDoes() throws Exception {
    try (FakeBroker broker = new FakeBroker(folder, Script.GOOD);
        Principal principal = open(broker, "self");
        MemoryCache<Integer, Integer> cache =
            cacheOf(principal).demand(900 * MIB).minimum(MIB).directBuffers().build()) {
      assertNotNull(cache.cache());
      Await.until("it is told", () -> broker.count(broker.reports) > 0);
      Map<?, ?> report = broker.reports.get(0);
      assertEquals(950 * MIB, report.get("demand"), "what is beside the cache counts");
      assertEquals(51 * MIB, report.get("floor"));
    }
  }

  private static long mostWorth(FakeBroker broker) {
    synchronized (broker) {
      return broker.reports.stream()
          .mapToLong(report -> report.get("worth") instanceof Long worth ? worth : -1)
          .max()
          .orElse(-1);
    }
  }

  @Test
  void reportsWhatMoreMemoryIsWorth() throws Exception {
    try (FakeBroker broker = new FakeBroker(folder, Script.GOOD);
        Principal principal = open(broker, "self");
        MemoryCache<Integer, Integer> cache = cacheOf(principal).directBuffers().build()) {
      // It may have 25 MiB. The list stands for three MiB more.
      for (int turn = 0; mostWorth(broker) <= 0 && turn < 10_000; turn++) {
        cache
            .cache()
            .get(
                turn % 28,
                key -> {
                  Await.sleep(2);
                  return (int) MIB;
                });
      }
      assertTrue(mostWorth(broker) > 0);
    }
  }

  @Test
  void aCacheThatEvictsNothingGainsNothing() throws Exception {
    try (FakeBroker broker = new FakeBroker(folder, Script.GOOD);
        Principal principal = open(broker, "self");
        MemoryCache<Integer, Integer> cache = cacheOf(principal).directBuffers().build()) {
      cache.cache().getAll(List.of(1, 2), keys -> Map.of(1, 1, 2, 2));
      cache.missed(3, 1_000_000_000);
      Await.until("that is told", () -> mostWorth(broker) >= 0);
      assertEquals(0, mostWorth(broker));
    }
  }

  @Test
  void aHeapThatIsSteeredFromOutsideIsOnlyDroppedFrom() throws Exception {
    try (FakeBroker broker = new FakeBroker(folder, Script.GOOD);
        Principal principal = open(broker, null);
        MemoryCache<Integer, Integer> cache = cacheOf(principal).directBuffers().build()) {
      fill(cache, 20);
      long now = System.nanoTime();
      long deadline = now + 60_000_000_000L;
      broker.publish(1, FakeBroker.owing(40 * MIB, 8 * MIB, deadline, now));
      Await.until("it drops what is owed", () -> cache.weight() == 12 * MIB);
      // The debt is still there until the adapter has collected. It is not paid twice.
      Await.sleep(1500);
      assertEquals(12 * MIB, cache.weight());
      assertEquals(0, broker.released());
      assertEquals(0, broker.count(broker.reports));
      broker.publish(1, FakeBroker.owing(40 * MIB, 10 * MIB, deadline, System.nanoTime()));
      Await.until("more is owed", () -> cache.weight() == 10 * MIB);
    }
  }

  @Test
  void aCollectionFreesWhatWasDropped() throws Exception {
    try (FakeBroker broker = new FakeBroker(folder, Script.GOOD);
        Principal principal = open(broker, "self");
        MemoryCache<Integer, ByteBuffer> cache =
            MemoryCache.<Integer, ByteBuffer>builder(principal, (key, value) -> value.capacity())
                .directBuffers()
                .build()) {
      List<WeakReference<ByteBuffer>> values = new ArrayList<>();
      for (int key = 0; key < 20; key++) {
        ByteBuffer value = ByteBuffer.allocateDirect((int) MIB);
        values.add(new WeakReference<>(value));
        cache.cache().put(key, value);
      }
      long now = System.nanoTime();
      broker.publish(1, FakeBroker.owing(40 * MIB, 15 * MIB, now + 100_000_000, now));
      // How much less is resident then is up to malloc.
      Await.until(
          "they are collected",
          () -> values.stream().filter(value -> value.get() == null).count() >= 15);
      assertTrue(cache.weight() <= 5 * MIB);
    }
  }

  @Test
  void aHeapsSizeBoundsTheCacheInIt() throws Exception {
    try (FakeBroker broker = new FakeBroker(folder, Script.GOOD)) {
      broker.firstNumbers = numbers(1L << 50);
      try (Principal principal = open(broker, "self");
          MemoryCache<Integer, Integer> cache = cacheOf(principal).build()) {
        assertEquals(Runtime.getRuntime().maxMemory() / 2, cache.maximum());
      }
    }
  }

  @Test
  void closingFreesAllValuesOnce() throws Exception {
    try (FakeBroker broker = new FakeBroker(folder, Script.GOOD);
        Principal principal = open(broker, "self")) {
      MemoryCache<Integer, Integer> cache = cacheOf(principal).freedBy(freed::addAndGet).build();
      fill(cache, 7);
      cache.cache().put(1, (int) (2 * MIB));
      assertEquals(MIB, freed.get(), "the value that was replaced");
      cache.close();
      cache.close();
      assertEquals(9 * MIB, freed.get());
      assertThrows(IllegalArgumentException.class, () -> cacheOf(principal).minimum(-1));
      assertThrows(IllegalArgumentException.class, () -> cacheOf(principal).demand(-1));
    }
  }
}
