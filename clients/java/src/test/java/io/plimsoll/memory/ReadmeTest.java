package io.plimsoll.memory;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.plimsoll.memory.FakeBroker.Script;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The quick start of README.md runs as it stands. */
class ReadmeTest {
  @TempDir Path folder;

  @Test
  void theQuickStartRuns() throws Exception {
    String readme = Files.readString(Path.of(System.getProperty("plimsoll.readme", "README.md")));
    String fence = "```java\n";
    int begin = readme.indexOf(fence) + fence.length();
    String program = readme.substring(begin, readme.indexOf("```", begin));
    assertTrue(program.lines().count() <= 13, "it is short");
    Path file = Files.writeString(folder.resolve("QuickStart.java"), program);
    try (FakeBroker broker = new FakeBroker(folder, Script.GOOD)) {
      String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
      String classes = System.getProperty("java.class.path");
      ProcessBuilder builder = new ProcessBuilder(java, "-cp", classes, file.toString());
      builder.environment().put("PLIMSOLL_SOCKET", broker.socket().toString());
      Process process = builder.redirectError(ProcessBuilder.Redirect.INHERIT).start();
      byte[] said = process.getInputStream().readAllBytes();
      assertTrue(process.waitFor(60, TimeUnit.SECONDS));
      assertEquals(0, process.exitValue());
      assertEquals(
          "10000 bytes are cached, 104857600 may be used in all\n",
          new String(said, StandardCharsets.UTF_8));
    }
  }
}
