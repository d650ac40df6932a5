package io.plimsoll.memory.cache;

import com.github.benmanes.caffeine.cache.Cache;
import com.github.benmanes.caffeine.cache.Caffeine;
import com.github.benmanes.caffeine.cache.Policy;
import com.github.benmanes.caffeine.cache.RemovalCause;
import com.github.benmanes.caffeine.cache.Weigher;
import io.plimsoll.memory.Ghost;
import io.plimsoll.memory.Numbers;
import io.plimsoll.memory.Principal;
import io.plimsoll.memory.Report;
import java.time.Duration;
import java.util.OptionalLong;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;

/**
 * A cache of Caffeine that sizes itself by a principal's numbers: it grows only while the program's
 * use is below its limit, and gives back what is owed in steps before the deadline.
 *
 * <pre>{@code
 * var cache = MemoryCache.<String, byte[]>builder(principal, (key, value) -> value.length).build();
 * byte[] page = cache.cache().get("index", name -> render(name));
 * }</pre>
 *
 * <p>A value in the heap is free memory only after a collection, and is given back only when the
 * heap shrinks. Two cases:
 *
 * <ul>
 *   <li>The principal names no adapter: then {@code plimsoll run} steers the heap from outside, and
 *       its adapter collects, gives memory back, and reports. The cache only drops its entries.
 *   <li>The principal names the adapter {@code self}: then the cache asks for a collection itself,
 *       measures by how much the resident memory fell, and reports that.
 * </ul>
 *
 * <p>A value outside of the heap that is freed at once ({@link MemoryCacheBuilder#freedBy}) is
 * reported at once, in both cases.
 *
 * @param <K> the type of the keys
 * @param <V> the type of the values
 */
public final class MemoryCache<K, V> implements AutoCloseable {
  /** The pause between two looks, while the cache is full and while it is not. */
  private static final Duration FULL = Duration.ofMillis(250);

  private static final Duration CALM = Duration.ofSeconds(1);

  /** The longest pause between two steps of paying, nanoseconds. */
  private static final long LONGEST_PAUSE = 20_000_000;

  /** Dropped entries count as given back for this long at least, nanoseconds. */
  private static final long COUNTS = 1_000_000_000;

  private static final long REPORT_EVERY = 1_000_000_000;

  private final Principal principal;
  private final Weigher<? super K, ? super V> weigher;
  private final Consumer<? super V> release;
  private final long minimum;
  private final long wanted;
  private final boolean isInHeap;
  private final Cache<K, V> cache;
  private final Cache<K, V> measured;
  private final Policy.Eviction<K, V> eviction;
  private final Thread thread;
  private final Freeing freeing = new Freeing();
  private volatile boolean isClosed;
  private volatile boolean hasEvicted;

  /** The maximum of the cache, without its lock. */
  private volatile long capacity;

  /** The keys that went lately for lack of room. Guarded by itself. */
  private final Ghost ghost = new Ghost(System.nanoTime());

  // The fields below belong to the thread.

  /** Weight that left the cache while this thread shrank it. */
  private long freed;

  /**
   * When the broker last looked, and the weight at that time: growth since is not in its numbers.
   */
  private long sensed = -1;

  private long sensedWeight;

  /** Dropped for a debt and not collected yet as far as is known, and until when that counts. */
  private long dropped;

  private long droppedUntil;
  private boolean isUncollected;
  private long reactionMs = -1;
  private long told = -1;
  private long toldWorth = -1;
  private long toldAt = System.nanoTime() - REPORT_EVERY;

  MemoryCache(MemoryCacheBuilder<K, V> builder) {
    principal = builder.principal;
    weigher = builder.weigher;
    release = builder.release;
    minimum = builder.minimum;
    wanted = builder.demand;
    isInHeap = builder.isInHeap;
    cache =
        Caffeine.newBuilder()
            .maximumWeight(builder.minimum)
            .<K, V>weigher(builder.weigher)
            // Entries that leave are counted and freed on the thread that makes them leave.
            .executor(Runnable::run)
            .<K, V>removalListener(this::left)
            .build();
    measured = new MeasuredCache<>(cache, this::missed);
    eviction = cache.policy().eviction().orElseThrow();
    thread = new Thread(this::run, "plimsoll-cache");
    thread.setDaemon(true);
  }

  /**
   * Begins a cache.
   *
   * @param principal whose numbers it follows. Its events go to the cache and nowhere else
   * @param weigher the bytes of an entry, with its key and some 100 bytes of management
   * @param <K> the type of the keys
   * @param <V> the type of the values
   * @return a builder
   */
  public static <K, V> MemoryCacheBuilder<K, V> builder(
      Principal principal, Weigher<? super K, ? super V> weigher) {
    return new MemoryCacheBuilder<>(principal, weigher);
  }

  MemoryCache<K, V> start() {
    resize(principal.read());
    thread.start();
    return this;
  }

  /**
   * Returns the cache to get from and put into. Its maximum belongs to this object. Its methods
   * {@code get} and {@code getAll} measure how long values take to make.
   *
   * @return the cache
   */
  public Cache<K, V> cache() {
    return measured;
  }

  /**
   * Tells that a value was not there, for programs that make values outside of {@code get} and
   * {@code getAll}.
   *
   * @param key its key
   * @param nanoseconds how long making it took
   */
  public void missed(K key, long nanoseconds) {
    synchronized (ghost) {
      ghost.missed(key.hashCode(), nanoseconds);
    }
  }

