package io.plimsoll.memory;

import io.plimsoll.memory.internal.wire.Call;
import java.nio.channels.Selector;
import java.time.Duration;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.LongFunction;

/**
 * A principal: the unit to which memory is accounted, a program with its descendants, or a group.
 * It is registered with a broker, or on its own while none runs. Any thread may use it.
 *
 * <pre>{@code
 * try (Principal principal = Principal.builder("my-cache").adapter("self").open()) {
 *   while (isRunning) {
 *     Numbers now = principal.await(Duration.ofSeconds(1)).numbers();
 *     if (now.owed() > 0) {
 *       principal.released(cache.drop(now.owed()));
 *     } else if (now.room() > 0) {
 *       cache.mayGrowBy(now.room());
 *     }
 *   }
 * }
 * }</pre>
 *
 * <p>Loading these classes does nothing. An open principal has one daemon thread and four
 * descriptors, which are closed on exec, and while joined the mapping of its page.
 */
public final class Principal implements AutoCloseable {
  private static final long STACK = 256 << 10;

  /** The longest wait for the first try to join, in timeouts. Its steps are bounded each. */
  private static final int STEPS = 16;

  private final Shared shared;
  private final Watcher watcher;
  private final Thread thread;

  Principal(Shared shared, Selector selector) {
    this.shared = shared;
    this.watcher = new Watcher(shared, selector);
    this.thread = new Thread(null, watcher, "plimsoll", STACK, false);
    thread.setDaemon(true);
    // The loader of the thread that happens to be first would never be unloaded.
    thread.setContextClassLoader(null);
  }

  /**
   * Begins a registration.
   *
   * @param name 1 to 64 bytes of printable text
   * @return a builder
   */
  public static PrincipalBuilder builder(String name) {
    return new PrincipalBuilder(name, null);
  }

