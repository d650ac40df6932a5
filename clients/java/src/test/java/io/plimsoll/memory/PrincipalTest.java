package io.plimsoll.memory;

import static io.plimsoll.memory.FakeBroker.MIB;
import static io.plimsoll.memory.FakeBroker.numbers;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.plimsoll.memory.FakeBroker.Script;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.concurrent.LinkedBlockingQueue;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Principals of a broker that behaves well, dies and comes back. */
class PrincipalTest {
  @TempDir Path folder;

  private static PrincipalBuilder builder(FakeBroker broker) {
    // The broker answers. Any delay comes from a busy machine.
    return Principal.builder("test").socket(broker.socket()).timeout(Await.SOON);
  }

  @Test
  void registersReadsAndHears() throws Exception {
    try (FakeBroker broker = new FakeBroker(folder, Script.GOOD)) {
      Principal principal =
          builder(broker).weight(20).priority(3).max(5L << 30).adapter("self").open();
      Map<?, ?> asked = broker.registered.get(0);
      assertEquals(20L, asked.get("weight"));
      assertEquals(3L, asked.get("priority"));
      assertEquals(5L << 30, asked.get("max"));
      assertEquals(ProcessHandle.current().pid(), asked.get("pid"));
      assertEquals("test", asked.get("name"));
      assertEquals(OptionalLong.of(1), principal.id());
      assertTrue(principal.isRegistered());
      assertEquals(Optional.empty(), principal.lastError());
      assertEquals(Event.Kind.JOINED, principal.await(Await.SOON).kind());
      Numbers now = principal.read();
      assertEquals(100 * MIB, now.limit());
      assertEquals(200 * MIB, now.available());
      assertEquals(50 * MIB, now.room());
      assertEquals(Source.BROKER, now.source());

      // Reading needs the page only; a wake-up needs a message.
      broker.publishSilently(1, numbers(90 * MIB));
      assertEquals(90 * MIB, principal.limit());
      broker.publish(1, numbers(80 * MIB));
      Event changed = principal.await(Await.SOON);
      assertEquals(Event.Kind.CHANGED, changed.kind());
      assertEquals(80 * MIB, changed.numbers().limit());
      broker.publish(1, FakeBroker.owing(60 * MIB, MIB, 77, 0));
      Event owed = principal.await(Await.SOON);
      assertEquals(Event.Kind.OWED, owed.kind());
      assertEquals(MIB, owed.numbers().owed());
      assertEquals(77, owed.numbers().deadline());
      assertEquals(Level.WARNING, owed.numbers().level());
      broker.publish(1, numbers(60 * MIB));
      assertEquals(Event.Kind.RELIEF, principal.await(Await.SOON).kind());
      assertEquals(Event.Kind.TIMEOUT, principal.await(Duration.ZERO).kind());
      principal.close();
      Await.until("the broker sees the end", () -> broker.count(broker.gone) == 1);
    }
  }

  @Test
  void tellsTheBrokerWhatItIsTold() throws Exception {
    try (FakeBroker broker = new FakeBroker(folder, Script.GOOD);
        Principal principal = builder(broker).withoutProcess().open()) {
      principal.report(new Report().live(5));
      principal.report(new Report().collections(6).demand(7));
      principal.released(10);
      principal.released(20);
      principal.attach(4321);
      principal.setWeight(7);
      principal.setMax(0);
      Map<String, Long> merged = Map.of("id", 1L, "live", 5L, "collections", 6L, "demand", 7L);
      Await.until(
          "all of it arrives",
          () -> {
            synchronized (broker) {
              int last = broker.reports.size() - 1;
              return last >= 0 && broker.reports.get(last).equals(merged) && broker.released == 30;
            }
          });
      assertFalse(broker.registered.get(0).containsKey("pid"));
      assertEquals(Map.of("id", 1L, "pid", 4321L), broker.attached.get(0));
      assertEquals(Map.of("id", 1L, "weight", 7L), broker.sets.get(0));
      assertEquals(Map.of("id", 1L, "max", 0L), broker.sets.get(1));
    }
  }

  @Test
  void worksAloneWhereNoBrokerRuns() throws Exception {
    Path socket = folder.resolve("broker.sock");
    try (Principal principal = Principal.builder("alone").socket(socket).open()) {
      Numbers now = principal.read();
      assertEquals(Source.LOCAL, now.source());
      assertEquals(OptionalLong.empty(), principal.id());
      assertTrue(now.uses() > 0 && now.limit() >= now.uses() - now.owed(), now.toString());
      assertTrue(now.available() >= now.limit(), now.toString());
      assertTrue(principal.lastError().orElse("").contains("no broker runs"));
      principal.released(5);
      principal.report(new Report().live(9));
      principal.setWeight(33);
      principal.setPriority(-4);
      principal.attach(ProcessHandle.current().pid());
      // A broker starts, and is told everything that the program said before.
      try (FakeBroker broker = new FakeBroker(folder, Script.GOOD)) {
        Event joined = Await.event(principal, Event.Kind.JOINED);
        assertEquals(100 * MIB, joined.numbers().limit());
        assertEquals(Source.BROKER, principal.read().source());
        Await.until("the report is said again", () -> broker.count(broker.reports) > 0);
        assertEquals(9L, broker.reports.get(0).get("live"));
        assertEquals(33L, broker.registered.get(0).get("weight"));
        assertEquals(-4L, broker.registered.get(0).get("priority"));
      }
    }
    try (Principal never = Principal.builder("never").alone().open()) {
      assertEquals(Source.LOCAL, never.read().source());
    }
  }

