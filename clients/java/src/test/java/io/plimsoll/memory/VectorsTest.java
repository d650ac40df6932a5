package io.plimsoll.memory;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import io.plimsoll.memory.govern.Govern;
import io.plimsoll.memory.govern.Governor;
import io.plimsoll.memory.govern.Granted;
import io.plimsoll.memory.govern.Own;
import io.plimsoll.memory.internal.page.Page;
import io.plimsoll.memory.internal.wire.Call;
import io.plimsoll.memory.internal.wire.Json;
import io.plimsoll.memory.internal.wire.Message;
import io.plimsoll.memory.internal.wire.Reply;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.OptionalLong;
import java.util.TreeMap;
import org.junit.jupiter.api.Test;

/** The vectors of {@code clients/vectors}, which clients in every language run. */
class VectorsTest {
  /** Beside the folder of this project, or as the property says. */
  private static final Path FOLDER = Path.of(System.getProperty("plimsoll.vectors", "../vectors"));

  private static List<Message> cases(String name) throws Exception {
    String text = Files.readString(FOLDER.resolve(name + ".json"));
    Map<?, ?> all = (Map<?, ?>) Json.parse(text, field -> true);
    List<Message> cases = new Message(all).objects("cases");
    assertFalse(cases.isEmpty());
    return cases;
  }

  private static Object orNull(OptionalLong number) {
    return number.isPresent() ? number.getAsLong() : null;
  }

  private static Map<String, Object> shown(long rate, Govern govern) {
    Map<String, Object> shown = new HashMap<>();
    shown.put("rate", rate);
    shown.put("family", govern.family());
    shown.put("process_limit", govern.processLimit());
    shown.put("heap_limit", govern.heapLimit());
    shown.put("release_to", orNull(govern.releaseTo()));
    shown.put("may_release", govern.mayRelease());
    shown.put("report", null);
    if (govern.due() != null) {
      Map<String, Object> report = new HashMap<>();
      report.put("allocation_rate", orNull(govern.due().allocationRate()));
      report.put("floor", govern.due().floor());
      report.put("reaction_ms", govern.due().reactionMs());
      shown.put("report", report);
    }
    return shown;
  }

  @Test
  void theGovernorStepsAsTheVectorsSay() throws Exception {
    for (Message each : cases("governor")) {
      Governor governor = new Governor(each.number("started"), each.number("allocated"));
      for (Message step : each.objects("steps")) {
        long now = step.number("now");
        Message granted = step.object("granted");
        Message own = step.object("own");
        long rate = governor.measure(now, step.number("allocated"));
        Govern govern =
            governor.step(
                now,
                new Granted(
                    granted.number("limit"), granted.number("owed"), granted.number("uses")),
                new Own(
                    own.number("resident"),
                    own.number("beside"),
                    own.number("needs"),
                    own.number("guard")));
        String at = each.text("name") + " at " + now;
        assertEquals(step.object("expect").fields(), shown(rate, govern), at);
        if (step.fields().containsKey("released")) {
          Message told = step.object("released");
          governor.released(told.number("began"), told.number("ended"), told.number("resident"));
        }
      }
    }
  }

  private static long[] numbers(Object list) {
    return ((List<?>) list).stream().mapToLong(each -> each == null ? -1 : (Long) each).toArray();
  }

  @Test
  void theGhostListStepsAsTheVectorsSay() throws Exception {
    for (Message each : cases("ghost")) {
      Ghost ghost = new Ghost(each.number("begun"));
      for (Message step : each.objects("steps")) {
        Map.Entry<?, ?> only = step.fields().entrySet().iterator().next();
        long[] given = numbers(only.getValue());
        if (only.getKey().equals("evicted")) {
          ghost.evicted(given[0], given[1], given[2]);
        } else if (only.getKey().equals("missed")) {
          ghost.missed(given[0], given[1]);
          assertFalse(ghost.has(given[0]), "a miss counts once");
        } else {
          assertEquals(given[1], ghost.worth(given[0]).orElse(-1), each.text("name"));
        }
      }
    }
  }

  @Test
  void pagesReadAsTheVectorsSay() throws Exception {
    for (Message each : cases("pages")) {
      ByteBuffer bytes = ByteBuffer.allocateDirect(Page.SIZE);
      bytes.put(HexFormat.of().parseHex(each.text("bytes")));
      Page page = new Page(bytes);
      Object found = "no numbers";
      Numbers numbers = page.read(Source.BROKER);
      if (page.fault() != null) {
        found = "not a page";
      } else if (numbers != null) {
        Map<String, Object> shown = new TreeMap<>();
        shown.put("id", page.id());
        shown.put("numbers", shown(numbers));
        shown.put("heartbeat", numbers.heartbeat());
        shown.put("generation", numbers.generation());
        shown.put("stale", page.isStale(each.number("now")));
        found = shown;
      }
      assertEquals(each.fields().get("expect"), found, each.text("name"));
    }
  }

