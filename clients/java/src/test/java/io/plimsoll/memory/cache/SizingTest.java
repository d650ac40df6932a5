package io.plimsoll.memory.cache;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.plimsoll.memory.Level;
import io.plimsoll.memory.Numbers;
import io.plimsoll.memory.Source;
import org.junit.jupiter.api.Test;

/** How large a cache may be. */
class SizingTest {
  private static final long MIB = 1 << 20;
  private static final long MOST = Long.MAX_VALUE;

  private static Numbers numbers(long limit, long uses, long owed) {
    long bytes = limit * MIB;
    return new Numbers(
        bytes, bytes, owed * MIB, 0, uses * MIB, 0, Level.NORMAL, 1, Source.BROKER, 0, 1);
  }

  @Test
  void itGrowsByAPartOfTheRoomAndOnlyBelowTheLimit() {
    assertEquals(30 * MIB, Sizing.maximum(numbers(100, 60, 0), 10 * MIB, 0, MOST));
    assertEquals(10 * MIB, Sizing.maximum(numbers(100, 100, 0), 10 * MIB, 0, MOST));
    assertEquals(10 * MIB, Sizing.maximum(numbers(100, 130, 0), 10 * MIB, 0, MOST));
    assertEquals(10 * MIB, Sizing.maximum(numbers(100, 60, 1), 10 * MIB, 0, MOST));
    assertEquals(12 * MIB, Sizing.maximum(numbers(100, 60, 0), 10 * MIB, 0, 12 * MIB));
    assertEquals(9 * MIB, Sizing.maximum(numbers(100, 200, 0), MIB, 9 * MIB, MIB), "the minimum");
  }

  @Test
  void aDebtIsPaidInSteps() {
    assertEquals(90 * MIB, Sizing.step(80 * MIB, 80 * MIB, 100 * MIB, 0));
    assertEquals(97 * MIB, Sizing.step(80 * MIB, 3 * MIB, 100 * MIB, 0), "no more than is left");
    assertEquals(99 * MIB, Sizing.step(2 * MIB, 2 * MIB, 100 * MIB, 0), "not too small a step");
    assertEquals(95 * MIB, Sizing.step(800 * MIB, 800 * MIB, 100 * MIB, 95 * MIB));
    assertEquals(50, Sizing.pause(1800, 1000));
    assertEquals(0, Sizing.pause(1000, 1800), "the deadline is past");
  }

  @Test
  void aCollectorKeepsHalfOfTheHeap() {
    assertEquals(70 * MIB, Sizing.heapBound(100 * MIB, MOST, numbers(100, 60, 0)));
    assertEquals(50 * MIB, Sizing.heapBound(100 * MIB, MOST, numbers(100, 200, 0)));
    assertEquals(60 * MIB, Sizing.heapBound(100 * MIB, 120 * MIB, numbers(900, 100, 0)));
  }

  @Test
  void smallChangesOfAFigureAreNotTold() {
    assertFalse(Sizing.isNews(1600, 1700));
    assertTrue(Sizing.isNews(1600, 1701));
    assertTrue(Sizing.isNews(0, 1));
  }
}
