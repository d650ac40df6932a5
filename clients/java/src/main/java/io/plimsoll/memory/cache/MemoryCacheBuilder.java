package io.plimsoll.memory.cache;

import com.github.benmanes.caffeine.cache.Weigher;
import io.plimsoll.memory.Principal;
import java.util.Objects;
import java.util.function.Consumer;

/**
 * A cache in preparation.
 *
 * @param <K> the type of the keys
 * @param <V> the type of the values
 */
public final class MemoryCacheBuilder<K, V> {
  final Principal principal;
  final Weigher<? super K, ? super V> weigher;
  long minimum;
  long demand;
  boolean isInHeap = true;
  Consumer<? super V> release;

  MemoryCacheBuilder(Principal principal, Weigher<? super K, ? super V> weigher) {
    this.principal = Objects.requireNonNull(principal, "principal");
    this.weigher = Objects.requireNonNull(weigher, "weigher");
  }

  /**
   * Sets the size that the cache keeps, whatever is owed. 0 by default.
   *
   * @param bytes bytes, as the weigher counts them
   * @return this builder
   */
  public MemoryCacheBuilder<K, V> minimum(long bytes) {
    minimum = checked(bytes);
    return this;
  }

  /**
   * Sets how large the cache would be if it kept all its data. By default that is guessed: twice
   * its size while it drops entries for lack of room, else little more than its size.
   *
   * @param bytes bytes, as the weigher counts them
   * @return this builder
   */
  public MemoryCacheBuilder<K, V> demand(long bytes) {
    demand = checked(bytes);
    return this;
  }

  /**
   * Tells that the values are direct buffers or the like: outside of the heap, but freed by a
   * collection. Then the size of the heap does not bound the cache.
   *
   * @return this builder
   */
  public MemoryCacheBuilder<K, V> directBuffers() {
    isInHeap = false;
    return this;
  }

  /**
   * Tells how a value outside of the heap is freed at once, for example {@code Arena::close} or the
   * release of a counted buffer. Each value that leaves the cache, for whatever reason, is freed
   * once. The function must be short and must not use the cache. Make sure that nobody still uses
   * the value, by counting its users.
   *
   * @param function frees a value
   * @return this builder
   */
  public MemoryCacheBuilder<K, V> freedBy(Consumer<? super V> function) {
    release = Objects.requireNonNull(function, "function");
    isInHeap = false;
    return this;
  }

  /**
   * Makes the cache and starts its thread.
   *
   * @return the cache, to be closed before the principal
   */
  public MemoryCache<K, V> build() {
    return new MemoryCache<>(this).start();
  }

  private static long checked(long bytes) {
    if (bytes < 0) {
      throw new IllegalArgumentException(bytes + " is no size: give 0 or more");
    }
    return bytes;
  }
}
