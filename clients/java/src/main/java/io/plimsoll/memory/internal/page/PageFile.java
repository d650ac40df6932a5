package io.plimsoll.memory.internal.page;

import io.plimsoll.memory.PlimsollException;
import io.plimsoll.memory.PlimsollException.Kind;
import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.channels.FileChannel.MapMode;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

/** Opens and maps the file of a page. */
public final class PageFile {
  private PageFile() {}

  /**
   * Maps a principal's page. The mapping goes with the object, at a collection; its descriptor is
   * closed at once.
   *
   * @param path the page
   * @param id the number of the principal
   * @return the page
   * @throws PlimsollException when it cannot be mapped, or belongs to another principal
   */
  public static Page map(Path path, long id) throws PlimsollException {
    // To open a pipe would wait for its other end.
    if (!Files.isRegularFile(path)) {
      throw unusable(path, "it is no file", null);
    }
    try (FileChannel file = FileChannel.open(path, StandardOpenOption.READ)) {
      check(path, id, readAll(file));
      return new Page(file.map(MapMode.READ_ONLY, 0, Page.SIZE));
    } catch (PlimsollException refused) {
      throw refused;
    } catch (IOException | RuntimeException | OutOfMemoryError fault) {
      throw unusable(path, fault.toString(), fault);
    }
  }

  /** Reads instead of mapping, because the file may be too short. */
  private static ByteBuffer readAll(FileChannel file) throws IOException {
    ByteBuffer copy = ByteBuffer.allocateDirect(Page.SIZE);
    while (copy.hasRemaining()) {
      if (file.read(copy, copy.position()) < 0) {
        throw new EOFException("it is shorter than a page");
      }
    }
    return copy;
  }

  private static void check(Path path, long id, ByteBuffer copy) throws PlimsollException {
    Page page = new Page(copy);
    String fault = page.fault();
    if (fault != null) {
      throw unusable(path, fault, null);
    }
    if (page.id() != id) {
      throw unusable(path, "it belongs to principal " + page.id() + ", not to " + id, null);
    }
  }

  private static PlimsollException unusable(Path path, String why, Throwable cause) {
    String message = "cannot use the availability page " + path + ": " + why;
    return new PlimsollException(Kind.RESOURCE, message, cause);
  }
}
