package io.plimsoll.memory.internal.wire;

import io.plimsoll.memory.PlimsollException;
import io.plimsoll.memory.PlimsollException.Kind;
import java.io.IOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.SocketChannel;
import java.time.Duration;
import java.util.List;
import java.util.function.Predicate;
import java.util.stream.Collectors;

/**
 * One connection to a broker. Every wait has a deadline, whatever the other side does. After a late
 * answer, or one that breaks the protocol, it is closed for good, because the next answer could
 * belong to another call. Used by one thread, to which the selector belongs.
 */
public final class Connection implements AutoCloseable {
  /** The longest answer, bytes, and the longest one that lists all principals. */
  private static final int MAX_REPLY = 64 << 10;

  private static final int MAX_LISTING = 16 << 20;

  /** The fields of a listing that are used. */
  private static final Predicate<String> LISTED =
      List.of(
              "parameters",
              "continues",
              "error",
              "message",
              "principals",
              "children",
              "id",
              "name",
              "pid",
              "kind",
              "adapter",
              "page")
          ::contains;

  /** The pause between two tries to connect while the broker's queue of connections is full. */
  private static final Duration QUEUE_FULL = Duration.ofMillis(10);

  private final BrokerSocket socket;
  private final Duration timeout;
  private final Selector selector;
  private final SocketChannel channel;
  private final SelectionKey key;
  private final Framing framing = new Framing();
  private final ByteBuffer chunk = ByteBuffer.allocate(8192);
  private boolean isBroken;

  private Connection(
      BrokerSocket socket, Duration timeout, Selector selector, SocketChannel channel)
      throws IOException {
    this.socket = socket;
    this.timeout = timeout;
    this.selector = selector;
    this.channel = channel;
    this.key = channel.register(selector, 0);
  }

  /**
   * Connects to the first of these sockets that answers and can be trusted. An untrusted listener
   * at one place does not keep us from the next.
   *
   * @param candidates the sockets, in the order to try them
   * @param timeout bounds this and every later call
   * @param selector the caller's
   * @return the connection
   * @throws PlimsollException when none answers, or only untrusted processes listen
   */
  public static Connection first(List<BrokerSocket> candidates, Duration timeout, Selector selector)
      throws PlimsollException {
    PlimsollException untrusted = null;
    for (BrokerSocket candidate : candidates) {
      try {
        return open(candidate, timeout, selector);
      } catch (PlimsollException failure) {
        boolean isFirst = untrusted == null && failure.kind() == Kind.UNTRUSTED;
        untrusted = isFirst ? failure : untrusted;
      }
    }
    if (untrusted != null) {
      throw untrusted;
    }
    String tried =
        candidates.stream().map(each -> each.path().toString()).collect(Collectors.joining(", "));
    String advice = "start one with `plimsolld` or use `plimsoll run`";
    throw absent("no broker runs (looked at " + tried + "); " + advice, null);
  }

  /**
   * Connects.
   *
   * @param socket the broker's socket
   * @param timeout bounds this and every later call
   * @param selector the caller's
   * @return the connection
   * @throws PlimsollException when nobody answers there, or another user might
   */
  public static Connection open(BrokerSocket socket, Duration timeout, Selector selector)
      throws PlimsollException {
    socket.checkDirectory();
    long deadline = after(timeout);
    SocketChannel channel = null;
    try {
      do {
        if (channel != null) {
          channel.close();
          Thread.sleep(QUEUE_FULL.toMillis());
        }
        channel = SocketChannel.open(StandardProtocolFamily.UNIX);
        channel.configureBlocking(false);
        // A UNIX socket connects at once or not at all: false means that the queue is full.
      } while (!channel.connect(UnixDomainSocketAddress.of(socket.path())) && left(deadline) > 0);
      if (!channel.isConnected()) {
        throw new IOException("its queue of connections is full");
      }
      socket.checkPeer(channel);
      return new Connection(socket, timeout, selector, channel);
    } catch (PlimsollException refused) {
      closeQuietly(channel);
      throw refused;
    } catch (IOException | RuntimeException fault) {
      closeQuietly(channel);
      throw absent("cannot connect to " + socket.path() + ": " + fault.getMessage(), fault);
    } catch (InterruptedException ended) {
      closeQuietly(channel);
      throw absent("cannot connect to " + socket.path() + ": the wait was interrupted", ended);
    }
  }

  /**
   * Returns the socket that it is connected to.
   *
   * @return the socket
   */
  public BrokerSocket socket() {
    return socket;
  }

  /**
   * Returns whether it is closed for good.
   *
   * @return true if no further call can succeed
   */
  public boolean isBroken() {
    return isBroken;
  }

