package io.plimsoll.memory.internal.wire;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.plimsoll.memory.PlimsollException;
import io.plimsoll.memory.PlimsollException.Kind;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.Selector;
import java.nio.channels.ServerSocketChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Where a broker is looked for, and which sockets are not trusted. */
class BrokerSocketTest {
  private static final Duration TIMEOUT = Duration.ofSeconds(60);

  @TempDir Path folder;

  private static List<String> paths(Surroundings around) {
    return BrokerSocket.candidates(around).stream().map(each -> each.path().toString()).toList();
  }

  @Test
  void placesAreLookedAtInOrder() {
    String byUser = "/run/user/1234/plimsoll/broker.sock";
    String inTmp = "/tmp/plimsoll-1234/broker.sock";
    String system = "/run/plimsoll/broker.sock";
    assertEquals(List.of(byUser, inTmp, system), paths(new Surroundings(null, null, null, 1234)));
    assertEquals(
        List.of("/x/plimsoll/broker.sock", byUser, inTmp, "/h/.cache/plimsoll/broker.sock", system),
        paths(new Surroundings(null, Path.of("/x"), Path.of("/h"), 1234)));
    assertEquals(
        List.of(byUser, inTmp, system),
        paths(new Surroundings(null, Path.of("/run/user/1234"), null, 1234)),
        "not twice");
    assertEquals(
        List.of("/y.sock"),
        paths(new Surroundings(Path.of("/y.sock"), Path.of("/x"), Path.of("/h"), 1234)),
        "and nothing else");
    assertEquals(Path.of("/a/pages/7"), BrokerSocket.at(Path.of("/a/b.sock")).pageOf(7));
  }

  @Test
  void aDirectoryHasToBeTheUsersOwn() throws Exception {
    Surroundings own = Surroundings.ofSelf();
    Path directory = folder.resolve("plimsoll");
    BrokerSocket socket = new BrokerSocket(directory.resolve("broker.sock"), own.user());
    assertEquals(Kind.ABSENT, failure(socket).kind(), "nothing there is no attack");
    Files.createDirectory(directory);
    Files.setPosixFilePermissions(directory, PosixFilePermissions.fromString("rwx------"));
    socket.checkDirectory();
    assertEquals(Kind.ABSENT, failure(socket).kind(), "trusted, but nobody listens");
    Files.setPosixFilePermissions(directory, PosixFilePermissions.fromString("rwxrwx---"));
    assertTrue(failure(socket).getMessage().contains("others than its owner"));
    Files.setPosixFilePermissions(directory, PosixFilePermissions.fromString("rwxr-xr-x"));
    // Others cannot reach it: the folder of this test is closed.
    socket.checkDirectory();
    Files.setPosixFilePermissions(folder, PosixFilePermissions.fromString("rwxr-xr-x"));
    assertEquals(Kind.UNTRUSTED, failure(socket).kind());
    BrokerSocket others = new BrokerSocket(socket.path(), own.user() + 1);
    assertTrue(failure(others).getMessage().contains("belongs to user"));
    Files.delete(directory);
    Files.createSymbolicLink(directory, Path.of("/tmp"));
    assertTrue(failure(socket).getMessage().contains("not a directory"));
  }

  @Test
  void aListenerOfTheSameUserIsTrusted() throws Exception {
    long user = Surroundings.ofSelf().user();
    Path path = folder.resolve("broker.sock");
    try (ServerSocketChannel server = listen(path);
        Selector selector = Selector.open()) {
      assertTrue(server.isOpen());
      Connection.open(new BrokerSocket(path, user), TIMEOUT, selector).close();
    }
  }

  private static ServerSocketChannel listen(Path path) throws Exception {
    return ServerSocketChannel.open(StandardProtocolFamily.UNIX)
        .bind(UnixDomainSocketAddress.of(path));
  }

  private static PlimsollException failure(BrokerSocket socket) throws Exception {
    try (Selector selector = Selector.open()) {
      return assertThrows(
          PlimsollException.class, () -> Connection.open(socket, TIMEOUT, selector).close());
    }
  }

  @Test
  void aPlaceThatCannotBeConnectedToIsNamed() throws Exception {
    Path path = folder.resolve("s");
    assertTrue(failure(BrokerSocket.at(path)).getMessage().contains(path.toString()));
    Files.writeString(path, "no socket");
    assertEquals(Kind.ABSENT, failure(BrokerSocket.at(path)).kind());
    Path tooLong = Path.of("/tmp/" + "x".repeat(200));
    assertEquals(Kind.ABSENT, failure(BrokerSocket.at(tooLong)).kind());
    var places = List.of(at("/nowhere/a"), at("/nowhere/b"));
    try (Selector selector = Selector.open()) {
      var failure =
          assertThrows(
              PlimsollException.class, () -> Connection.first(places, TIMEOUT, selector).close());
      assertTrue(failure.getMessage().contains("/nowhere/a, /nowhere/b"));
    }
  }

  private static BrokerSocket at(String path) {
    return BrokerSocket.at(Path.of(path));
  }

  @Test
  void aFullQueueIsWaitedForAndNotForEver() throws Exception {
    Path path = folder.resolve("s");
    List<Connection> held = new ArrayList<>();
    try (ServerSocketChannel server = listen(path);
        Selector selector = Selector.open()) {
      assertTrue(server.isOpen());
      PlimsollException full = null;
      for (int tries = 0; full == null && tries < 10_000; tries++) {
        try {
          held.add(Connection.open(BrokerSocket.at(path), Duration.ofMillis(30), selector));
        } catch (PlimsollException refused) {
          full = refused;
        }
      }
      assertTrue(full != null && full.kind() == Kind.ABSENT, "the queue has an end");
      Connection first = held.get(0);
      var late = assertThrows(PlimsollException.class, () -> first.call(Call.info()));
      assertTrue(late.getMessage().contains("did not answer"), late.getMessage());
      var closed = assertThrows(PlimsollException.class, () -> first.call(Call.info()));
      assertTrue(closed.getMessage().contains("closed"), "of no use any more");
      held.forEach(Connection::close);
    }
  }

  @Test
  void aProgramWithMoreRightsTrustsNoVariable() throws Exception {
    assumeTrue(Files.isReadable(Path.of("/proc/self/auxv")), "skipped: no auxiliary vector");
    assertFalse(Surroundings.isSecure(Path.of("/proc/self/auxv")));
    Path secure = folder.resolve("auxv");
    ByteBuffer words = ByteBuffer.allocate(48).order(ByteOrder.nativeOrder());
    words.putLong(3).putLong(4).putLong(23).putLong(1).putLong(0).putLong(0);
    Files.write(secure, words.array());
    assertTrue(Surroundings.isSecure(secure));
    Files.write(secure, new byte[7]);
    assertTrue(Surroundings.isSecure(secure), "it does not say");
    assertTrue(Surroundings.isSecure(folder.resolve("hidden")));
  }
}
