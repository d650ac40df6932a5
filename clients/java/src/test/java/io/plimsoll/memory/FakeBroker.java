package io.plimsoll.memory;

import io.plimsoll.memory.internal.wire.Json;
import java.io.IOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** A scripted broker that behaves well, badly, late, or not at all. It writes real pages. */
final class FakeBroker implements AutoCloseable {
  /** How it misbehaves. */
  enum Script {
    GOOD,
    /** Takes calls and never answers. */
    SILENT,
    /** Answers after {@link #lateMs}. */
    LATE,
    /** Sends half an answer and closes. */
    TRUNCATED,
    /** Sends what is no JSON. */
    GARBAGE,
    /** Sends a message that never ends. */
    ENDLESS,
    /** Sends a byte now and then, and no end. */
    TRICKLES,
    /** Sends many megabytes of well-formed answers. */
    MEGABYTES,
    /** Answers with values of wrong types. */
    LIES,
    /** Refuses to register. */
    REFUSES,
    /** Refuses a process that is a principal already, as brokers do. */
    STRICT,
    /** Keeps its pages elsewhere than beside its socket, and says where. */
    PAGES_ELSEWHERE,
    NO_PAGE,
    SHORT_PAGE,
    WRONG_VERSION,
    WRONG_ID,
    /** The page is a pipe that nobody writes to. */
    PIPE_PAGE,
    DIES_AFTER_REGISTER,
    /** Does not know the field {@code worth} of a report. */
    OLD,
    /** Tells changes as fast as it can. */
    CHATTERS
  }

  static final long MIB = 1 << 20;

  volatile Script script;
  volatile long lateMs;
  volatile boolean isFrozen;
  volatile boolean isDead;
  final Path directory;

  // The fields below belong to the monitor of this object.

  final List<Map<?, ?>> registered = new ArrayList<>();
  final List<Map<?, ?>> reports = new ArrayList<>();
  final List<Map<?, ?>> sets = new ArrayList<>();
  final List<Map<?, ?>> adapted = new ArrayList<>();
  final List<Map<?, ?>> attached = new ArrayList<>();
  final List<Long> gone = new ArrayList<>();
  final TreeMap<Long, Principal> principals = new TreeMap<>();
  Numbers firstNumbers = numbers(100 * MIB);
  long released;
  long nextId;

  private final ServerSocketChannel server;
  private final List<SocketChannel> channels = new ArrayList<>();
  private final List<Thread> threads = new ArrayList<>();

  /** A principal of it. */
  static final class Principal {
    final Map<?, ?> asked;
    final Path path;
    final List<SocketChannel> subscribers = new ArrayList<>();
    PageImage page;
    Numbers last;

    Principal(Map<?, ?> asked, Path path) {
      this.asked = asked;
      this.path = path;
    }
  }

  FakeBroker(Path directory, Script script) throws IOException {
    this(directory, script, 1);
  }

  /** As after a restart: numbers of principals begin at {@code firstId}. */
  FakeBroker(Path directory, Script script, long firstId) throws IOException {
    this.directory = directory;
    this.script = script;
    this.nextId = firstId;
    Files.createDirectories(directory.resolve("pages"));
    Files.createDirectories(directory.resolve("elsewhere"));
    Files.deleteIfExists(socket());
    server = ServerSocketChannel.open(StandardProtocolFamily.UNIX);
    server.bind(UnixDomainSocketAddress.of(socket()));
    start(this::accept);
    start(this::beat);
  }

  static Numbers numbers(long limit) {
    return new Numbers(
        limit, limit * 2, 0, 0, limit / 2, limit, Level.NORMAL, 0, Source.BROKER, 0, 0);
  }

  static Numbers owing(long limit, long owed, long deadline, long sensed) {
    return new Numbers(
        limit,
        limit,
        owed,
        deadline,
        limit + owed,
        limit,
        Level.WARNING,
        sensed,
        Source.BROKER,
        0,
        0);
  }

  Path socket() {
    return directory.resolve("broker.sock");
  }

  Path page(long id) {
    return directory.resolve("pages").resolve(Long.toString(id));
  }

  /** Writes the page and tells the subscribers. */
  synchronized void publish(long id, Numbers numbers) {
    publishSilently(id, numbers);
    Principal principal = principals.get(id);
    String message = FakeReplies.changed(id, principal.last, true);
    principal.subscribers.removeIf(subscriber -> !FakeReplies.send(subscriber, message));
  }

  /** Writes the page and tells nobody. */
  synchronized void publishSilently(long id, Numbers numbers) {
    Principal principal = principals.get(id);
    principal.last = numbers;
    try {
      if (principal.page != null) {
        principal.page.publish(numbers);
      }
    } catch (IOException fault) {
      throw new AssertionError(fault);
    }
  }

  synchronized void truncatePage(long id) throws IOException {
    principals.get(id).page.truncate();
  }

  synchronized long released() {
    return released;
  }

  synchronized int count(List<?> of) {
    return of.size();
  }

  /** Stops heartbeats and answers but keeps connections open, as a stopped process does. */
  void freeze() {
    isFrozen = true;
    script = Script.SILENT;
  }

  private void start(Runnable task) {
    Thread thread = new Thread(task, "fake-broker");
    thread.setDaemon(true);
    synchronized (this) {
      threads.add(thread);
    }
    thread.start();
  }

  private void accept() {
    while (!isDead) {
      try {
        SocketChannel channel = server.accept();
        synchronized (this) {
          channels.add(channel);
        }
        start(() -> serve(channel));
      } catch (IOException closed) {
        return;
      }
    }
  }

  private void beat() {
    while (!isDead) {
      synchronized (this) {
        for (Principal principal : principals.values()) {
          try {
            if (!isFrozen && principal.page != null) {
              principal.page.beat();
            }
          } catch (IOException closed) {
            principal.page = null;
          }
        }
      }
      Await.sleep(50);
    }
  }

  private void serve(SocketChannel channel) {
    FakeConnection connection = new FakeConnection(this, channel);
    try (channel) {
      connection.serve();
    } catch (IOException | Json.Malformed ended) {
      // The client closed it, or sent what it should not: then the test sees no answer.
    } finally {
      synchronized (this) {
        channels.remove(channel);
        if (connection.registered != null) {
          end(connection.registered);
        }
      }
    }
  }

  private void end(long id) {
    gone.add(id);
    Principal principal = principals.remove(id);
    try {
      if (principal != null && principal.page != null) {
        principal.page.close();
      }
    } catch (IOException fault) {
      throw new AssertionError(fault);
    }
  }

  @Override
  public void close() {
    kill();
  }

  /** Dies as by SIGKILL: connections end, files stay. */
  void kill() {
    isDead = true;
    List<Thread> ending;
    try {
      server.close();
      synchronized (this) {
        for (SocketChannel channel : channels) {
          channel.close();
        }
        ending = List.copyOf(threads);
      }
      for (Thread thread : ending) {
        thread.join();
      }
      Files.deleteIfExists(socket());
    } catch (IOException | InterruptedException fault) {
      throw new AssertionError(fault);
    }
  }
}
