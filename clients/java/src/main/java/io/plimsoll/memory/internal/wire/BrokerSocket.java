package io.plimsoll.memory.internal.wire;

import io.plimsoll.memory.PlimsollException;
import io.plimsoll.memory.PlimsollException.Kind;
import java.io.IOException;
import java.nio.channels.SocketChannel;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.attribute.UserPrincipal;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import jdk.net.ExtendedSocketOptions;

/**
 * A place where a broker may listen, and whether to trust it.
 *
 * @param path the path of the socket
 * @param owner the user who has to own the directory and run the broker. Null means any user: the
 *     protection of the directory is enough
 */
public record BrokerSocket(Path path, Long owner) {
  /** The system broker's socket. */
  public static final Path SYSTEM = Path.of("/run/plimsoll/broker.sock");

  private static final String NAME = "broker.sock";

  /** Bits of a mode (inode(7)). */
  private static final int TYPE = 0170000;

  private static final int DIRECTORY = 0040000;
  private static final int OTHERS_MAY_SEARCH = 0001;
  private static final int OTHERS = 0077;
  private static final int OTHERS_MAY_WRITE = 0022;

  /**
   * This socket and no other. Trusted because the caller names it.
   *
   * @param path its path
   * @return the place
   */
  public static BrokerSocket at(Path path) {
    return new BrokerSocket(path, null);
  }

  /**
   * The places, in the order to try them. Only {@code PLIMSOLL_SOCKET} if it is set; else the
   * user's broker, then the system's.
   *
   * @param around the environment
   * @return the places
   */
  public static List<BrokerSocket> candidates(Surroundings around) {
    if (around.socket() != null) {
      return List.of(at(around.socket()));
    }
    List<Path> places = new ArrayList<>();
    if (around.runtimeDirectory() != null) {
      places.add(around.runtimeDirectory().resolve("plimsoll"));
    }
    places.add(Path.of("/run/user/" + around.user() + "/plimsoll"));
    places.add(Path.of("/tmp/plimsoll-" + around.user()));
    if (around.home() != null) {
      // A broker is there if another user took the place before.
      places.add(around.home().resolve(".cache/plimsoll"));
    }
    List<BrokerSocket> found = new ArrayList<>();
    places.stream()
        .distinct()
        .forEach(place -> found.add(new BrokerSocket(place.resolve(NAME), around.user())));
    found.add(at(SYSTEM));
    return found;
  }

  /**
   * Returns the path of a principal's page, for a broker that does not tell it.
   *
   * @param id the number of the principal
   * @return the path
   */
  public Path pageOf(long id) {
    return path.resolveSibling("pages").resolve(Long.toString(id));
  }

  /**
   * Checks the socket's directory. Where everybody may write, anybody could create it first. So it
   * has to be the owner's, no link, and closed to others (unless others cannot reach it).
   *
   * @throws PlimsollException when it is not
   */
  public void checkDirectory() throws PlimsollException {
    Path directory = path.getParent();
    if (owner == null || directory == null) {
      return;
    }
    int mode;
    long user;
    try {
      Map<String, Object> status =
          Files.readAttributes(directory, "unix:mode,uid", LinkOption.NOFOLLOW_LINKS);
      mode = (int) status.get("mode");
      user = Integer.toUnsignedLong((int) status.get("uid"));
    } catch (NoSuchFileException absent) {
      throw new PlimsollException(Kind.ABSENT, "there is no " + directory, absent);
    } catch (IOException fault) {
      throw new PlimsollException(
          Kind.ABSENT, "cannot look at " + directory + ": " + fault.getMessage(), fault);
    }
    if ((mode & TYPE) != DIRECTORY) {
      throw untrusted(directory, "it is not a directory");
    }
    if (user != owner) {
      throw untrusted(directory, "it belongs to user " + user);
    }
    if ((mode & (isReachable(directory) ? OTHERS : OTHERS_MAY_WRITE)) != 0) {
      throw untrusted(directory, "others than its owner may use it");
    }
  }

  private static boolean isReachable(Path directory) {
    try {
      int above = (int) Files.getAttribute(directory.resolve(".."), "unix:mode");
      return (above & OTHERS_MAY_SEARCH) != 0;
    } catch (IOException unknown) {
      return true;
    }
  }

  /**
   * Checks that the process that answers belongs to the owner or root.
   *
   * @param channel the connected socket
   * @throws PlimsollException when another user listens there
   * @throws IOException when the kernel does not tell
   */
  public void checkPeer(SocketChannel channel) throws IOException {
    if (owner == null) {
      return;
    }
    UserPrincipal peer = channel.getOption(ExtendedSocketOptions.SO_PEERCRED).user();
    // The directory's owner was checked by number. Names of users need not be known here.
    boolean isOwner = peer.equals(Files.getOwner(path.getParent(), LinkOption.NOFOLLOW_LINKS));
    if (!isOwner && !isRoot(peer)) {
      throw untrusted(path, "user " + peer.getName() + " listens there");
    }
  }

  private boolean isRoot(UserPrincipal peer) throws IOException {
    var users = path.getFileSystem().getUserPrincipalLookupService();
    return peer.equals(users.lookupPrincipalByName("root"));
  }

  private static PlimsollException untrusted(Path place, String why) {
    String advice = "remove it or set PLIMSOLL_SOCKET";
    String message = place + " is not to be trusted: " + why + "; " + advice;
    return new PlimsollException(Kind.UNTRUSTED, message, null);
  }
}
