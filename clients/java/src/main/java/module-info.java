/** The client of Plimsoll, and a cache that sizes itself (which needs Caffeine). */
@SuppressWarnings({"requires-automatic", "requires-transitive-automatic"})
module io.plimsoll.memory {
  requires jdk.net;
  requires static transitive com.github.benmanes.caffeine;

  exports io.plimsoll.memory;
  exports io.plimsoll.memory.cache;
  exports io.plimsoll.memory.govern;
}
