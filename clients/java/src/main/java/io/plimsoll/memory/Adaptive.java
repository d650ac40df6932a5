package io.plimsoll.memory;

import java.time.Duration;

/**
 * Calls a function at each event of a principal, on a daemon thread of its own.
 *
 * <pre>{@code
 * Adaptive adaptive = Adaptive.follow(principal, event -> cache.drop(event.numbers().owed()));
 * }</pre>
 */
public final class Adaptive implements AutoCloseable {
  /** The pause between two calls without news while memory is owed. */
  private static final Duration AGAIN = Duration.ofSeconds(1);

  private static final Duration LONGEST = Duration.ofHours(1);

  private final Principal principal;
  private final Change change;
  private final Thread thread;
  private volatile boolean isClosed;

  /** A function that adapts the program. */
  @FunctionalInterface
  public interface Change {
    /**
     * Adapts the program to the numbers. It frees the bytes that are owed and nothing more: the
     * limit is that of the whole program, and the debt is already the part of its use that is
     * above.
     *
     * @param event the event with its numbers
     * @return how many bytes were really freed; the broker is told
     */
    long apply(Event event);
  }

  private Adaptive(Principal principal, Change change) {
    this.principal = principal;
    this.change = change;
    this.thread = new Thread(this::run, "plimsoll-adapt");
    thread.setDaemon(true);
  }

  /**
   * Calls a function once at the start, at each event, and each second while memory is owed. An
   * exception in it goes to the thread's handler of uncaught exceptions, and ends the calls.
   *
   * @param principal the principal. Its events go to the function and nowhere else
   * @param change the function
   * @return an object that ends the calls when it is closed; the principal stays open
   */
  public static Adaptive follow(Principal principal, Change change) {
    Adaptive adaptive = new Adaptive(principal, change);
    adaptive.thread.start();
    return adaptive;
  }

  private void run() {
    try {
      tell(new Event(Event.Kind.CHANGED, principal.read()));
      while (!isClosed && !principal.isClosed()) {
        boolean owes = principal.read().owed() > 0;
        Event event = principal.await(owes ? AGAIN : LONGEST);
        boolean isNews = event.kind() != Event.Kind.TIMEOUT || owes;
        if (isNews && !isClosed && !principal.isClosed()) {
          tell(event);
        }
      }
    } catch (InterruptedException ended) {
      // Somebody else wants this thread to end.
      isClosed = true;
    }
  }

  private void tell(Event event) {
    long freed = change.apply(event);
    if (freed > 0) {
      principal.released(freed);
    }
  }

  /** Ends the calls. Waits for the one that runs now. */
  @Override
  public void close() {
    isClosed = true;
    if (Thread.currentThread() == thread) {
      return;
    }
    try {
      while (thread.isAlive()) {
        principal.interrupt();
        thread.join(100);
      }
    } catch (InterruptedException early) {
      // The calls end with the next one.
      Thread.currentThread().interrupt();
    }
  }
}
