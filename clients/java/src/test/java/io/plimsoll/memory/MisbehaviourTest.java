package io.plimsoll.memory;

import static io.plimsoll.memory.FakeBroker.MIB;
import static io.plimsoll.memory.FakeBroker.numbers;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTimeout;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.plimsoll.memory.FakeBroker.Script;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.OptionalLong;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Principals of brokers that hang, send nonsense, cut connections off, or lose their pages. */
class MisbehaviourTest {
  @TempDir Path folder;

  private static PrincipalBuilder builder(FakeBroker broker) {
    return Principal.builder("test").socket(broker.socket()).timeout(Await.SOON);
  }

  @Test
  void aBrokerThatHangsIsLeftAfterAWhileAndBlocksNobody() throws Exception {
    try (FakeBroker broker = new FakeBroker(folder, Script.GOOD)) {
      Principal principal = builder(broker).timeout(Duration.ofMillis(200)).open();
      Await.event(principal, Event.Kind.JOINED);
      broker.freeze();
      principal.setWeight(5);
      Event lost = Await.event(principal, Event.Kind.BROKER_LOST);
      assertEquals(Source.LOCAL, lost.numbers().source());
      assertTimeout(
          Await.SOON,
          () -> {
            principal.report(new Report());
            principal.released(1);
            principal.read();
            principal.close();
          });
    }
  }

  @Test
  void aBrokerWhoseHeartStopsIsNoticedWithoutACall() throws Exception {
    try (FakeBroker broker = new FakeBroker(folder, Script.GOOD);
        Principal principal = builder(broker).timeout(Duration.ofMillis(300)).open()) {
      Await.event(principal, Event.Kind.JOINED);
      broker.freeze();
      Await.event(principal, Event.Kind.BROKER_LOST);
      assertEquals(Source.LOCAL, principal.read().source());
      assertTrue(principal.lastError().orElse("").contains("did not answer"));
    }
  }

  @Test
  void aPageThatGrowsOldUnderALivingBrokerIsReplacedByTheStream() throws Exception {
    try (FakeBroker broker = new FakeBroker(folder, Script.GOOD);
        Principal principal = builder(broker).open()) {
      Await.event(principal, Event.Kind.JOINED);
      broker.isFrozen = true;
      long first = principal.read().heartbeat();
      Await.until(
          "the heartbeat is fresh again",
          () -> principal.read().heartbeat() > first + 2_000_000_000L);
      Await.until("it is the broker's", () -> principal.read().source() == Source.BROKER);
      assertEquals(100 * MIB, principal.limit());
      broker.publish(1, numbers(50 * MIB));
      Await.until("the stream tells", () -> principal.limit() == 50 * MIB);
    }
  }

  @ParameterizedTest
  @EnumSource(names = {"SILENT", "LATE", "TRUNCATED", "TRICKLES", "DIES_AFTER_REGISTER"})
  void badBrokersCostATimeoutAtTheMost(Script script) throws Exception {
    try (FakeBroker broker = new FakeBroker(folder, script)) {
      broker.lateMs = 1000;
      try (Principal principal = builder(broker).timeout(Duration.ofMillis(100)).open()) {
        Await.until(
            "alone, and it is said why",
            () -> {
              String error = principal.lastError().orElse("");
              boolean isSaid = error.contains("did not answer") || error.contains("closed");
              return isSaid && principal.read().source() == Source.LOCAL;
            });
        broker.script = Script.GOOD;
        Event joined = Await.event(principal, Event.Kind.JOINED);
        assertEquals(100 * MIB, joined.numbers().limit());
      }
    }
  }

  @ParameterizedTest
  @EnumSource(names = {"GARBAGE", "ENDLESS", "MEGABYTES", "LIES", "REFUSES"})
  void brokersThatTalkNonsenseAreNamed(Script script) throws Exception {
    try (FakeBroker broker = new FakeBroker(folder, script)) {
      var failure = assertThrows(PlimsollException.class, () -> builder(broker).open());
      if (script == Script.REFUSES) {
        assertEquals("io.plimsoll.TooMany", failure.error());
        assertEquals("full; raise max_principals", failure.getMessage());
      } else {
        assertEquals(PlimsollException.Kind.PROTOCOL, failure.kind(), failure.getMessage());
      }
    }
  }

  @ParameterizedTest
  @EnumSource(names = {"GARBAGE", "ENDLESS", "MEGABYTES", "TRUNCATED", "TRICKLES", "SILENT"})
  void aBrokerThatTurnsBadIsLeftAndTriedAgain(Script script) throws Exception {
    try (FakeBroker broker = new FakeBroker(folder, Script.GOOD);
        Principal principal = builder(broker).timeout(Duration.ofMillis(300)).open()) {
      Await.event(principal, Event.Kind.JOINED);
      broker.script = script;
      principal.report(new Report().live(1));
      Await.event(principal, Event.Kind.BROKER_LOST);
      assertEquals(Source.LOCAL, principal.read().source());
      broker.script = Script.GOOD;
      Await.event(principal, Event.Kind.JOINED);
    }
  }

