package io.plimsoll.memory;

import io.plimsoll.memory.internal.wire.BrokerSocket;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;

/**
 * The settings of a principal by its program, sent to every new broker. The builder fills them in;
 * after that they belong to the lock of the principal, and the watcher works on copies.
 */
final class Wish implements Cloneable {
  static final long OWN_PID = ProcessHandle.current().pid();

  String name;
  boolean isGroup;

  /** The process; null if there is none yet. */
  Long pid = OWN_PID;

  Integer weight;
  Integer priority;

  /** Bytes; null or 0 for no bound. */
  Long max;

  Integer ownWeight;
  Integer ownPriority;
  String adapter;

  /** A parent that lives in this process. Its number changes at a rejoin. */
  Shared parent;

  /** The principal that the environment names, and its page if the program asked to use it. */
  Long named;

  Path existingPage;

  /** Nobody gave that principal a name, so that what the program calls itself prevails. */
  boolean isUnnamed;

  /** The sockets to try, in order. */
  List<BrokerSocket> candidates;

  /** The longest wait for an answer. */
  Duration timeout = Duration.ofSeconds(1);

  /** Whether another process registered the principal. */
  boolean isAnothers() {
    return existingPage != null;
  }

  /** Whether it is for this process and not a child of another principal. */
  boolean isOwn() {
    return pid != null && pid == OWN_PID && parent == null;
  }

  Wish copy() {
    try {
      return (Wish) clone();
    } catch (CloneNotSupportedException impossible) {
      throw new AssertionError(impossible);
    }
  }
}