  /**
   * Returns the time that one more MiB would have saved lately.
   *
   * @return nanoseconds per second; empty in the first second
   */
  public OptionalLong worth() {
    synchronized (ghost) {
      return ghost.worth(System.nanoTime());
    }
  }

  /**
   * Returns the size of all entries.
   *
   * @return bytes, as the weigher counts them
   */
  public long weight() {
    return eviction.weightedSize().orElse(0);
  }

  /**
   * Returns the size up to which the cache may grow now.
   *
   * @return bytes, as the weigher counts them
   */
  public long maximum() {
    return eviction.getMaximum();
  }

  private void left(K key, V value, RemovalCause cause) {
    if (key == null || value == null) {
      return;
    }
    if (cause == RemovalCause.SIZE) {
      synchronized (ghost) {
        ghost.evicted(key.hashCode(), weigher.weigh(key, value), capacity);
      }
    }
    if (Thread.currentThread() == thread) {
      freed += weigher.weigh(key, value);
    } else if (cause == RemovalCause.SIZE) {
      hasEvicted = true;
    }
    if (release != null) {
      release.accept(value);
    }
  }

  private void run() {
    try {
      while (!isClosed && !principal.isClosed()) {
        boolean isFull = weight() > maximum() - maximum() / 8;
        principal.await(isFull ? FULL : CALM);
        if (!isClosed) {
          adapt(principal.read());
        }
      }
    } catch (InterruptedException ended) {
      // Somebody else wants this thread to end. The cache keeps its size.
      isClosed = true;
    }
  }

  private void adapt(Numbers now) {
    if (now.owed() > 0) {
      pay(now);
    } else {
      dropped = 0;
      isUncollected = false;
      resize(now);
    }
    report(now);
  }

  private void resize(Numbers now) {
    long bound = Long.MAX_VALUE;
    if (isInHeap) {
      Runtime heap = Runtime.getRuntime();
      bound = Sizing.heapBound(heap.totalMemory(), heap.maxMemory(), now);
    }
    long at = now.sensed() == 0 ? now.heartbeat() : now.sensed();
    if (at != sensed) {
      sensed = at;
      sensedWeight = weight();
    }
    shrinkOrGrow(Sizing.maximum(now, sensedWeight, minimum, bound));
  }

  /** Sets the maximum. Returns the weight that left the cache. */
  private long shrinkOrGrow(long maximum) {
    long before = freed;
    capacity = maximum;
    eviction.setMaximum(maximum);
    cache.cleanUp();
    return freed - before;
  }

  /** Drops entries in steps, until as much was dropped as is owed. */
  private void pay(Numbers first) {
    long began = System.nanoTime();
    if (began - droppedUntil >= 0) {
      // The memory came back too late, or not at all: more has to be dropped.
      dropped = 0;
    }
    long owed = first.owed() - dropped;
    long left = owed;
    while (left > 0 && weight() > minimum && !isClosed && principal.read().owed() > 0) {
      long gone = shrinkOrGrow(Sizing.step(owed, left, weight(), minimum));
      if (gone == 0) {
        break;
      }
      left -= gone;
      if (release != null) {
        principal.released(gone);
      } else {
        dropped += gone;
        isUncollected = true;
        droppedUntil = Math.max(first.deadline(), began + COUNTS);
      }
      long pause = Math.min(Sizing.pause(first.deadline(), System.nanoTime()), LONGEST_PAUSE);
      LockSupport.parkNanos(left > 0 ? pause : 0);
    }
    // Nothing grows while memory is owed.
    sensedWeight = Math.min(weight(), maximum());
    shrinkOrGrow(Math.max(sensedWeight, minimum));
    collect();
    reactionMs = (System.nanoTime() - began) / 1_000_000;
  }

  /** Frees what was dropped, where no adapter outside does. */
  private void collect() {
    if (isUncollected && steersItself() && freeing.isDue()) {
      isUncollected = false;
      principal.released(freeing.collect());
    }
  }

  private boolean steersItself() {
    return principal.adapter().isPresent();
  }

  /**
   * Reports the demand, and what memory is worth. An adapter outside knows better, and does so
   * itself.
   */
  private void report(Numbers now) {
    long weight = weight();
    long beside = Math.max(now.uses() - weight, 0);
    long guessed = hasEvicted ? weight * 2 : weight + weight / 8;
    long demand = beside + (wanted > 0 ? wanted : guessed);
    boolean isDue = System.nanoTime() - toldAt >= REPORT_EVERY;
    boolean isNews = told < 0 || Sizing.isNews(told, demand);
    long worth = worth().orElse(-1);
    if (!steersItself() || !isDue || !isNews && worth == toldWorth) {
      return;
    }
    Report report = new Report();
    if (isNews) {
      report.demand(demand).floor(beside + minimum);
      told = demand;
      hasEvicted = false;
    }
    if (reactionMs >= 0) {
      report.reactionMs(reactionMs);
    }
    if (worth >= 0) {
      report.worth(worth);
      toldWorth = worth;
    }
    principal.report(report);
    toldAt = System.nanoTime();
  }

  /** Drops all entries and ends the thread. The principal stays open. */
  @Override
  public void close() {
    isClosed = true;
    try {
      while (thread.isAlive() && Thread.currentThread() != thread) {
        principal.interrupt();
        thread.join(100);
      }
    } catch (InterruptedException early) {
      // It ends with its next look.
      Thread.currentThread().interrupt();
    }
    cache.invalidateAll();
    cache.cleanUp();
  }
}
