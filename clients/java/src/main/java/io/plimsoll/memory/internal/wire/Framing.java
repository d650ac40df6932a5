package io.plimsoll.memory.internal.wire;

import io.plimsoll.memory.PlimsollException;
import java.util.Arrays;

/** Cuts a stream of bytes into messages, each ended by a NUL byte. */
public final class Framing {
  /** A larger buffer is given back when its message was taken. */
  private static final int KEEP = 8192;

  private byte[] buffer = new byte[KEEP];
  private int length;
  private int scanned;

  /** Makes one that holds nothing. */
  public Framing() {}

  /**
   * Adds bytes that were received.
   *
   * @param bytes holds them from its start
   * @param count how many there are
   */
  public void push(byte[] bytes, int count) {
    if (buffer.length - length < count) {
      buffer = Arrays.copyOf(buffer, Math.max(length + count, buffer.length * 2));
    }
    System.arraycopy(bytes, 0, buffer, length, count);
    length += count;
  }

  /**
   * Takes the next message.
   *
   * @param max the longest message that is taken, bytes
   * @return the message without its NUL; null when it is not complete yet
   * @throws PlimsollException when it is too long or empty
   */
  public byte[] next(int max) throws PlimsollException {
    while (scanned < length && buffer[scanned] != 0) {
      scanned++;
    }
    if (scanned > max) {
      throw Message.against("a message is longer than " + max + " bytes");
    }
    if (scanned == length) {
      return null;
    }
    if (scanned == 0) {
      throw Message.against("an empty message");
    }
    byte[] message = Arrays.copyOf(buffer, scanned);
    int rest = length - scanned - 1;
    byte[] next = buffer.length > KEEP && rest <= KEEP ? new byte[KEEP] : buffer;
    System.arraycopy(buffer, scanned + 1, next, 0, rest);
    buffer = next;
    length = rest;
    scanned = 0;
    return message;
  }

  /**
   * Returns how many bytes wait for the rest of their message.
   *
   * @return bytes
   */
  public int pending() {
    return length;
  }
}
