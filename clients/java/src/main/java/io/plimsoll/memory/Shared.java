package io.plimsoll.memory;

import io.plimsoll.memory.internal.wire.BrokerSocket;
import io.plimsoll.memory.internal.wire.Call;
import java.nio.channels.Selector;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.LongFunction;
import java.util.function.Supplier;

/** The state that the program's threads and the watcher share. */
final class Shared {
  /** The longest single wait, nanoseconds. */
  private static final long LONGEST = TimeUnit.DAYS.toNanos(1);

  /** The watcher sleeps on it. */
  private final Selector selector;

  private final ReentrantLock lock = new ReentrantLock();

  /** Wakes threads that wait for events. */
  private final Condition changed = lock.newCondition();

  /** Written by the watcher only. */
  private volatile Window window = Window.of(Numbers.NOTHING);

  /** When memory was given back last; 0 before the first time. Older numbers need {@link #paid}. */
  private volatile long paidAt;

  // The fields below belong to the lock.

  private final Wish wish;
  private final Outbox outbox = new Outbox();
  private final PendingReleases paid = new PendingReleases();
  private final Queue<Pending> calls = new ArrayDeque<>();

  /** The present state, set by the watcher, and the one that waiting threads were told last. */
  private Told now = new Told(Numbers.NOTHING, 0, false);

  private Told told = now;

  /** The number at the present broker; null while alone. */
  private Long id;

  private boolean isRegistered;
  private boolean isInterrupted;
  private boolean isClosing;
  private String error;

  /**
   * A call that waits for the watcher to make it.
   *
   * @param call makes the call from the principal's number
   * @param done completed when it was made, or is kept for the next join
   */
  record Pending(LongFunction<Call> call, CompletableFuture<Void> done) {}

  Shared(Wish wish, Selector selector) {
    this.wish = wish;
    this.selector = selector;
  }

  // For readers.

  Numbers read() {
    Window shown = window;
    Numbers numbers = shown.read();
    if (numbers == null) {
      numbers = readSlowly();
    }
    return paidAt > numbers.asOf() ? settled(numbers) : numbers;
  }

  long limit() {
    long limit = window.limit();
    return limit != 0 ? limit : read().limit();
  }

  private Numbers settled(Numbers numbers) {
    lock.lock();
    try {
      return paid.settle(numbers);
    } finally {
      lock.unlock();
    }
  }

  /** The last numbers, while the page shows none. Wakes the watcher, which replaces the page. */
  private Numbers readSlowly() {
    lock.lock();
    try {
      Numbers last = now.numbers();
      if (last.source() != Source.BROKER || window.page() == null) {
        return last;
      }
      nudge();
      return last.from(Source.STALE, last.generation(), last.heartbeat());
    } finally {
      lock.unlock();
    }
  }

  Event await(Duration timeout) throws InterruptedException {
    long left = nanoseconds(timeout);
    lock.lockInterruptibly();
    try {
      while (true) {
        Told settled = settled();
        Event.Kind news = settled.newsSince(told);
        // Small changes are taken over without an event.
        told = settled;
        if (news != null) {
          return new Event(news, settled.numbers());
        }
        if (left <= 0 || isInterrupted || isClosing) {
          isInterrupted = false;
          break;
        }
        left = changed.awaitNanos(left);
      }
    } finally {
      lock.unlock();
    }
    // Events skip small changes; the page has them.
    return new Event(Event.Kind.TIMEOUT, read());
  }

  void interrupt() {
    lock.lock();
    try {
      isInterrupted = true;
      changed.signalAll();
    } finally {
      lock.unlock();
    }
  }

  // For callers.

  void report(Report report) {
    locked(() -> outbox.report(report));
    nudge();
  }

  void released(long bytes) {
    locked(
        () -> {
          outbox.released(bytes);
          if (bytes > 0) {
            long at = System.nanoTime();
            paid.add(bytes, at, now.numbers());
            paidAt = at;
            announce();
          }
        });
    nudge();
  }