  @Test
  void fallsBackAtOnceWhenTheBrokerDiesAndRejoins() throws Exception {
    FakeBroker broker = new FakeBroker(folder, Script.GOOD);
    try (Principal principal = builder(broker).weight(20).adapter("self").open();
        Principal child = principal.child("child").weight(5).timeout(Await.SOON).open()) {
      Await.until("both are there", () -> broker.count(broker.registered) == 2);
      assertEquals(1L, broker.registered.get(1).get("parent"));
      assertEquals(5L, broker.registered.get(1).get("weight"));
      Await.event(principal, Event.Kind.JOINED);
      Await.event(child, Event.Kind.JOINED);
      principal.setPriority(2);
      principal.setOwnWeight(9);
      broker.close();
      Event lost = Await.event(principal, Event.Kind.BROKER_LOST);
      assertEquals(Source.LOCAL, lost.numbers().source());
      assertTrue(lost.numbers().limit() <= 100 * MIB, "the dead broker's limit still bounds");
      assertEquals(Source.LOCAL, principal.read().source());
      assertEquals(OptionalLong.empty(), principal.id());
      Await.event(child, Event.Kind.BROKER_LOST);

      try (FakeBroker next = new FakeBroker(folder, Script.GOOD, 50)) {
        assertEquals(100 * MIB, Await.event(principal, Event.Kind.JOINED).numbers().limit());
        Await.event(child, Event.Kind.JOINED);
        assertEquals(20L, next.registered.get(0).get("weight"));
        assertEquals(2L, next.registered.get(0).get("priority"));
        assertEquals(9L, next.sets.get(0).get("own_weight"));
        assertEquals(50L, next.registered.get(1).get("parent"), "the child follows its parent");
        next.publish(50, numbers(70 * MIB));
        Await.until("the new page is read", () -> principal.limit() == 70 * MIB);
      }
    }
  }

  @Test
  void aProcessThatIsAPrincipalAlreadyIsFoundAndSteersItself() throws Exception {
    FakeBroker broker = new FakeBroker(folder, Script.STRICT);
    // As `plimsoll run` registers a program: with a weight, without an adapter.
    Principal outer = builder(broker).weight(40).open();
    try (Principal inner = builder(broker).weight(7).adapter("self").open()) {
      assertEquals(OptionalLong.of(1), outer.id());
      assertEquals(OptionalLong.of(1), inner.id());
      assertFalse(inner.isRegistered());
      Await.event(outer, Event.Kind.JOINED);
      Await.event(inner, Event.Kind.JOINED);
      assertEquals(Map.of("id", 1L, "adapter", "self"), broker.adapted.get(0));
      builder(broker).open().close();
      assertEquals(1, broker.count(broker.adapted), "who steers nothing says nothing");
      broker.publish(1, numbers(60 * MIB));
      Await.until("both follow", () -> outer.limit() == 60 * MIB && inner.limit() == 60 * MIB);

      // After a crash of the broker, the program waits for the principal of `plimsoll run`.
      broker.close();
      Await.event(inner, Event.Kind.BROKER_LOST);
      FakeBroker next = new FakeBroker(folder, Script.STRICT, 9);
      Await.event(outer, Event.Kind.JOINED);
      Await.event(inner, Event.Kind.JOINED);
      assertEquals(OptionalLong.of(9), inner.id());
      assertEquals(1, next.count(next.registered));
      assertEquals(40L, next.registered.get(0).get("weight"));

      // If that principal does not come back, the program registers itself.
      next.close();
      outer.close();
      try (FakeBroker last = new FakeBroker(folder, Script.STRICT, 20)) {
        Await.until("it registers", () -> inner.id().equals(OptionalLong.of(20)));
        assertTrue(inner.isRegistered());
        assertEquals(7L, last.registered.get(0).get("weight"));
      }
    }
  }

  @Test
  void aPageThatIsElsewhereIsFound() throws Exception {
    try (FakeBroker broker = new FakeBroker(folder, Script.STRICT);
        Principal outer = builder(broker).open()) {
      Await.event(outer, Event.Kind.JOINED);
      broker.kill();
      try (FakeBroker next = new FakeBroker(folder, Script.PAGES_ELSEWHERE, 20)) {
        Await.event(outer, Event.Kind.JOINED);
        next.publishSilently(20, numbers(33 * MIB));
        assertEquals(33 * MIB, outer.limit(), "the page is read, wherever it is");
      }
    }
  }