  /**
   * Makes a call with one answer.
   *
   * @param call the call
   * @return the parameters of the answer
   * @throws PlimsollException the broker's refusal, or a failure that ends the connection
   */
  public Message call(Call call) throws PlimsollException {
    send(call);
    boolean isListing = call.method().endsWith(".List");
    Predicate<String> keep = isListing ? LISTED : name -> true;
    Reply reply = receive(after(timeout), isListing ? MAX_LISTING : MAX_REPLY, keep);
    if (reply == null) {
      throw broken(late());
    }
    if (reply.continues()) {
      throw broken(Message.against("more than one answer to a call that wants one"));
    }
    return reply.result();
  }

  /**
   * Sends a call.
   *
   * @param call the call
   * @throws PlimsollException when the broker does not take it in time
   */
  public void send(Call call) throws PlimsollException {
    checkUsable();
    long deadline = after(timeout);
    ByteBuffer out = ByteBuffer.wrap(call.encoded());
    try {
      while (out.hasRemaining()) {
        if (channel.write(out) == 0 && !isReady(SelectionKey.OP_WRITE, deadline)) {
          throw broken(late());
        }
      }
    } catch (PlimsollException late) {
      throw late;
    } catch (IOException closed) {
      throw broken(closed(closed));
    }
  }

  /**
   * Takes the next answer.
   *
   * @param wait how long to wait for it
   * @return the answer; null if none came in time
   * @throws PlimsollException when the connection has ended
   */
  public Reply next(Duration wait) throws PlimsollException {
    return receive(after(wait), MAX_REPLY, name -> true);
  }

  private Reply receive(long deadline, int max, Predicate<String> keep) throws PlimsollException {
    checkUsable();
    try {
      while (true) {
        byte[] message = framing.next(max);
        if (message != null) {
          return Reply.parse(message, keep);
        }
        int count = channel.read(chunk.clear());
        if (count < 0) {
          throw closed(null);
        }
        framing.push(chunk.array(), count);
        boolean isLate = left(deadline) <= 0 && framing.pending() > 0;
        if (isLate || count == 0 && !isReady(SelectionKey.OP_READ, deadline)) {
          // A message that was completed by the last bytes is not late.
          byte[] last = framing.next(max);
          return last == null ? null : Reply.parse(last, keep);
        }
      }
    } catch (PlimsollException ended) {
      throw broken(ended);
    } catch (IOException closed) {
      throw broken(closed(closed));
    }
  }

  /** Waits until the socket is ready; false if it is not by the deadline. */
  private boolean isReady(int operation, long deadline) throws IOException {
    key.interestOps(operation);
    try {
      do {
        long wait = left(deadline) / 1_000_000;
        int ready = wait > 0 ? selector.select(wait) : selector.selectNow();
        selector.selectedKeys().clear();
        if (ready > 0) {
          return true;
        }
        // The selector wakes early when the program has something for its thread.
        Thread.interrupted();
      } while (left(deadline) > 0);
      return false;
    } finally {
      if (key.isValid()) {
        key.interestOps(0);
      }
    }
  }

  /**
   * Lets the selector wake when something comes, or no longer.
   *
   * @param isWanted whether it should
   */
  public void wakeOnInput(boolean isWanted) {
    if (key.isValid()) {
      key.interestOps(isWanted ? SelectionKey.OP_READ : 0);
    }
  }

  /**
   * Returns whether the broker closed a connection on which no answer is due.
   *
   * @return true if it is of no use any more
   */
  public boolean hasEnded() {
    try {
      return isBroken || channel.read(chunk.clear()) != 0;
    } catch (IOException closed) {
      return true;
    }
  }

  @Override
  public void close() {
    isBroken = true;
    key.cancel();
    closeQuietly(channel);
    try {
      // Only this gives the descriptor back.
      selector.selectNow();
    } catch (IOException | RuntimeException ended) {
      // The selector was closed, and the descriptor with it.
    }
  }

  private void checkUsable() throws PlimsollException {
    if (isBroken) {
      throw closed(null);
    }
  }

  private PlimsollException broken(PlimsollException why) {
    isBroken = true;
    return why;
  }

  private PlimsollException closed(IOException cause) {
    return absent("the broker at " + socket.path() + " closed the connection", cause);
  }

  private PlimsollException late() {
    String message = "the broker at " + socket.path() + " did not answer within ";
    return absent(message + timeout.toMillis() + " ms; look with `plimsoll doctor`", null);
  }

  private static PlimsollException absent(String message, Throwable cause) {
    return new PlimsollException(Kind.ABSENT, message, cause);
  }

  private static long after(Duration wait) {
    return System.nanoTime() + wait.toNanos();
  }

  private static long left(long deadline) {
    return deadline - System.nanoTime();
  }

  private static void closeQuietly(SocketChannel channel) {
    try {
      if (channel != null) {
        channel.close();
      }
    } catch (IOException ignored) {
      // It is of no use in any case.
    }
  }
}
