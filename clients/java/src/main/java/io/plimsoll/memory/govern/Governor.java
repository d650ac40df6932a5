package io.plimsoll.memory.govern;

import java.util.Arrays;
import java.util.OptionalLong;

/**
 * Governs the heap of one process. A limit is for a process and its <em>family</em> together: its
 * descendants, unless they are principals of their own. The broker counts all of them; a process
 * knows only its own use. So the family's use is the difference. The broker's count is older, and
 * differs while this process grows or shrinks, or forks a child that is gone a moment later.
 * Therefore the least difference of the last looks is taken.
 *
 * <p>No clock and no I/O. Sizes are bytes, times nanoseconds; none is negative. Used by one thread.
 */
public final class Governor {
  private static final long MIB = 1 << 20;
  private static final long MILLISECOND = 1_000_000;
  private static final long SECOND = 1_000_000_000;

  /** Time between two reports. */
  private static final long REPORT_EVERY = SECOND;

  /** After a release, the next waits for this many times what it took. */
  private static final long RESTS = 4;

  /**
   * While memory is owed, a release that did not help is repeated after the first pause, and then
   * after ever longer ones: live data that exceed the limit are collected in vain.
   */
  private static final long FIRST_PAUSE = 500 * MILLISECOND;

  private static final long LONGEST_PAUSE = 30 * SECOND;

  /** A limit that fell by more than one part in this many is reason for another release at once. */
  private static final long FELL_PART = 32;

  /**
   * While nothing is owed, the use may exceed the threshold by one part in this many of the bytes
   * left above it.
   */
  private static final long TOLERATED_PART = 4;

  /** The most memory left unused below a limit, and the most released below the threshold. */
  private static final long MOST_UNUSED = 24 * MIB;

  private static final long MOST_RELEASED = 32 * MIB;

  /** Memory beside the heap, and the broker's count less this process's use, at the last looks. */
  private final Looks beside = new Looks();

  private final Looks family = new Looks();
  private final Rate rate;
  private Released last = new Released(0, 0, 0, 0, false, 0);

  /** At the last look: what this process used, the debt, the limit. */
  private long resident;

  private long owed;
  private long limit;

  /** The larger of what is owed and of the use above the threshold. */
  private long excess;

  /** The last look allowed a release only because of the time since the one before. */
  private boolean isRepeated;

  private long reported;

  /**
   * The last release, so that one that did not help is not repeated in vain. All 0 before the
   * first.
   *
   * @param at when it ended
   * @param took how long it took
   * @param limit the limit then
   * @param excess use above the threshold after it, or what was still owed
   * @param reached whether the use fell to what is tolerated and nothing was owed, then or later
   * @param pause time until it is repeated if it did not help and memory is owed
   */
  private record Released(
      long at, long took, long limit, long excess, boolean reached, long pause) {
    Released reachedNow() {
      return new Released(at, took, limit, excess, true, pause);
    }
  }

  /**
   * Governs a process.
   *
   * @param now the time
   * @param allocated the bytes that it has allocated until now
   */
  public Governor(long now, long allocated) {
    rate = new Rate(now, allocated);
  }

  /**
   * Measures how fast the program allocates. Called before {@link #step}, and also while there are
   * no numbers.
   *
   * @param now the time
   * @param allocated the bytes that the program has ever allocated
   * @return bytes per second
   */
  public long measure(long now, long allocated) {
    rate.look(now, allocated);
    return rate.smoothed;
  }

  /**
   * Looks once at the broker's numbers and at this process.
   *
   * @param now the time
   * @param granted the broker's numbers
   * @param own the memory of this process
   * @return the result
   */
  public Govern step(long now, Granted granted, Own own) {
    beside.push(own.beside());
    // A broker that has not counted yet, or is away, knows of no family.
    if (granted.uses() > 0) {
      family.push(minus(granted.uses(), own.resident()));
    }
    long besideMost = beside.most();
    long familyLeast = family.least();
    long usable = threshold(granted.limit());
    long unused = minus(granted.limit(), usable);
    long above = minus(plus(own.resident(), familyLeast), usable);
    resident = own.resident();
    limit = granted.limit();
    owed = granted.owed();
    excess = Math.max(above, owed);
    boolean isOver = isOver(above, owed > 0, unused);
    if (!isOver && owed == 0) {
      // A release may take effect later, where another thread collects.
      last = last.reachedNow();
    }
    boolean mayRelease = mayRelease(now, own.guard());
    long processLimit = left(now, usable, familyLeast);
    long goal = minus(left(now, lowWater(limit), familyLeast), besideMost);
    long floor = plus(plus(besideMost, familyLeast), plus(own.needs(), unused));
    return new Govern(
        familyLeast,
        processLimit,
        minus(processLimit, besideMost),
        isOver && mayRelease ? OptionalLong.of(goal) : OptionalLong.empty(),
        mayRelease,
        due(now, floor));
  }

