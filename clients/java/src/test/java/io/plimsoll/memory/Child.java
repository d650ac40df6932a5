package io.plimsoll.memory;

import java.io.BufferedReader;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;

/** A Java program that a test starts, with the classes of this test. Killed when it is closed. */
final class Child implements AutoCloseable {
  final Process process;
  final BufferedReader said;

  /** Starts a shell's command in which {@code "$@"} is the program. */
  Child(String shell, Path socket, Class<?> main, String... arguments) throws IOException {
    List<String> command = new ArrayList<>(List.of("sh", "-c", shell, "sh"));
    command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
    command.addAll(List.of("-Xmx64m", "-XX:MaxDirectMemorySize=1g"));
    command.addAll(List.of("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"));
    command.addAll(List.of("-cp", System.getProperty("java.class.path"), main.getName()));
    command.addAll(List.of(arguments));
    ProcessBuilder builder = new ProcessBuilder(command);
    builder.environment().put("PLIMSOLL_SOCKET", socket.toString());
    process = builder.redirectError(ProcessBuilder.Redirect.INHERIT).start();
    said = process.inputReader(StandardCharsets.UTF_8);
  }

  /** Waits until the program says this. */
  void says(String line) throws IOException {
    for (String next = said.readLine(); !line.equals(next); next = said.readLine()) {
      if (next == null) {
        throw new AssertionError("it ended and did not say " + line);
      }
    }
  }

  void tell(String line) throws IOException {
    process.getOutputStream().write((line + "\n").getBytes(StandardCharsets.UTF_8));
    process.getOutputStream().flush();
  }

  /** Sends it a signal. */
  void signal(String name) throws IOException {
    Await.run("kill", "-s", name, Long.toString(process.pid()));
  }

  int ended() throws InterruptedException {
    return process.waitFor(60, TimeUnit.SECONDS) ? process.exitValue() : -1;
  }

  @Override
  public void close() {
    process.destroyForcibly();
  }
}
