package io.plimsoll.memory.internal.sensing;

import io.plimsoll.memory.Level;
import io.plimsoll.memory.Numbers;
import io.plimsoll.memory.Source;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Objects;

/**
 * Local sensing: the memory that a program may use while it has no broker. It is conservative,
 * because other programs may sense the same free bytes: it takes a quarter of what is free beyond a
 * reserve, and looks again. Used by one thread.
 */
public final class Local {
  private static final long MIB = 1 << 20;

  /** A program takes one part in this many of the free memory at a time. */
  private static final long PART = 4;

  /** The reserve is one part in this many of the capacity, within the bounds below. */
  private static final long RESERVE_PART = 50;

  private static final long RESERVE_MIN = 32 * MIB;
  private static final long RESERVE_MAX = 1024 * MIB;

  /** The time allowed for paying a debt, nanoseconds. */
  private static final long PATIENCE = 1_000_000_000L;

  /** How long the last limit of a dead broker holds. The sum of all limits was safe. */
  static final long GRACE = 10_000_000_000L;

  /** Numbers that change by less than this (bytes) stay as they were. */
  private static final long HYSTERESIS = MIB;

  private static final Duration CALM = Duration.ofMillis(500);
  private static final Duration SHORT = Duration.ofMillis(100);

  /** This process, as {@code /proc} names it. */
  private static final String SELF = "self";

  private final Proc proc;

  /** The process; null if there is none. */
  private Long pid;

  /** Found at the first look. */
  private Domain domain;

  private Numbers last = Numbers.NOTHING;

  /** The dead broker's limit, and until when it holds; {@link Long#MAX_VALUE} for none. */
  private long bound = Long.MAX_VALUE;

  private long boundUntil;
  private long generation;

  /**
   * A reading of the memory that bounds the program, bytes.
   *
   * @param capacity the size of that memory
   * @param room the part of it that is free or can be dropped for free
   * @param uses the use of the process
   */
  record Sensed(long capacity, long room, long uses) {}

  /**
   * Senses on this machine.
   *
   * @param root the root directory
   */
  public Local(Path root) {
    this.proc = new Proc(root);
  }

  /**
   * Keeps the limit of a lost broker as an upper bound for a while.
   *
   * @param limit bytes
   * @param now nanoseconds of {@code CLOCK_MONOTONIC}
   */
  public void inherit(long limit, long now) {
    bound = limit > 0 ? limit : Long.MAX_VALUE;
    boundUntil = now + GRACE;
    last = Numbers.NOTHING;
  }

  /**
   * Senses the present numbers.
   *
   * @param whose the process; null for a group, or if it is still to start
   * @param now nanoseconds of {@code CLOCK_MONOTONIC}
   * @return the numbers
   */
  public Numbers sense(Long whose, long now) {
    if (!Objects.equals(pid, whose)) {
      pid = whose;
      domain = null;
      last = Numbers.NOTHING;
    }
    Sensed sensed = look();
    if (now - boundUntil >= 0) {
      bound = Long.MAX_VALUE;
    }
    Numbers fresh = decide(sensed, bound, last, now);
    Numbers shown = isClose(fresh, last) ? last : fresh;
    boolean isSame = shown == last && generation > 0;
    generation += isSame ? 0 : 1;
    last =
        new Numbers(
            shown.limit(),
            shown.available(),
            shown.owed(),
            shown.deadline(),
            fresh.uses(),
            0,
            shown.level(),
            now,
            Source.LOCAL,
            generation,
            now);
    return last;
  }

  /**
   * Returns the pause until the next look. Short while memory is short.
   *
   * @return the pause
   */
  public Duration interval() {
    return last.level() == Level.NORMAL ? CALM : SHORT;
  }

  private Sensed look() {
    long uses = pid == null ? 0 : Resident.of(proc, pid.toString());
    // A group may be gone or hidden. Then the next wider memory bounds the program.
    for (String whose : new String[] {pid == null ? SELF : pid.toString(), SELF, null}) {
      try {
        if (domain == null) {
          domain = new Domain(proc, whose);
        }
        Domain.Reading reading = domain.read();
        return new Sensed(reading.capacity(), reading.room(), uses);
      } catch (IOException | RuntimeException fault) {
        domain = null;
      }
    }
    return withoutProc(uses);
  }

  /** The heap is the only memory that a program knows of without the kernel's help. */
  private static Sensed withoutProc(long uses) {
    Runtime heap = Runtime.getRuntime();
    long used = heap.totalMemory() - heap.freeMemory();
    return new Sensed(heap.maxMemory(), heap.maxMemory() - used, uses == 0 ? used : uses);
  }

  /**
   * The numbers that follow from what was sensed. The limit never exceeds {@code bound}. A debt in
   * {@code last} keeps its deadline until it is paid.
   */
  static Numbers decide(Sensed sensed, long bound, Numbers last, long now) {
    long uses = sensed.uses();
    long floor = Math.min(RESERVE_MIN, sensed.capacity() / 8);
    long most = Math.max(RESERVE_MAX, floor);
    long reserve = Math.min(Math.max(sensed.capacity() / RESERVE_PART, floor), most);
    long free = Math.max(sensed.room() - reserve, 0);
    long owed = Math.min(Math.max(reserve - sensed.room(), 0), uses / 2);
    long limit = owed > 0 ? uses - owed : plus(uses, free / PART);
    long deadline = 0;
    if (owed > 0) {
      deadline = last.deadline() == 0 ? now + PATIENCE : last.deadline();
    }
    Level level = Level.NORMAL;
    if (sensed.room() < reserve / 4 || owed > 0 && now > deadline) {
      level = Level.CRITICAL;
    } else if (sensed.room() < reserve) {
      level = Level.WARNING;
    }
    return new Numbers(
        Math.min(limit, bound),
        plus(uses, free),
        owed,
        deadline,
        uses,
        0,
        level,
        now,
        Source.LOCAL,
        0,
        now);
  }

  /** Whether a change is too small to tell: under 1 MiB or 1 %, with nothing else changed. */
  private static boolean isClose(Numbers one, Numbers other) {
    return one.level() == other.level()
        && (one.owed() == 0) == (other.owed() == 0)
        && isClose(one.owed(), other.owed())
        && one.deadline() == other.deadline()
        && isClose(one.limit(), other.limit())
        && isClose(one.available(), other.available());
  }

  private static boolean isClose(long one, long other) {
    return Math.abs(one - other) <= Math.max(HYSTERESIS, other / 100);
  }

  private static long plus(long one, long other) {
    long sum = one + other;
    return sum < 0 ? Long.MAX_VALUE : sum;
  }
}
