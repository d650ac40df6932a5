package io.plimsoll.memory.cache;

import com.github.benmanes.caffeine.cache.Cache;
import com.github.benmanes.caffeine.cache.Policy;
import com.github.benmanes.caffeine.cache.stats.CacheStats;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentMap;
import java.util.function.Function;
import java.util.function.ObjLongConsumer;

/**
 * A cache that tells how long it took to make each value.
 *
 * @param <K> the type of the keys
 * @param <V> the type of the values
 */
final class MeasuredCache<K, V> implements Cache<K, V> {
  private final Cache<K, V> cache;

  /** Takes the key and nanoseconds. */
  private final ObjLongConsumer<? super K> missed;

  MeasuredCache(Cache<K, V> cache, ObjLongConsumer<? super K> missed) {
    this.cache = cache;
    this.missed = missed;
  }

  @Override
  public V get(K key, Function<? super K, ? extends V> make) {
    return cache.get(key, measured(make));
  }

  private Function<K, V> measured(Function<? super K, ? extends V> make) {
    return key -> {
      long began = System.nanoTime();
      V made = make.apply(key);
      if (made != null) {
        missed.accept(key, System.nanoTime() - began);
      }
      return made;
    };
  }

  @Override
  public Map<K, V> getAll(
      Iterable<? extends K> keys,
      Function<? super Set<? extends K>, ? extends Map<? extends K, ? extends V>> make) {
    return cache.getAll(
        keys,
        lacking -> {
          long began = System.nanoTime();
          Map<? extends K, ? extends V> made = make.apply(lacking);
          // Each value has its part of the time.
          long each = (System.nanoTime() - began) / Math.max(made.size(), 1);
          made.keySet().forEach(key -> missed.accept(key, each));
          return made;
        });
  }

  @Override
  public V getIfPresent(K key) {
    return cache.getIfPresent(key);
  }

  @Override
  public Map<K, V> getAllPresent(Iterable<? extends K> keys) {
    return cache.getAllPresent(keys);
  }

  @Override
  public void put(K key, V value) {
    cache.put(key, value);
  }

  @Override
  public void putAll(Map<? extends K, ? extends V> map) {
    cache.putAll(map);
  }

  @Override
  public void invalidate(K key) {
    cache.invalidate(key);
  }

  @Override
  public void invalidateAll(Iterable<? extends K> keys) {
    cache.invalidateAll(keys);
  }

  @Override
  public void invalidateAll() {
    cache.invalidateAll();
  }

  @Override
  public long estimatedSize() {
    return cache.estimatedSize();
  }

  @Override
  public CacheStats stats() {
    return cache.stats();
  }

  @Override
  public ConcurrentMap<K, V> asMap() {
    return cache.asMap();
  }

  @Override
  public void cleanUp() {
    cache.cleanUp();
  }

  @Override
  public Policy<K, V> policy() {
    return cache.policy();
  }
}
