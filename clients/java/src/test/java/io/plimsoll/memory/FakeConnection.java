package io.plimsoll.memory;

import io.plimsoll.memory.internal.wire.Framing;
import io.plimsoll.memory.internal.wire.Json;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;

/** One connection of the scripted broker. */
final class FakeConnection {
  /** The principal that lives as long as this connection. */
  Long registered;

  private final FakeBroker broker;
  private final SocketChannel channel;

  FakeConnection(FakeBroker broker, SocketChannel channel) {
    this.broker = broker;
    this.channel = channel;
  }

  void serve() throws IOException, Json.Malformed {
    Framing framing = new Framing();
    ByteBuffer chunk = ByteBuffer.allocate(4096);
    for (int count = 0; count >= 0; count = channel.read(chunk.clear())) {
      framing.push(chunk.array(), count);
      for (byte[] next = framing.next(65536); next != null; next = framing.next(65536)) {
        Object call = Json.parse(new String(next, StandardCharsets.UTF_8), name -> true);
        if (!answer((Map<?, ?>) call)) {
          return;
        }
      }
    }
  }

  /** Answers a call. Returns false if the connection is to be closed. */
  private boolean answer(Map<?, ?> call) throws IOException {
    switch (broker.script) {
      case SILENT:
        return true;
      case LATE:
        Await.sleep(broker.lateMs);
        break;
      case TRUNCATED:
        FakeReplies.send(channel, "{\"parameters\":{\"id\":1,\"pa");
        return false;
      case GARBAGE:
        return FakeReplies.send(channel, new byte[] {(byte) 0xFF, (byte) 0xFE, 'n', 'o', 0});
      case ENDLESS:
        return pour(new byte[1 << 16]);
      case MEGABYTES:
        return pour(FakeReplies.answer(Map.of("more", "x".repeat(60000))).getBytes());
      case TRICKLES:
        while (FakeReplies.send(channel, " ") && broker.script == FakeBroker.Script.TRICKLES) {
          Await.sleep(20);
        }
        return false;
      case LIES:
        return FakeReplies.send(channel, FakeReplies.answer(lies()));
      default:
        break;
    }
    String method = (String) call.get("method");
    Map<?, ?> parameters = (Map<?, ?>) call.get("parameters");
    String reply;
    synchronized (broker) {
      reply = dispatch(method.substring(method.lastIndexOf('.') + 1), parameters);
    }
    boolean isSent = FakeReplies.send(channel, reply);
    boolean dies = broker.script == FakeBroker.Script.DIES_AFTER_REGISTER && registered != null;
    if (broker.script == FakeBroker.Script.CHATTERS && method.endsWith("Subscribe")) {
      chatter((Long) parameters.get("id"));
    }
    return isSent && !dies;
  }

  private static Map<String, Object> lies() {
    return Map.of("id", -3, "page", 7, "principals", List.of(1), "numbers", "none");
  }

  private boolean pour(byte[] bytes) {
    while (FakeReplies.send(channel, bytes) && !broker.isDead) {
      Thread.onSpinWait();
    }
    return false;
  }

  private void chatter(long id) {
    for (long limit = 1; broker.script == FakeBroker.Script.CHATTERS; limit++) {
      Numbers numbers = FakeBroker.numbers(FakeBroker.MIB * (1 + limit % 100));
      if (!FakeReplies.send(channel, FakeReplies.changed(id, numbers, true))) {
        return;
      }
    }
  }

  private String dispatch(String method, Map<?, ?> parameters) throws IOException {
    switch (method) {
      case "Register":
        return register(parameters);
      case "Subscribe":
        FakeBroker.Principal principal = broker.principals.get(parameters.get("id"));
        if (principal == null) {
          return FakeReplies.refusal("NoSuchPrincipal", "no " + parameters.get("id"));
        }
        principal.subscribers.add(channel);
        return FakeReplies.changed((Long) parameters.get("id"), principal.last, true);
      case "List":
        return FakeReplies.answer(Map.of("version", "0.0.0", "principals", listing()));
      case "Report":
        broker.reports.add(parameters);
        if (broker.script == FakeBroker.Script.OLD && parameters.containsKey("worth")) {
          return FakeReplies.unknown("worth");
        }
        break;
      case "Released":
        broker.released += (Long) parameters.get("bytes");
        break;
      case "Set":
        if (broker.script == FakeBroker.Script.REFUSES) {
          return FakeReplies.refusal("NotPermitted", "it is another user's");
        }
        broker.sets.add(parameters);
        break;
      case "Adapt":
        broker.adapted.add(parameters);
        break;
      case "Attach":
        broker.attached.add(parameters);
        break;
      default:
        break;
    }
    return FakeReplies.answer(Map.of());
  }

  private List<Map<String, Object>> listing() {
    List<Map<String, Object>> principals = new ArrayList<>();
    broker.principals.forEach(
        (id, principal) -> {
          Map<String, Object> shown = new HashMap<>();
          shown.put("id", id);
          shown.put("name", principal.asked.get("name"));
          shown.put("pid", principal.asked.get("pid"));
          shown.put("adapter", principal.asked.get("adapter"));
          if (broker.script == FakeBroker.Script.PAGES_ELSEWHERE) {
            shown.put("page", principal.path.toString());
          }
          principals.add(shown);
        });
    // The principals of others come before, and are the parents of ours.
    return List.of(Map.of("id", 900_000, "name", "others", "children", principals));
  }

  private String register(Map<?, ?> asked) throws IOException {
    if (broker.script == FakeBroker.Script.REFUSES) {
      return FakeReplies.refusal("TooMany", "full; raise max_principals");
    }
    boolean isThere =
        broker.principals.values().stream()
            .anyMatch(
                other ->
                    asked.get("pid") != null
                        && Objects.equals(other.asked.get("pid"), asked.get("pid")));
    if (isThere && broker.script == FakeBroker.Script.STRICT) {
      return FakeReplies.refusal("AlreadyRegistered", "it is one");
    }
    long id = broker.nextId++;
    boolean isElsewhere = broker.script == FakeBroker.Script.PAGES_ELSEWHERE;
    Path page = broker.page(id);
    page = isElsewhere ? broker.directory.resolve("elsewhere/" + id) : page;
    FakeBroker.Principal principal = new FakeBroker.Principal(asked, page);
    principal.page = makePage(page, id);
    broker.principals.put(id, principal);
    broker.registered.add(asked);
    registered = id;
    broker.publishSilently(id, broker.firstNumbers);
    Map<String, Object> reply = new HashMap<>();
    reply.put("id", id);
    reply.put("page", page.toString());
    reply.put("pressure", "");
    reply.put("weight", 100);
    reply.put("priority", 0);
    return FakeReplies.answer(reply);
  }

  private PageImage makePage(Path path, long id) throws IOException {
    return switch (broker.script) {
      case NO_PAGE -> null;
      case PIPE_PAGE -> {
        Await.run("mkfifo", path.toString());
        yield null;
      }
      case SHORT_PAGE -> {
        new PageImage(path, id, 1, 100).close();
        yield null;
      }
      case WRONG_VERSION -> new PageImage(path, id, 9, 4096);
      case WRONG_ID -> new PageImage(path, 77, 1, 4096);
      default -> new PageImage(path, id, 1, 4096);
    };
  }
}
