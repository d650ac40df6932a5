package io.plimsoll.memory;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.plimsoll.memory.FakeBroker.Script;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A program without descriptors, one that was stopped, and one that is killed. */
class HardshipTest {
  @TempDir Path folder;

  /** The program: it does what it is told, and says what it sees. */
  static final class Program {
    private Program() {}

    /**
     * Runs it.
     *
     * @param arguments none
     * @throws Exception when something fails that should not
     */
    public static void main(String[] arguments) throws Exception {
      List<FileChannel> taken = new ArrayList<>();
      var input = new BufferedReader(new InputStreamReader(System.in));
      try (Principal principal = Principal.builder("child").open()) {
        for (String told = input.readLine(); told != null; told = input.readLine()) {
          switch (told) {
            case "joined" -> Await.event(principal, Event.Kind.JOINED);
            case "lost" -> Await.event(principal, Event.Kind.BROKER_LOST);
            case "broker" ->
                Await.until("broker", () -> principal.read().source() == Source.BROKER);
            case "take all" -> takeAll(taken);
            case "give back" -> {
              for (FileChannel file : taken) {
                file.close();
              }
            }
            default -> principal.released(Long.parseLong(told));
          }
          System.out.println(told);
        }
      }
    }

    private static void takeAll(List<FileChannel> taken) {
      try {
        while (true) {
          taken.add(FileChannel.open(Path.of("/dev/null")));
        }
      } catch (IOException none) {
        // All are taken.
      }
    }
  }

  private static void tell(Child child, String... lines) throws IOException {
    for (String line : lines) {
      child.tell(line);
      child.says(line);
    }
  }

  @Test
  void aProgramWithoutDescriptorsIsAloneAndRejoinsWhenItHasSome() throws Exception {
    FakeBroker first = new FakeBroker(folder, Script.GOOD);
    String few = "ulimit -n 64 && exec \"$@\"";
    try (Child child = new Child(few, first.socket(), Program.class)) {
      // A class that is read from a folder takes a descriptor: all are loaded before.
      tell(child, "joined");
      first.close();
      tell(child, "lost");
      FakeBroker broker = new FakeBroker(folder, Script.GOOD, 4);
      tell(child, "joined", "3");
      Await.until("it is told", () -> broker.released() == 3);
      tell(child, "take all");
      broker.close();
      // Its own sockets were closed.
      tell(child, "lost", "take all");
      try (FakeBroker next = new FakeBroker(folder, Script.GOOD, 7)) {
        Await.sleep(300);
        assertEquals(0, next.count(next.registered));
        tell(child, "give back", "joined", "5");
        Await.until("it goes on", () -> next.released() == 5);
        child.process.getOutputStream().close();
        assertEquals(0, child.ended());
      }
    }
  }

  @Test
  void aProgramThatWasStoppedGoesOn() throws Exception {
    try (FakeBroker broker = new FakeBroker(folder, Script.GOOD);
        Child child = new Child("exec \"$@\"", broker.socket(), Program.class)) {
      tell(child, "joined");
      child.signal("STOP");
      Await.sleep(4000);
      broker.publish(1, FakeBroker.numbers(30 * FakeBroker.MIB));
      child.signal("CONT");
      tell(child, "broker", "6");
      Await.until("it goes on", () -> broker.released() == 6);
      assertEquals(1, broker.count(broker.registered));
    }
  }

  @Test
  void theBrokerSeesTheEndOfAProgramThatIsKilled() throws Exception {
    try (FakeBroker broker = new FakeBroker(folder, Script.GOOD);
        Child child = new Child("exec \"$@\"", broker.socket(), Program.class)) {
      tell(child, "joined");
      child.process.destroyForcibly();
      Await.until("it is gone", () -> broker.count(broker.gone) == 1);
    }
  }
}