  /**
   * Keeps a setting for the next join, and tells the present broker if there is one.
   *
   * @throws PlimsollException the broker's refusal; then the setting is not kept
   */
  void change(Runnable keep, LongFunction<Call> call) throws PlimsollException {
    CompletableFuture<Void> done = new CompletableFuture<>();
    locked(
        () -> {
          if (isClosing) {
            throw new IllegalStateException("the principal is closed");
          }
          if (id == null) {
            done.complete(null);
          } else {
            calls.add(new Pending(call, done));
          }
        });
    nudge();
    // A call waits for a few others at most: for one that is made, and a report.
    awaitCall(done, 4 * nanoseconds(wish.timeout));
    locked(keep);
  }

  private static void awaitCall(CompletableFuture<Void> done, long wait) throws PlimsollException {
    long deadline = System.nanoTime() + wait;
    boolean wasInterrupted = false;
    try {
      while (true) {
        try {
          done.get(deadline - System.nanoTime(), TimeUnit.NANOSECONDS);
          return;
        } catch (InterruptedException early) {
          wasInterrupted = true;
        } catch (TimeoutException late) {
          // The broker hangs. The watcher leaves it, and tells the next one.
          return;
        } catch (ExecutionException failure) {
          if (failure.getCause() instanceof PlimsollException refused) {
            throw refused;
          }
          throw new IllegalStateException(failure.getCause());
        }
      }
    } finally {
      if (wasInterrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }

  Wish wish() {
    return wish;
  }

  List<BrokerSocket> candidates() {
    return wish.candidates;
  }

  Long id() {
    return got(() -> id);
  }

  boolean isRegistered() {
    return got(() -> isRegistered);
  }

  String adapter() {
    return got(() -> wish.adapter);
  }

  String lastError() {
    return got(() -> error);
  }

  void close() {
    locked(
        () -> {
          isClosing = true;
          changed.signalAll();
        });
    nudge();
  }

  // For the watcher.

  boolean isClosing() {
    return got(() -> isClosing);
  }

  Wish copyOfWish() {
    return got(wish::copy);
  }

  /** Whether the watcher has something to do for the program. */
  boolean hasWork() {
    return got(() -> isClosing || id != null && (!outbox.isEmpty() || !calls.isEmpty()));
  }

  Pending nextCall() {
    return got(calls::poll);
  }

  Outbox.Contents takeOutbox() {
    return got(outbox::take);
  }

  void show(Window shown) {
    window = shown;
  }

  Window window() {
    return window;
  }

  /** Takes new numbers over and wakes waiting threads. */
  void tell(Numbers numbers) {
    locked(
        () -> {
          now = now.with(numbers);
          announce();
        });
  }

  /** Notes a join. The broker's page is shown already. */
  void setJoined(long joinedAs, boolean registered, Numbers numbers) {
    locked(
        () -> {
          id = joinedAs;
          isRegistered = registered;
          now = new Told(numbers, now.joins() + 1, true);
          outbox.startAnew();
          announce();
        });
  }

  void setAlone(Numbers numbers) {
    locked(
        () -> {
          id = null;
          isRegistered = false;
          now = new Told(numbers, now.joins(), false);
          dropCalls();
          announce();
        });
  }

  /** The watcher has ended. */
  void end() {
    locked(
        () -> {
          isClosing = true;
          id = null;
          isRegistered = false;
          dropCalls();
          changed.signalAll();
        });
  }

  /** Nobody makes these calls. Their settings are kept for the next join. */
  private void dropCalls() {
    calls.forEach(pending -> pending.done().complete(null));
    calls.clear();
  }

  void setError(String message) {
    locked(() -> error = message);
  }

  private Told settled() {
    return now.with(paid.settle(now.numbers()));
  }

  private void announce() {
    if (settled().newsSince(told) != null) {
      changed.signal();
    }
  }

  private void nudge() {
    selector.wakeup();
  }

  private void locked(Runnable change) {
    lock.lock();
    try {
      change.run();
    } finally {
      lock.unlock();
    }
  }

  private <T> T got(Supplier<T> getter) {
    lock.lock();
    try {
      return getter.get();
    } finally {
      lock.unlock();
    }
  }

  private static long nanoseconds(Duration wait) {
    return wait.compareTo(Duration.ofNanos(LONGEST)) < 0 ? wait.toNanos() : LONGEST;
  }
}
