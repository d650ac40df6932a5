package io.plimsoll.memory;

import java.io.IOException;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

/** Writes a page as a broker does: through the file, in the order of a sequence lock. */
final class PageImage implements AutoCloseable {
  private static final int SIZE = 4096;
  private static final int AT_VERSION = 8;
  private static final int AT_SEQUENCE = 16;
  private static final int AT_LIMIT = 24;
  private static final int AT_HEARTBEAT = 80;
  private static final int AT_ID = 96;
  private static final int END = 112;

  private final ByteBuffer words = ByteBuffer.allocate(SIZE).order(ByteOrder.LITTLE_ENDIAN);
  private final FileChannel file;
  private long generation;

  PageImage(Path path, long id, int version, int size) throws IOException {
    // As the real broker does, makes a new file, so that readers of an old page keep the old one.
    Files.deleteIfExists(path);
    file = FileChannel.open(path, StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE);
    words.put(0, "PLIMSOLL".getBytes());
    words.putInt(AT_VERSION, version).putInt(AT_VERSION + 4, SIZE).putLong(AT_ID, id);
    write(0, size);
  }

  void publish(Numbers numbers) throws IOException {
    long sequence = words.getLong(AT_SEQUENCE);
    words.putLong(AT_SEQUENCE, sequence + 1);
    write(AT_SEQUENCE, AT_LIMIT);
    long[] fields = {
      numbers.limit(),
      numbers.available(),
      numbers.owed(),
      numbers.deadline(),
      numbers.uses(),
      numbers.share(),
      numbers.level().ordinal(),
      System.nanoTime(),
      ++generation
    };
    for (int field = 0; field < fields.length; field++) {
      words.putLong(AT_LIMIT + field * Long.BYTES, fields[field]);
    }
    words.putLong(END - Long.BYTES, numbers.sensed());
    write(AT_LIMIT, END);
    words.putLong(AT_SEQUENCE, sequence + 2);
    write(AT_SEQUENCE, AT_LIMIT);
  }

  void beat() throws IOException {
    words.putLong(AT_HEARTBEAT, System.nanoTime());
    write(AT_HEARTBEAT, AT_HEARTBEAT + Long.BYTES);
  }

  void truncate() throws IOException {
    file.truncate(0);
  }

  private void write(int from, int to) throws IOException {
    file.write(words.duplicate().position(from).limit(to), from);
    VarHandle.fullFence();
  }

  @Override
  public void close() throws IOException {
    file.close();
  }
}
