package io.plimsoll.memory;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.fail;

import java.io.IOException;
import java.time.Duration;
import java.util.concurrent.Callable;
import java.util.function.Predicate;

/**
 * Waits of tests. They end as soon as the thing happens, and are long enough for a busy machine.
 */
public final class Await {
  /** The longest wait. */
  public static final Duration SOON = Duration.ofSeconds(60);

  private Await() {}

  /**
   * Waits until something holds.
   *
   * @param what for people
   * @param holds whether it does
   * @throws Exception when looking fails
   */
  public static void until(String what, Callable<Boolean> holds) throws Exception {
    long end = System.nanoTime() + SOON.toNanos();
    while (!holds.call()) {
      if (System.nanoTime() - end > 0) {
        fail("never happened: " + what);
      }
      sleep(2);
    }
  }

  /**
   * Waits for an event, and passes others over.
   *
   * @param principal the principal
   * @param wanted which event
   * @return the event
   * @throws InterruptedException when the test is to end
   */
  public static Event event(Principal principal, Predicate<Event> wanted)
      throws InterruptedException {
    long end = System.nanoTime() + SOON.toNanos();
    while (true) {
      Event event = principal.await(Duration.ofNanos(Math.max(end - System.nanoTime(), 0)));
      if (wanted.test(event)) {
        return event;
      }
      if (System.nanoTime() - end > 0) {
        fail("the last event was " + event + ", " + principal.lastError());
      }
    }
  }

  /**
   * Waits for an event of this kind.
   *
   * @param principal the principal
   * @param kind the kind
   * @return the event
   * @throws InterruptedException when the test is to end
   */
  public static Event event(Principal principal, Event.Kind kind) throws InterruptedException {
    return event(principal, event -> event.kind() == kind);
  }

  static void sleep(long milliseconds) {
    try {
      Thread.sleep(milliseconds);
    } catch (InterruptedException ended) {
      Thread.currentThread().interrupt();
    }
  }

  static void run(String... command) throws IOException {
    try {
      assertEquals(0, new ProcessBuilder(command).inheritIO().start().waitFor());
    } catch (InterruptedException ended) {
      Thread.currentThread().interrupt();
    }
  }
}