  private static Map<String, Object> shown(Numbers numbers) {
    Map<String, Object> shown = new TreeMap<>();
    shown.put("limit", numbers.limit());
    shown.put("available", numbers.available());
    shown.put("owed", numbers.owed());
    shown.put("deadline", numbers.deadline());
    shown.put("uses", numbers.uses());
    shown.put("share", numbers.share());
    shown.put("level", numbers.level().name().toLowerCase(Locale.ROOT));
    shown.put("sensed", numbers.sensed());
    return shown;
  }

  @Test
  void callsAreWrittenAsTheVectorsSay() throws Exception {
    for (Message each : cases("calls")) {
      Object given = Json.parse(each.text("message"), name -> true);
      Message message = new Message((Map<?, ?>) given);
      Call call = again(message.text("method"), message.object("parameters"));
      if (message.flag("oneway")) {
        call = call.wanting(Call.Mode.ONEWAY);
      }
      String written = new String(call.encoded(), StandardCharsets.UTF_8);
      assertEquals(written.length() - 1, written.indexOf('\0'), "a message ends with a NUL byte");
      Object found = Json.parse(written.substring(0, written.length() - 1), name -> true);
      assertEquals(given, found, each.text("name"));
    }
  }

  /** The call of the client that has these parameters. */
  private static Call again(String method, Message given) throws PlimsollException {
    Long id = given.optionalNumber("id");
    return switch (method) {
      case "io.plimsoll.Register" -> Calls.register(wish(given), given.optionalNumber("parent"));
      case "io.plimsoll.Attach" -> Calls.attach(id, given.number("pid"));
      case "io.plimsoll.Report" -> Calls.report(id, report(given));
      case "io.plimsoll.Subscribe" -> Calls.subscribe(id);
      case "io.plimsoll.Released" -> Calls.released(id, given.number("bytes"));
      case "io.plimsoll.Set" -> Calls.set(id, "weight", given.number("weight"));
      default -> throw new AssertionError(method + " is not a call of a client");
    };
  }

  private static Wish wish(Message given) throws PlimsollException {
    Wish wish = new Wish();
    wish.name = given.text("name");
    wish.isGroup = given.text("kind").equals("group");
    wish.pid = given.optionalNumber("pid");
    wish.max = given.optionalNumber("max");
    wish.adapter = given.optionalText("adapter");
    wish.weight = given.fields().get("weight") instanceof Long weight ? weight.intValue() : null;
    boolean hasPriority = given.fields().get("priority") instanceof Long;
    wish.priority = hasPriority ? ((Long) given.fields().get("priority")).intValue() : null;
    return wish;
  }

  private static Report report(Message given) {
    Map<String, java.util.function.BiConsumer<Report, Long>> setters =
        Map.of(
            "live", Report::live,
            "allocation_rate", Report::allocationRate,
            "collection_speed", Report::collectionSpeed,
            "demand", Report::demand,
            "floor", Report::floor,
            "reaction_ms", Report::reactionMs,
            "collections", Report::collections,
            "collection_ms", Report::collectionMs,
            "worth", Report::worth);
    Report report = new Report();
    setters.forEach(
        (name, setter) -> {
          if (given.fields().get(name) instanceof Long value) {
            setter.accept(report, value);
          }
        });
    return report;
  }

  @Test
  void repliesAreReadAsTheVectorsSay() throws Exception {
    for (Message each : cases("replies")) {
      byte[] message = each.text("message").getBytes(StandardCharsets.UTF_8);
      Reply reply = Reply.parse(message, name -> true);
      Map<String, Object> found = new TreeMap<>();
      try {
        found.put("parameters", shown(each.text("to"), reply.result()));
        found.put("continues", reply.continues());
      } catch (PlimsollException refused) {
        found.put("error", refused.error());
        found.put("message", refused.getMessage());
      }
      assertEquals(each.object("expect").fields(), found, each.text("name"));
    }
  }

  /** The parts of an answer that the client uses. */
  private static Map<String, Object> shown(String to, Message parameters) throws Exception {
    Map<String, Object> shown = new TreeMap<>();
    if (to.equals("Register")) {
      shown.put("id", parameters.number("id"));
      shown.put("page", parameters.text("page"));
      shown.put("pressure", parameters.text("pressure"));
      shown.put("weight", parameters.number("weight"));
      shown.put("priority", parameters.number("priority"));
    } else if (to.equals("Subscribe")) {
      Numbers numbers = Changed.of(parameters, 5).numbers();
      shown.put("id", parameters.number("id"));
      shown.put("generation", numbers.generation());
      shown.put("numbers", shown(numbers));
    }
    return shown;
  }
}
