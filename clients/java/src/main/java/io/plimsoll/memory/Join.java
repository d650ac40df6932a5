package io.plimsoll.memory;

import io.plimsoll.memory.internal.wire.Connection;
import io.plimsoll.memory.internal.wire.Message;
import io.plimsoll.memory.internal.wire.Reply;
import java.nio.channels.Selector;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.util.List;
import java.util.function.Predicate;

/** Joins a broker: registers, or finds the principal again, and subscribes. */
final class Join {
  /** How many processes, from ours upwards, are checked for being a principal's. */
  private static final int ANCESTORS = 64;

  /** How long, and with which pause, to check whether a principal has its process. */
  private static final long AWAIT_PROCESS = 1_000_000_000L;

  private static final long LOOK_AGAIN_MS = 10;

  private final Wish wish;
  private final Selector selector;
  private Connection control;

  private Join(Wish wish, Selector selector) {
    this.wish = wish;
    this.selector = selector;
  }

  /**
   * The history before a join.
   *
   * @param joined the principal was joined to a broker before
   * @param found another process had registered it, and is expected to do so again
   */
  record Before(boolean joined, boolean found) {}

  /**
   * A principal at a broker.
   *
   * @param id its number
   * @param page its page
   * @param registered whether we registered it
   */
  record Found(long id, Path page, boolean registered) {}

  /**
   * The result of a join.
   *
   * @param found the principal
   * @param control the connection for calls, whose end ends a principal that we registered
   * @param stream the connection on which changes are told
   * @param first the first of these changes
   */
  record Joined(Found found, Connection control, Connection stream, Changed first) {}

  /** Joins the first broker that answers. */
  static Joined join(Wish wish, Before before, Selector selector) throws PlimsollException {
    Join join = new Join(wish, selector);
    join.control = Connection.first(wish.candidates, wish.timeout, selector);
    Connection stream = null;
    try {
      Found found = join.find(before);
      if (!found.registered()) {
        join.steer(found.id());
      }
      stream = Connection.open(join.control.socket(), wish.timeout, selector);
      stream.send(Calls.subscribe(found.id()));
      return new Joined(found, join.control, stream, join.first(stream, found));
    } catch (PlimsollException | RuntimeException failure) {
      join.control.close();
      if (stream != null) {
        stream.close();
      }
      throw failure;
    }
  }

  private Changed first(Connection stream, Found found) throws PlimsollException {
    Reply first = stream.next(wish.timeout);
    if (first == null) {
      throw absent("the broker does not tell the numbers of principal " + found.id());
    }
    try {
      return Changed.of(first.result(), System.nanoTime());
    } catch (PlimsollException refused) {
      if (found.registered() && refused.isRefusal("NoSuchPrincipal")) {
        // It was registered a moment ago and is gone: the broker has ended the connection.
        throw absent("the broker closed the connection");
      }
      throw refused;
    }
  }

  private Found find(Before before) throws PlimsollException {
    if (wish.isAnothers()) {
      return before.joined() ? find(ANCESTORS) : new Found(wish.named, wish.existingPage, false);
    }
    if (before.found()) {
      return find(1);
    }
    if (wish.named != null && wish.isOwn()) {
      awaitProcess();
    }
    try {
      return register();
    } catch (PlimsollException refused) {
      // By `plimsoll run`, `plimsoll adopt` or another part of the program.
      if (wish.isOwn() && refused.isRefusal("AlreadyRegistered")) {
        return find(1);
      }
      throw refused;
    }
  }

  /**
   * Waits until the principal that the environment names has its process. {@code plimsoll run}
   * tells the broker the process only after the start, and a program that registered before that
   * would become a second principal.
   */
  private void awaitProcess() throws PlimsollException {
    long end = System.nanoTime() + AWAIT_PROCESS;
    while (System.nanoTime() - end < 0) {
      Message named = search(principals(), each -> wish.named.equals(each.fields().get("id")));
      boolean isComplete =
          named == null
              || "group".equals(named.optionalText("kind"))
              || named.optionalNumber("pid") != null;
      if (isComplete) {
        return;
      }
      try {
        Thread.sleep(LOOK_AGAIN_MS);
      } catch (InterruptedException early) {
        return;
      }
    }
  }