  @Test
  void aLateAnswerInTimeIsTaken() throws Exception {
    try (FakeBroker broker = new FakeBroker(folder, Script.LATE)) {
      broker.lateMs = 100;
      try (Principal principal = builder(broker).open()) {
        assertEquals(Source.BROKER, principal.read().source());
      }
    }
  }

  @ParameterizedTest
  @EnumSource(names = {"NO_PAGE", "SHORT_PAGE", "WRONG_VERSION", "WRONG_ID", "PIPE_PAGE"})
  void withoutAUsablePageTheStreamTellsTheNumbers(Script script) throws Exception {
    try (FakeBroker broker = new FakeBroker(folder, script);
        Principal principal = builder(broker).open()) {
      assertEquals(100 * MIB, principal.read().limit());
      assertEquals(Source.BROKER, principal.read().source());
      String error = principal.lastError().orElse("");
      assertTrue(error.contains("page"), error);
      broker.publish(1, numbers(30 * MIB));
      Await.until("the stream tells", () -> principal.limit() == 30 * MIB);
      Await.event(principal, event -> event.numbers().limit() == 30 * MIB);
    }
  }

  @Test
  void aReplacedPageChangesNothing() throws Exception {
    try (FakeBroker broker = new FakeBroker(folder, Script.GOOD);
        Principal principal = builder(broker).open()) {
      Files.delete(broker.page(1));
      Files.write(broker.page(1), new byte[4096]);
      broker.publish(1, numbers(40 * MIB));
      assertEquals(40 * MIB, principal.limit(), "the mapping is of the file that was there");
      assertEquals(Source.BROKER, principal.read().source());
    }
  }

  @Test
  void numbersThatNoMachineHasAreShownAsTheyAre() throws Exception {
    try (FakeBroker broker = new FakeBroker(folder, Script.GOOD)) {
      long most = Long.MAX_VALUE;
      broker.firstNumbers =
          new Numbers(most, most, most, most, most, most, Level.CRITICAL, 0, Source.BROKER, 0, 0);
      try (Principal principal = builder(broker).open()) {
        Await.event(principal, Event.Kind.JOINED);
        assertEquals(most, principal.read().owed());
        principal.released(most);
        assertEquals(0, principal.read().uses());
        principal.released(most);
        Await.until("it is told", () -> broker.released() != 0);
        assertEquals(OptionalLong.of(1), principal.id());
      }
    }
  }

  @Test
  void aBrokerThatTellsTooMuchKeepsNobodyFromReporting() throws Exception {
    try (FakeBroker broker = new FakeBroker(folder, Script.CHATTERS);
        Principal principal = builder(broker).open()) {
      principal.released(7);
      Await.until("it is told", () -> broker.released() == 7);
      principal.setWeight(3);
      broker.script = Script.GOOD;
    }
  }

  @Test
  void interruptsOfTheProgramsThreadsCloseNothing() throws Exception {
    try (FakeBroker broker = new FakeBroker(folder, Script.GOOD);
        Principal principal = builder(broker).open()) {
      Thread.currentThread().interrupt();
      principal.setWeight(12);
      assertTrue(Thread.interrupted(), "the interrupt is kept");
      assertEquals(12L, broker.sets.get(0).get("weight"));
      for (Thread thread : Thread.getAllStackTraces().keySet()) {
        if (thread.getName().equals("plimsoll")) {
          thread.interrupt();
        }
      }
      principal.setWeight(13);
      assertEquals(OptionalLong.of(1), principal.id());
    }
  }

  @Test
  void anOlderBrokerGetsReportsWithoutWorth() throws Exception {
    FakeBroker broker = new FakeBroker(folder, Script.OLD);
    try (Principal principal = builder(broker).open()) {
      principal.report(new Report().demand(5).worth(7));
      Await.until("it is told the rest", () -> broker.count(broker.reports) == 2);
      principal.report(new Report().live(3).worth(8));
      Await.until("it is told more", () -> broker.count(broker.reports) == 3);
      assertEquals(Map.of("id", 1L, "demand", 5L, "worth", 7L), broker.reports.get(0));
      assertEquals(Map.of("id", 1L, "demand", 5L), broker.reports.get(1));
      assertEquals(Map.of("id", 1L, "demand", 5L, "live", 3L), broker.reports.get(2));
      broker.close();
      try (FakeBroker newer = new FakeBroker(folder, Script.GOOD)) {
        Await.until("a newer one is told all", () -> newer.count(newer.reports) == 1);
        assertEquals(8L, newer.reports.get(0).get("worth"));
      }
    }
  }
}
