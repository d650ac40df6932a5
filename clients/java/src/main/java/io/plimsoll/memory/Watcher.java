package io.plimsoll.memory;

import io.plimsoll.memory.internal.page.Page;
import io.plimsoll.memory.internal.page.PageFile;
import io.plimsoll.memory.internal.sensing.Local;
import io.plimsoll.memory.internal.wire.Call;
import io.plimsoll.memory.internal.wire.Reply;
import java.io.IOException;
import java.nio.channels.Selector;
import java.nio.file.Path;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/**
 * The watcher: the thread that keeps a principal's numbers current. It alone talks to the broker,
 * so that an interrupt of a thread of the program closes nothing.
 *
 * <p>While joined it sleeps until the broker tells of a change, the program has something to send,
 * or a second is over (to check the heartbeat). While alone it senses, and tries to join with
 * growing pauses.
 */
final class Watcher implements Runnable {
  /** How often the heartbeat is checked while joined. */
  private static final long LOOK = TimeUnit.SECONDS.toNanos(1);

  /** The first and the longest pause between tries to join. */
  private static final long FIRST_PAUSE = TimeUnit.MILLISECONDS.toNanos(50);

  private static final long LAST_PAUSE = TimeUnit.SECONDS.toNanos(5);

  /**
   * The pause after a failure, nanoseconds, so that one that lasts does not keep a processor busy.
   */
  private static final long MOMENT = 1_000_000;

  /**
   * After a broker is gone: how often to look for a principal that another process registered,
   * before the program registers by itself. With the pauses this takes some seconds, in which
   * {@code plimsoll run} rejoins and brings weight and name back.
   */
  private static final int FINDS = 6;

  /** The most changes that are taken from the stream at a time. Only the last one counts. */
  private static final int BURST = 256;

  private final Shared shared;
  private final Selector selector;
  private final Local local = new Local(Path.of("/"));

  private final CompletableFuture<Void> begun = new CompletableFuture<>();

  /** The principal at a broker; null while alone. */
  private Bond bond;

  /** When to try the next join, and the pause after it fails. */
  private long nextTry = System.nanoTime();

  private long pause = FIRST_PAUSE;
  private boolean wasJoined;

  /** Remaining tries to find the principal that another process registered. */
  private int finds;

  Watcher(Shared shared, Selector selector) {
    this.shared = shared;
    this.selector = selector;
  }

  /** Completed after the first try to join, with its failure if that ends the watcher. */
  CompletableFuture<Void> begun() {
    return begun;
  }

  @Override
  public void run() {
    try (selector) {
      if (!shared.isClosing() && begin()) {
        while (!shared.isClosing()) {
          turn();
        }
      }
    } catch (IOException ended) {
      note(ended);
    } finally {
      end();
    }
  }

  /** Makes the first try to join. Returns whether the principal can go on. */
  private boolean begin() {
    try {
      sense();
      tryJoin();
    } catch (PlimsollException failure) {
      boolean isAbsent = failure.kind() == PlimsollException.Kind.ABSENT;
      // Where another user took a usual place of ours, and no broker answers at the others, there
      // is
      // none for us.
      boolean isTaken = failure.kind() == PlimsollException.Kind.UNTRUSTED;
      boolean isOld = failure.isRefusal("NoSuchPrincipal") && shared.wish().isAnothers();
      if (!isAbsent && !isTaken && !isOld) {
        begun.completeExceptionally(failure);
        return false;
      }
      // Where the environment is older than the broker, look for the principal by its process.
      wasJoined |= isOld;
    } catch (RuntimeException | Error fault) {
      note(fault);
    }
    begun.complete(null);
    return true;
  }

  private void sleep() throws IOException {
    // An interrupt is not meant for this thread, and would end each sleep at once.
    Thread.interrupted();
    long left =
        bond != null ? LOOK : Math.min(nextTry - System.nanoTime(), local.interval().toNanos());
    long wait = TimeUnit.NANOSECONDS.toMillis(left);
    boolean isBusy = shared.hasWork() || bond != null && bond.hasMore;
    wakeOnInput(true);
    if (isBusy || wait <= 0) {
      selector.selectNow();
    } else {
      selector.select(wait);
    }
    selector.selectedKeys().clear();
    wakeOnInput(false);
  }

  private void wakeOnInput(boolean isWanted) {
    if (bond != null) {
      bond.control.wakeOnInput(isWanted);
      bond.stream.wakeOnInput(isWanted);
    }
  }

  /** Nothing that a broker or the system does ends this thread, not even a lack of memory. */
  private void turn() {
    try {
      sleep();
      if (bond != null) {
        tend();
      } else if (System.nanoTime() - nextTry >= 0) {
        tryJoin();
      } else {
        sense();
      }
    } catch (IOException | RuntimeException | Error failure) {
      note(failure);
      LockSupport.parkNanos(MOMENT);
      try {
        part();
      } catch (RuntimeException | Error again) {
        // The next turn senses.
        note(again);
      }
    }
  }

  private void note(Throwable failure) {
    boolean isTold = failure instanceof PlimsollException;
    shared.setError(isTold ? failure.getMessage() : failure.toString());
  }

  // Joined.

  private void tend() throws PlimsollException {
    boolean hasNews = hear();
    if (bond.page != null && bond.page.fault() != null) {
      showPage();
      hasNews = true;
    }
    if (hasNews) {
      takeOver();
    }
    makeCalls();
    send();
    if (bond.control.hasEnded()) {
      throw new PlimsollException(
          PlimsollException.Kind.ABSENT, "the broker closed the connection", null);
    }
    feelPulse();
  }

