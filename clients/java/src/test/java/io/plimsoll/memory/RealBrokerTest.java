package io.plimsoll.memory;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.OptionalLong;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The client with the real broker. */
class RealBrokerTest {
  private static final long MIB = 1 << 20;
  private static final long BUDGET = 256 * MIB;

  @TempDir Path folder;

  private PrincipalBuilder builder(String name) {
    Path socket = folder.resolve("broker.sock");
    return Principal.builder(name).socket(socket).adapter("self").timeout(Await.SOON);
  }

  private static Process sleeper() throws IOException {
    return new ProcessBuilder("sleep", "600").start();
  }

  private static void awaitJoined(Principal principal) throws Exception {
    Await.event(principal, Event.Kind.JOINED);
    Await.until("numbers", () -> principal.read().source() == Source.BROKER);
  }

  private static boolean isAbout(long one, long other) {
    return one > 0 && Math.abs(one - other) <= 4 * 4096;
  }

  @Test
  void joinsSurvivesAndRejoins() throws Exception {
    Process one = null;
    Process other = null;
    RealBroker broker = new RealBroker(folder, "256M");
    try {
      one = sleeper();
      other = sleeper();
      try (Principal light = builder("light").weight(10).pid(one.pid()).open();
          Principal heavy = builder("heavy").weight(30).pid(other.pid()).open()) {
        awaitJoined(light);
        awaitJoined(heavy);
        Await.until(
            "shares are by weight", () -> isAbout(heavy.read().share(), light.read().share() * 3));
        assertTrue(light.limit() + heavy.limit() <= BUDGET);
        light.setWeight(30);
        Await.until(
            "a new weight counts", () -> isAbout(heavy.read().share(), light.read().share()));
        heavy.setMax(32 * MIB);
        Await.until("a maximum bounds", () -> heavy.limit() <= 32 * MIB);
        heavy.setMax(0);
        Await.until("and is taken away", () -> heavy.read().available() > 32 * MIB);

        // The broker dies by SIGKILL. All that clients notice is other numbers.
        broker.close();
        Await.event(light, Event.Kind.BROKER_LOST);
        Await.event(heavy, Event.Kind.BROKER_LOST);
        assertEquals(Source.LOCAL, light.read().source());
        assertTrue(light.read().uses() > 0);
        broker = new RealBroker(folder, "256M");
        awaitJoined(light);
        awaitJoined(heavy);
        Await.until(
            "weights as they were last", () -> isAbout(heavy.read().share(), light.read().share()));
      }
    } finally {
      broker.close();
      end(one);
      end(other);
    }
  }

  private static void end(Process process) {
    if (process != null) {
      process.destroyForcibly();
    }
  }

  @Test
  void theHeartbeatIsOfTheClockOfJava() throws Exception {
    try (RealBroker broker = new RealBroker(folder, "256M");
        Principal principal = builder("clock").open()) {
      assertTrue(Files.exists(broker.socket()));
      awaitJoined(principal);
      long before = principal.read().heartbeat();
      Await.until("it beats", () -> principal.read().heartbeat() > before);
      long behind = System.nanoTime() - principal.read().heartbeat();
      assertTrue(behind >= 0 && behind < Duration.ofMinutes(1).toNanos(), "behind by " + behind);
      String uptime = Files.readString(Path.of("/proc/uptime")).split(" ")[0];
      // The machine's uptime includes the time of suspend, the clock does not.
      assertTrue(System.nanoTime() / 1e9 <= Double.parseDouble(uptime) + 1);
      Numbers now = principal.read();
      assertTrue(now.sensed() > 0 && now.sensed() <= System.nanoTime());
      assertTrue(principal.lastError().isEmpty(), "the page is mapped");
    }
  }

  @Test
  void childrenShareWhatTheirParentGets() throws Exception {
    Process process = null;
    try (RealBroker broker = new RealBroker(folder, "256M");
        Principal parent = builder("parent").weight(50).open()) {
      assertTrue(Files.exists(broker.socket()));
      awaitJoined(parent);
      process = sleeper();
      long pid = process.pid();
      try (Principal group = parent.child("group").group().weight(20).open();
          Principal child = parent.child("child").weight(10).pid(pid).adapter("self").open()) {
        awaitJoined(group);
        awaitJoined(child);
        assertFalse(child.id().equals(parent.id()));
        parent.setOwnWeight(30);
        Await.until("it has its part", () -> child.read().share() > 0);
        assertTrue(child.read().share() < parent.read().share());
        var refused = assertThrows(PlimsollException.class, () -> group.attach(pid));
        assertEquals(PlimsollException.Kind.REFUSED, refused.kind());
      }
      // The children are gone, the parent is not.
      parent.setWeight(51);
      assertTrue(parent.id().isPresent());
    } finally {
      end(process);
    }
  }

  @Test
  void aSecondPrincipalOfAProcessIsTheFirst() throws Exception {
    try (RealBroker broker = new RealBroker(folder, "256M");
        Principal first = builder("first").open();
        Principal second = builder("second").open()) {
      assertTrue(Files.exists(broker.socket()));
      awaitJoined(first);
      awaitJoined(second);
      assertEquals(first.id(), second.id());
      assertTrue(first.isRegistered());
      assertFalse(second.isRegistered());
      second.report(new Report().demand(64 * MIB).floor(MIB).live(1).collections(2));
      second.released(4096);
      Await.until("nothing is refused", () -> second.lastError().isEmpty());
    }
  }

  @Test
  void aProcessThatDoesNotExistIsRefused() throws Exception {
    try (RealBroker broker = new RealBroker(folder, "256M")) {
      assertTrue(Files.exists(broker.socket()));
      var refused =
          assertThrows(
              PlimsollException.class, () -> builder("none").pid(Integer.MAX_VALUE).open());
      assertEquals("io.plimsoll.NoSuchProcess", refused.error());
      Principal late = builder("late").withoutProcess().open();
      assertEquals(0, late.limit());
      late.attach(ProcessHandle.current().pid());
      Await.until("it has a limit", () -> late.read().limit() > 0);
      late.close();
      assertEquals(OptionalLong.empty(), late.id());
    }
  }
}