  Principal begin() throws PlimsollException {
    try {
      thread.start();
    } catch (OutOfMemoryError none) {
      // It closes the selector.
      shared.close();
      watcher.run();
      String message = "cannot start a thread: " + none.getMessage();
      throw new PlimsollException(PlimsollException.Kind.RESOURCE, message, none);
    }
    long deadline = System.nanoTime() + shared.wish().timeout.toNanos() * STEPS;
    boolean wasInterrupted = false;
    try {
      while (true) {
        try {
          watcher.begun().get(deadline - System.nanoTime(), TimeUnit.NANOSECONDS);
          return this;
        } catch (InterruptedException early) {
          wasInterrupted = true;
        } catch (TimeoutException late) {
          // A broker that answers slowly. Until it has, the numbers are local.
          return this;
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

  /**
   * Reads the present numbers. Takes a few loads, no lock, no system call; never fails and never
   * blocks. Memory that {@link #released} told of counts as given back at once; until the broker
   * has seen that, reading takes a lock.
   *
   * @return the numbers, all of one moment
   */
  public Numbers read() {
    return shared.read();
  }

  /**
   * Reads the memory that may be used now, by two loads. Otherwise as {@link #read}.
   *
   * @return bytes
   */
  public long limit() {
    return shared.limit();
  }

  /**
   * Waits for the next event. A principal has one stream of events; if several threads wait, each
   * event goes to one of them.
   *
   * @param timeout the longest wait
   * @return the event; {@link Event.Kind#TIMEOUT} when nothing happened in that time, and at once
   *     when the principal is closed
   * @throws InterruptedException when the thread was interrupted
   */
  public Event await(Duration timeout) throws InterruptedException {
    return shared.await(timeout);
  }

  /**
   * Makes one {@link #await} return {@link Event.Kind#TIMEOUT}: one that is waiting now in another
   * thread, else the next one.
   */
  public void interrupt() {
    shared.interrupt();
  }

  /**
   * Reports what is known about the program. Does not wait: the report is sent by another thread,
   * and again after a rejoin.
   *
   * @param report the facts that are known or have changed
   */
  public void report(Report report) {
    shared.report(report.copy());
  }

  /**
   * Reports that the program has given memory back. Does not wait. Call it after the memory was
   * freed, with the amount that really was: from then on it is not owed any more. If the broker
   * finds the memory still in use, it is owed again.
   *
   * @param bytes bytes, 0 or more
   */
  public void released(long bytes) {
    shared.released(Checks.bytes(bytes));
  }

  /**
   * Assigns the process. While no broker runs this is kept for the join, as all settings.
   *
   * @param pid its number in the broker's pid namespace
   * @throws PlimsollException the broker's refusal
   */
  public void attach(long pid) throws PlimsollException {
    Checks.pid(pid);
    shared.change(() -> shared.wish().pid = pid, id -> Calls.attach(id, pid));
  }

  /**
   * Changes the weight.
   *
   * @param weight 1 to 10000
   * @throws PlimsollException the broker's refusal
   */
  public void setWeight(int weight) throws PlimsollException {
    Checks.weight(weight);
    shared.change(() -> shared.wish().weight = weight, set("weight", weight));
  }

  /**
   * Changes the priority.
   *
   * @param priority -100 to 100
   * @throws PlimsollException the broker's refusal
   */
  public void setPriority(int priority) throws PlimsollException {
    Checks.priority(priority);
    shared.change(() -> shared.wish().priority = priority, set("priority", priority));
  }

  /**
   * Changes the maximum.
   *
   * @param bytes bytes, 1 MiB at least; 0 for no bound
   * @throws PlimsollException the broker's refusal
   */
  public void setMax(long bytes) throws PlimsollException {
    Checks.max(bytes);
    shared.change(() -> shared.wish().max = bytes, set("max", bytes));
  }

  /**
   * Changes the weight of the principal's own memory, against its children's.
   *
   * @param weight 1 to 10000
   * @throws PlimsollException the broker's refusal
   */
  public void setOwnWeight(int weight) throws PlimsollException {
    Checks.weight(weight);
    shared.change(() -> shared.wish().ownWeight = weight, set("own_weight", weight));
  }

  /**
   * Changes the priority of the principal's own memory, against its children's.
   *
   * @param priority -100 to 100
   * @throws PlimsollException the broker's refusal
   */
  public void setOwnPriority(int priority) throws PlimsollException {
    Checks.priority(priority);
    shared.change(() -> shared.wish().ownPriority = priority, set("own_priority", priority));
  }

  private static LongFunction<Call> set(String setting, Object value) {
    return id -> Calls.set(id, setting, value);
  }

  /**
   * Begins the registration of a child. It shares what this principal gets, by its weight, and
   * rejoins with it when a broker comes back. Give it a process or make it a group: that of this
   * program belongs to this principal already.
   *
   * @param name 1 to 64 bytes of printable text
   * @return a builder of a principal without a process
   */
  public PrincipalBuilder child(String name) {
    return new PrincipalBuilder(name, shared).withoutProcess();
  }

  /**
   * Returns the principal's number at the broker that it is joined to. Changes at a rejoin.
   *
   * @return the number; empty while there is no broker
   */
  public OptionalLong id() {
    Long id = shared.id();
    return id == null ? OptionalLong.empty() : OptionalLong.of(id);
  }

  /**
   * Returns whether the broker knows this principal by our own registration. Otherwise another
   * process registered it, such as {@code plimsoll run}, or there is no broker.
   *
   * @return whether the principal ends with this object
   */
  public boolean isRegistered() {
    return shared.isRegistered();
  }

  /**
   * Returns the adapter that this program named when it opened the principal.
   *
   * @return the adapter; empty if the program named none
   */
  public Optional<String> adapter() {
    return Optional.ofNullable(shared.adapter());
  }

  /**
   * Returns why the last try to join, report or release failed, or why the page cannot be read.
   *
   * @return a message for people; empty if nothing failed since the last join
   */
  public Optional<String> lastError() {
    return Optional.ofNullable(shared.lastError());
  }

  /**
   * Returns whether the principal is closed, or is just being closed.
   *
   * @return true if it never joins again
   */
  public boolean isClosed() {
    return shared.isClosing();
  }

  /**
   * Ends the registration. Waiting threads return. Takes a few timeouts at most if the broker
   * hangs. The last numbers can still be read.
   */
  @Override
  public void close() {
    shared.close();
    try {
      thread.join(shared.wish().timeout.toMillis() * STEPS);
    } catch (InterruptedException early) {
      // The thread ends by itself.
      Thread.currentThread().interrupt();
    }
  }
}
