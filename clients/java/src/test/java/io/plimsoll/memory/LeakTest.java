package io.plimsoll.memory;

import static org.junit.jupiter.api.Assertions.assertTrue;

import io.plimsoll.memory.FakeBroker.Script;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Principals that open and close leave nothing behind. */
class LeakTest {
  @TempDir Path folder;

  static long descriptors() throws Exception {
    try (Stream<Path> all = Files.list(Path.of("/proc/self/fd"))) {
      return all.count();
    }
  }

  static long threads() {
    return Thread.getAllStackTraces().keySet().stream()
        .filter(thread -> thread.getName().startsWith("plimsoll"))
        .count();
  }

  private long mappings() throws Exception {
    try (Stream<String> lines = Files.lines(Path.of("/proc/self/maps"))) {
      return lines.filter(line -> line.contains(folder.toString())).count();
    }
  }

  private void comeAndGo(FakeBroker broker, int times) throws Exception {
    for (int time = 0; time < times; time++) {
      try (Principal principal =
              Principal.builder("p").socket(broker.socket()).timeout(Await.SOON).open();
          Adaptive adaptive = Adaptive.follow(principal, event -> 0)) {
        assertTrue(principal.id().isPresent() && adaptive != null);
      }
    }
  }

  @Test
  void aHundredPrincipalsLeaveNothingBehind() throws Exception {
    try (FakeBroker broker = new FakeBroker(folder, Script.GOOD)) {
      // Things that a process makes only once are made here.
      comeAndGo(broker, 10);
      Await.until("they ended", () -> broker.count(broker.gone) == 10);
      long before = descriptors();
      comeAndGo(broker, 100);
      Await.until("all ended", () -> broker.count(broker.gone) == 110);
      Await.until("descriptors are closed", () -> descriptors() <= before);
      Await.until("threads have ended", () -> threads() == 0);
      Await.until(
          "pages are unmapped by a collection",
          () -> {
            System.gc();
            return mappings() == 0;
          });
    }
  }
}
