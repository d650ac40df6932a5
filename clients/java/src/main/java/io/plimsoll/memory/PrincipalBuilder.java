package io.plimsoll.memory;

import io.plimsoll.memory.internal.wire.BrokerSocket;
import io.plimsoll.memory.internal.wire.Surroundings;
import java.io.IOException;
import java.nio.channels.Selector;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;

/**
 * A registration in preparation. The process is the caller's own unless set otherwise. A value that
 * cannot be is refused at once, with an {@link IllegalArgumentException}.
 */
public final class PrincipalBuilder {
  /** {@code plimsoll run} sets these variables for the program that it starts. */
  private static final String ID = "PLIMSOLL_ID";

  private static final String UNNAMED = "PLIMSOLL_UNNAMED";
  private static final String PAGE = "PLIMSOLL_PAGE";

  private final Wish wish = new Wish();

  PrincipalBuilder(String name, Shared parent) {
    wish.name = Checks.name(name);
    wish.parent = parent;
    wish.candidates = parent == null ? null : parent.candidates();
    wish.isUnnamed = Surroundings.variable(UNNAMED) != null;
    String id = Surroundings.variable(ID);
    wish.named = id != null && id.matches("[0-9]{1,18}") ? Long.valueOf(id) : null;
  }

  /**
   * Sets the weight: how much the principal gets beside its siblings. 100 by default.
   *
   * @param weight 1 to 10000
   * @return this builder
   */
  public PrincipalBuilder weight(int weight) {
    wish.weight = Checks.weight(weight);
    return this;
  }

  /**
   * Sets the priority: a higher class is served first. 0 by default.
   *
   * @param priority -100 to 100
   * @return this builder
   */
  public PrincipalBuilder priority(int priority) {
    wish.priority = Checks.priority(priority);
    return this;
  }

  /**
   * Sets the maximum of the principal and its children together.
   *
   * @param bytes bytes, 1 MiB at least; 0 for no bound, which is the default
   * @return this builder
   */
  public PrincipalBuilder max(long bytes) {
    wish.max = Checks.max(bytes);
    return this;
  }

  /**
   * Names the adapter that steers the program. A program that adapts by itself gives {@code
   * "self"}. By default it is passive, and never asked to give memory back; under {@code plimsoll
   * run} the adapter there goes on to steer it.
   *
   * @param adapter 1 to 32 bytes of a to z, 0 to 9 and -
   * @return this builder
   */
  public PrincipalBuilder adapter(String adapter) {
    wish.adapter = Checks.adapter(adapter);
    return this;
  }

  /**
   * Sets a process other than the caller's.
   *
   * @param pid its number in the broker's pid namespace
   * @return this builder
   */
  public PrincipalBuilder pid(long pid) {
    wish.pid = Checks.pid(pid);
    return this;
  }

  /**
   * Leaves the process to {@link Principal#attach}. Until then the broker grants nothing.
   *
   * @return this builder
   */
  public PrincipalBuilder withoutProcess() {
    wish.pid = null;
    return this;
  }

  /**
   * Makes it a group, which has no process and is only a parent of others.
   *
   * @return this builder
   */
  public PrincipalBuilder group() {
    wish.isGroup = true;
    wish.pid = null;
    return this;
  }

  /**
   * Names the only broker to use. By default it is the first that answers at the usual places:
   * {@code PLIMSOLL_SOCKET} if that is set, else the user's broker, else the system's.
   *
   * @param path the path of its socket
   * @return this builder
   */
  public PrincipalBuilder socket(Path path) {
    return candidates(List.of(BrokerSocket.at(path)));
  }

  /**
   * Uses no broker, only local sensing.
   *
   * @return this builder
   */
  public PrincipalBuilder alone() {
    return candidates(List.of());
  }

  /**
   * Sets how long each step of a join or a call may take. A second by default.
   *
   * @param timeout 1 ms at least
   * @return this builder
   */
  public PrincipalBuilder timeout(Duration timeout) {
    if (timeout.compareTo(Duration.ofMillis(1)) < 0) {
      throw new IllegalArgumentException("a timeout is 1 ms at least, not " + timeout);
    }
    Duration day = Duration.ofDays(1);
    wish.timeout = timeout.compareTo(day) < 0 ? timeout : day;
    return this;
  }

  /**
   * Uses the principal that the environment names, even if its process is another. For code that is
   * not the program itself, such as a library in one of its processes. Without such an environment,
   * or in a process with more rights than the user who started it, nothing changes. A program
   * itself does not need this: {@link #open} finds the principal of its process.
   *
   * @return this builder
   */
  public PrincipalBuilder fromEnvironment() {
    String page = Surroundings.variable(PAGE);
    if (wish.named != null && page != null && !page.isEmpty()) {
      wish.existingPage = Path.of(page);
    }
    return this;
  }

  PrincipalBuilder candidates(List<BrokerSocket> candidates) {
    wish.candidates = candidates;
    return this;
  }

  /**
   * Registers. If the process is a principal already, for example because {@code plimsoll run}
   * started it, that principal is used, with its own weight, priority and maximum, and with its own
   * name if a person gave it one. Succeeds without a broker too; the principal is then alone until
   * one runs. Takes a few timeouts at most if a broker hangs.
   *
   * @return the principal, to be closed
   * @throws PlimsollException when the broker refuses or talks nonsense, or the kernel gives no
   *     descriptor
   */
  public Principal open() throws PlimsollException {
    Wish settled = wish.copy();
    if (settled.candidates == null) {
      settled.candidates = BrokerSocket.candidates(Surroundings.ofSelf());
    }
    Selector selector;
    try {
      selector = Selector.open();
    } catch (IOException fault) {
      String message = "cannot make a selector: " + fault.getMessage();
      throw new PlimsollException(PlimsollException.Kind.RESOURCE, message, fault);
    }
    return new Principal(new Shared(settled, selector), selector).begin();
  }
}