  @Test
  @SuppressWarnings("try")
  void waitsCanBeEnded() throws Exception {
    try (Principal principal = Principal.builder("p").alone().open()) {
      principal.await(Duration.ZERO);
      principal.interrupt();
      assertEquals(Event.Kind.TIMEOUT, principal.await(Await.SOON).kind());
      Thread.currentThread().interrupt();
      assertThrows(InterruptedException.class, () -> principal.await(Await.SOON));
      Thread.currentThread().interrupt();
      Principal opened = Principal.builder("q").alone().open();
      assertTrue(opened.read().uses() > 0);
      opened.close();
      assertTrue(Thread.interrupted(), "the interrupt is kept");
      principal.close();
      assertThrows(IllegalStateException.class, () -> principal.setWeight(3));
      principal.await(Await.SOON);
      assertEquals(Source.STALE, principal.read().source());
    }
  }

  @Test
  void aRefusedSettingIsNotKept() throws Exception {
    FakeBroker broker = new FakeBroker(folder, Script.GOOD);
    try (Principal principal = builder(broker).open()) {
      Await.event(principal, Event.Kind.JOINED);
      principal.setWeight(8);
      broker.script = Script.REFUSES;
      var refused = assertThrows(PlimsollException.class, () -> principal.setWeight(9));
      assertEquals("io.plimsoll.NotPermitted", refused.error());
      assertEquals(PlimsollException.Kind.REFUSED, refused.kind());
      assertEquals(OptionalLong.of(1), principal.id(), "the connection is fine");
      broker.close();
      try (FakeBroker next = new FakeBroker(folder, Script.GOOD)) {
        Await.event(principal, Event.Kind.BROKER_LOST);
        Await.event(principal, Event.Kind.JOINED);
        assertEquals(8L, next.registered.get(0).get("weight"));
      }
    }
  }

  @Test
  void badParametersAreRefusedBeforeTheyAreSent() {
    for (String name : new String[] {"", "a\nb", "x".repeat(65), "\u202e"}) {
      assertThrows(IllegalArgumentException.class, () -> Principal.builder(name));
    }
    PrincipalBuilder builder = Principal.builder("ä".repeat(32));
    assertThrows(IllegalArgumentException.class, () -> builder.weight(0));
    assertThrows(IllegalArgumentException.class, () -> builder.weight(10_001));
    assertThrows(IllegalArgumentException.class, () -> builder.priority(101));
    assertThrows(IllegalArgumentException.class, () -> builder.max(1));
    assertThrows(IllegalArgumentException.class, () -> builder.pid(0));
    assertThrows(IllegalArgumentException.class, () -> builder.adapter("A"));
    assertThrows(IllegalArgumentException.class, () -> builder.timeout(Duration.ZERO));
    assertThrows(IllegalArgumentException.class, () -> new Report().demand(-1));
  }

  @Test
  void aDebtThatWasPaidIsNotToldAgain() throws Exception {
    try (FakeBroker broker = new FakeBroker(folder, Script.GOOD);
        Principal principal = builder(broker).open()) {
      Await.event(principal, Event.Kind.JOINED);
      long sensed = System.nanoTime();
      broker.publish(1, FakeBroker.owing(50 * MIB, 8 * MIB, sensed + 1, sensed));
      Await.event(principal, Event.Kind.OWED);
      principal.released(8 * MIB);
      Numbers now = principal.read();
      assertEquals(0, now.owed());
      assertEquals(50 * MIB, now.uses());
      assertEquals(Event.Kind.RELIEF, principal.await(Await.SOON).kind());
      // The broker looked after that: this debt is new.
      broker.publish(1, FakeBroker.owing(50 * MIB, MIB, sensed + 2, System.nanoTime()));
      assertEquals(MIB, Await.event(principal, Event.Kind.OWED).numbers().owed());
      assertEquals(MIB, principal.read().owed());
    }
  }

  @Test
  void aFunctionIsCalledAtEachEvent() throws Exception {
    try (FakeBroker broker = new FakeBroker(folder, Script.GOOD);
        Principal principal = builder(broker).adapter("self").open()) {
      var events = new LinkedBlockingQueue<Event>();
      Adaptive adaptive =
          Adaptive.follow(
              principal,
              event -> {
                events.add(event);
                return event.numbers().owed();
              });
      assertEquals(100 * MIB, events.take().numbers().limit());
      broker.publish(1, FakeBroker.owing(50 * MIB, 4 * MIB, 1, 0));
      while (events.take().numbers().owed() != 4 * MIB) {
        assertFalse(broker.isDead);
      }
      Await.until("what was let go is told", () -> broker.released() >= 4 * MIB);
      adaptive.close();
      adaptive.close();
      assertEquals(OptionalLong.of(1), principal.id(), "the principal stays open");
    }
  }
}