  /**
   * Tells of a release that ended.
   *
   * @param began when it began
   * @param ended when it ended
   * @param residentNow this process uses as much after it
   */
  public void released(long began, long ended, long residentNow) {
    long usable = threshold(limit);
    long above = minus(plus(residentNow, family.least()), usable);
    long stillOwed = minus(owed, minus(resident, residentNow));
    boolean isOver = isOver(above, stillOwed > 0, minus(limit, usable));
    long pause = isRepeated ? Math.min(last.pause() * 2, LONGEST_PAUSE) : FIRST_PAUSE;
    last =
        new Released(
            ended,
            minus(ended, began),
            limit,
            Math.max(above, stillOwed),
            stillOwed == 0 && !isOver,
            pause);
  }

  /**
   * Returns the time until the next look: shorter while the program allocates, longer where news
   * end the wait, and long while there are no numbers.
   *
   * @param hasNumbers whether there are numbers
   * @param isHeard whether news end the wait
   * @return nanoseconds
   */
  public long pause(boolean hasNumbers, boolean isHeard) {
    if (hasNumbers && rate.smoothed > 0) {
      return 50 * MILLISECOND;
    }
    if (!isHeard) {
      return 100 * MILLISECOND;
    }
    return hasNumbers ? 500 * MILLISECOND : SECOND;
  }

  private boolean mayRelease(long now, long guard) {
    long since = minus(now, last.at());
    long rest = times(last.took(), RESTS);
    boolean isLower = limit < minus(last.limit(), last.limit() / FELL_PART);
    boolean hasGrown = excess > plus(last.excess(), times(guard, 2));
    boolean helps = isLower || since >= rest && (last.reached() || hasGrown);
    isRepeated = !helps && owed > 0 && since >= Math.max(last.pause(), rest);
    return last.at() == 0 || helps || isRepeated;
  }

  /**
   * The part of {@code most} bytes that is left to this process. While all use more than that, each
   * member of the family gives the same part of its use: if each gave the whole excess, they would
   * give it many times. If the others had their time and did not, they cannot, and this one pays
   * all.
   */
  private long left(long now, long most, long others) {
    boolean paysAlone = last.at() > 0 && !last.reached() && minus(now, last.at()) >= FIRST_PAUSE;
    long all = plus(resident, others);
    long surplus = minus(all, most);
    if (paysAlone || surplus == 0) {
      return minus(most, others);
    }
    return minus(resident, WideMath.part(surplus, resident, all));
  }

  private Govern.Due due(long now, long floor) {
    if (minus(now, reported) < REPORT_EVERY) {
      return null;
    }
    reported = now;
    return new Govern.Due(rate.known(), floor, last.took() / MILLISECOND);
  }

  /** Whether {@code above} bytes above the threshold are too many. */
  private static boolean isOver(long above, boolean owes, long unused) {
    return above > (owes ? 0 : unused / TOLERATED_PART);
  }

  /** Use up to which a heap may grow: 15/16 of the limit, and closer to a large limit. */
  static long threshold(long limit) {
    return limit - Math.min(limit / 16, MOST_UNUSED);
  }

  /** Use that a release goes down to: 7/8 of the threshold, and closer to a large threshold. */
  static long lowWater(long limit) {
    long threshold = threshold(limit);
    return threshold - Math.min(threshold / 8, MOST_RELEASED);
  }

  private static long plus(long one, long other) {
    long sum = one + other;
    return sum < 0 ? Long.MAX_VALUE : sum;
  }

  private static long minus(long one, long other) {
    return Math.max(one - other, 0);
  }

  private static long times(long one, long factor) {
    return one > Long.MAX_VALUE / factor ? Long.MAX_VALUE : one * factor;
  }

  /** The values of the last looks. */
  private static final class Looks {
    private static final int WINDOW = 8;

    private final long[] values = new long[WINDOW];
    private int next;

    void push(long value) {
      values[next] = value;
      next = (next + 1) % WINDOW;
    }

    long most() {
      return Arrays.stream(values).max().orElse(0);
    }

    /** Nothing until there were enough looks. */
    long least() {
      return Arrays.stream(values).min().orElse(0);
    }
  }

  /** How fast the program allocates. */
  private static final class Rate {
    /** The rate is smoothed over this time. */
    private static final long SMOOTH_OVER = SECOND;

    /** The shortest time over which it is measured. */
    private static final long MEASURE_OVER = 20 * MILLISECOND;

    private final long started;
    private long looked;
    private long allocated;

    /** Bytes a second. */
    private long smoothed;

    Rate(long now, long allocated) {
      this.started = now;
      this.looked = now;
      this.allocated = allocated;
    }

    /** Mixes in the rate since the last look. While the program starts, all looks count alike. */
    void look(long now, long allocatedNow) {
      long passed = minus(now, looked);
      if (passed < MEASURE_OVER) {
        return;
      }
      long fresh = WideMath.part(minus(allocatedNow, allocated), SECOND, passed);
      long window = Math.min(minus(now, started), SMOOTH_OVER);
      long part = Math.min(passed, window);
      smoothed = WideMath.mix(smoothed, window - part, fresh, part, window);
      looked = now;
      allocated = allocatedNow;
    }

    /** Unknown in the first second: a program allocates differently while it starts. */
    OptionalLong known() {
      boolean isKnown = minus(looked, started) >= SMOOTH_OVER;
      return isKnown ? OptionalLong.of(smoothed) : OptionalLong.empty();
    }
  }
}
