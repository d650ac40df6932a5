package io.plimsoll.memory;

import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.file.Files;
import java.nio.file.Path;

/** A real broker that serves one test only. Its path is in the variable PLIMSOLLD. */
public final class RealBroker implements AutoCloseable {
  private final Process process;
  private final Path directory;

  /**
   * Starts it, or skips the test.
   *
   * @param directory for its socket
   * @param budget the memory to share out, as {@code plimsolld --budget} takes it
   * @throws Exception when it does not start
   */
  public RealBroker(Path directory, String budget) throws Exception {
    String program = System.getenv("PLIMSOLLD");
    assumeTrue(program != null, "skipped: the variable PLIMSOLLD does not name a broker");
    this.directory = directory;
    Files.deleteIfExists(socket());
    process =
        new ProcessBuilder(program, "--directory", directory.toString(), "--budget", budget)
            .inheritIO()
            .start();
    try {
      Await.until("the broker listens", () -> Files.exists(socket()) || !process.isAlive());
    } catch (Exception | AssertionError failure) {
      process.destroyForcibly();
      throw failure;
    }
  }

  /**
   * Returns the path of its socket.
   *
   * @return the path
   */
  public Path socket() {
    return directory.resolve("broker.sock");
  }

  /** Kills it. */
  @Override
  public void close() {
    process.destroyForcibly();
    try {
      process.waitFor();
    } catch (InterruptedException ended) {
      Thread.currentThread().interrupt();
    }
  }
}