  private Found register() throws PlimsollException {
    Long parent = wish.parent == null ? null : wish.parent.id();
    if (wish.parent != null && parent == null) {
      throw absent("a child of a principal needs a broker, and none is there just now");
    }
    Message registered = control.call(Calls.register(wish, parent));
    long id = registered.number("id");
    Found found = new Found(id, path(registered.text("page")), true);
    if (wish.ownWeight != null) {
      control.call(Calls.set(id, "own_weight", wish.ownWeight));
    }
    if (wish.ownPriority != null) {
      control.call(Calls.set(id, "own_priority", wish.ownPriority));
    }
    return found;
  }

  /**
   * Finds the principal of our process or of an ancestor. After a broker's restart its number in
   * the environment is no longer valid.
   */
  private Found find(int generations) throws PlimsollException {
    List<Message> principals = principals();
    long pid = wish.pid == null ? Wish.OWN_PID : wish.pid;
    for (int generation = 0; generation < generations; generation++) {
      Message found = withPid(principals, pid);
      if (found != null) {
        long id = found.number("id");
        String page = found.optionalText("page");
        return new Found(id, page == null ? control.socket().pageOf(id) : path(page), false);
      }
      var parent = ProcessHandle.of(pid).flatMap(ProcessHandle::parent);
      if (parent.isEmpty() || parent.get().pid() <= 1) {
        break;
      }
      pid = parent.get().pid();
    }
    throw PlimsollException.refused(
        "io.plimsoll.NoSuchPrincipal",
        "no principal holds this process yet; `plimsoll ps` lists them");
  }

  /**
   * Tells which adapter steers a principal that another process registered, and what it is called
   * if nobody gave it a name, if its process is this one. A child that merely inherited the
   * environment must not do so.
   */
  private void steer(long id) throws PlimsollException {
    boolean callsItself = wish.isUnnamed && !wish.isAnothers();
    if (!wish.isOwn() || wish.adapter == null && !callsItself) {
      return;
    }
    Message own = withPid(principals(), Wish.OWN_PID);
    if (own == null || own.number("id") != id) {
      return;
    }
    String present = own.optionalText("adapter");
    String adapter = wish.adapter == null ? present : wish.adapter;
    if (callsItself && !wish.name.equals(own.optionalText("name"))) {
      try {
        control.call(Calls.adapt(id, adapter, wish.name));
        return;
      } catch (PlimsollException refused) {
        // A broker that is older knows no names here.
        if (refused.kind() != PlimsollException.Kind.REFUSED) {
          throw refused;
        }
      }
    }
    if (wish.adapter != null && !wish.adapter.equals(present)) {
      control.call(Calls.adapt(id, wish.adapter, null));
    }
  }

  private List<Message> principals() throws PlimsollException {
    return control.call(Calls.list()).objects("principals");
  }

  private static Message withPid(List<Message> principals, long pid) throws PlimsollException {
    return search(principals, each -> Long.valueOf(pid).equals(each.fields().get("pid")));
  }

  /** The parser bounds the depth of the tree. */
  private static Message search(List<Message> principals, Predicate<Message> isIt)
      throws PlimsollException {
    for (Message principal : principals) {
      if (isIt.test(principal)) {
        return principal;
      }
      Message below = search(principal.objects("children"), isIt);
      if (below != null) {
        return below;
      }
    }
    return null;
  }

  private static Path path(String text) throws PlimsollException {
    try {
      return Path.of(text);
    } catch (InvalidPathException unusable) {
      throw Message.against("its page has an unusable path");
    }
  }

  private static PlimsollException absent(String message) {
    return new PlimsollException(PlimsollException.Kind.ABSENT, message, null);
  }
}