  /** Takes the changes that have come. Returns whether there were any. */
  private boolean hear() throws PlimsollException {
    int count = 0;
    while (count < BURST) {
      Reply reply = bond.stream.next(Duration.ZERO);
      if (reply == null) {
        break;
      }
      bond.heard = System.nanoTime();
      bond.last = Changed.of(reply.result(), bond.heard);
      count++;
      if (!reply.continues()) {
        throw new PlimsollException(
            PlimsollException.Kind.ABSENT, "the broker ended the stream of changes", null);
      }
    }
    bond.hasMore = count == BURST;
    return count > 0;
  }

  /** Shows the broker's page. If that fails, shows the numbers from the stream. */
  private void showPage() {
    try {
      bond.page = PageFile.map(bond.path, bond.id);
      shared.show(Window.on(bond.page, Source.BROKER));
    } catch (PlimsollException unusable) {
      shared.setError(unusable.getMessage());
      bond.page = null;
      shared.show(Window.of(bond.numbers(System.nanoTime())));
    }
  }

  /** Passes the broker's last numbers to waiting threads, and to readers without the page. */
  private void takeOver() {
    Numbers numbers = bond.numbers(System.nanoTime());
    if (bond.page == null) {
      shared.show(Window.of(numbers));
    }
    shared.tell(numbers);
  }

  private void makeCalls() throws PlimsollException {
    for (Shared.Pending next = shared.nextCall(); next != null; next = shared.nextCall()) {
      try {
        bond.control.call(next.call().apply(bond.id));
        next.done().complete(null);
      } catch (PlimsollException failure) {
        if (failure.kind() == PlimsollException.Kind.REFUSED) {
          next.done().completeExceptionally(failure);
        } else {
          // The setting is kept for the next broker.
          next.done().complete(null);
          throw failure;
        }
      }
    }
  }

  private void send() throws PlimsollException {
    Outbox.Contents contents = shared.takeOutbox();
    if (contents.released() > 0) {
      attempt(() -> bond.control.call(Calls.released(bond.id, contents.released())));
    }
    if (contents.report() != null) {
      attempt(() -> bond.report(contents.report()));
    }
  }

  /** A call. */
  private interface Attempt {
    void make() throws PlimsollException;
  }

  /** A refusal is a mistake of the program. The connection is fine. */
  private void attempt(Attempt attempt) throws PlimsollException {
    try {
      attempt.make();
    } catch (PlimsollException failure) {
      if (failure.kind() != PlimsollException.Kind.REFUSED) {
        throw failure;
      }
      shared.setError(failure.getMessage());
    }
  }

  /**
   * Checks whether the broker lives. A broker that hangs keeps its connections, but its page grows
   * old. A call tells whether the broker or only the page is dead.
   */
  private void feelPulse() throws PlimsollException {
    long now = System.nanoTime();
    boolean isFresh =
        bond.page != null ? !bond.page.isStale(now) : now - bond.heard < Page.STALE_AFTER / 3;
    if (isFresh) {
      return;
    }
    if (bond.page != null) {
      shared.show(Window.on(bond.page, Source.STALE));
    }
    bond.control.call(Call.info());
    bond.heard = System.nanoTime();
    // Where the broker lives but its page does not, the stream tells the numbers from now on.
    bond.page = null;
    takeOver();
  }

  /** Leaves a broker that is gone. Changes to local numbers at once, and tries to rejoin soon. */
  private void part() {
    if (bond != null) {
      Bond left = bond;
      bond = null;
      local.inherit(left.last.numbers().limit(), System.nanoTime());
      pause = FIRST_PAUSE;
      nextTry = System.nanoTime() + pause;
      left.close();
    }
    sense();
  }

  // Alone.

  private void sense() {
    shared.setAlone(showLocal());
  }

  private Numbers showLocal() {
    Numbers numbers = local.sense(shared.copyOfWish().pid, System.nanoTime());
    shared.show(Window.of(numbers));
    return numbers;
  }

  private void tryJoin() throws PlimsollException {
    try {
      Join.Before before = new Join.Before(wasJoined, finds > 0);
      join(Join.join(shared.copyOfWish(), before, selector));
    } catch (PlimsollException | RuntimeException | Error failure) {
      note(failure);
      nextTry = System.nanoTime() + jittered(pause);
      pause = Math.min(pause * 2, LAST_PAUSE);
      finds = Math.max(finds - 1, 0);
      throw failure;
    }
  }

  private void join(Join.Joined joined) {
    boolean isFound = !joined.found().registered() && !shared.wish().isAnothers();
    bond = new Bond(joined);
    wasJoined = true;
    finds = isFound ? FINDS : 0;
    pause = FIRST_PAUSE;
    shared.setError(null);
    showPage();
    shared.setJoined(bond.id, joined.found().registered(), bond.numbers(bond.heard));
  }

  private void end() {
    if (bond != null) {
      bond.close();
    }
    Numbers last = shared.window().read();
    Numbers shown = last == null ? Numbers.NOTHING : last;
    shared.show(Window.of(shown.from(Source.STALE, shown.generation(), shown.heartbeat())));
    shared.end();
    begun.complete(null);
  }

  /**
   * A random time between half and all of a pause, so that a thousand programs do not rejoin at
   * once.
   */
  private static long jittered(long pause) {
    return pause / 2 + ThreadLocalRandom.current().nextLong(pause / 2);
  }
}
