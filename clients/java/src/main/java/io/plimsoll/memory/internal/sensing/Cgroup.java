package io.plimsoll.memory.internal.sensing;

import java.io.IOException;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;

/**
 * A memory cgroup of version 1 or 2.
 *
 * @param directory its directory
 * @param isV2 whether its interface is version 2
 */
record Cgroup(Path directory, boolean isV2) {
  /** Version 1 shows "no limit" as a number that is larger than this. */
  private static final long NO_LIMIT = 1L << 62;

  /** Its own limit, bytes; -1 if it is not limited. */
  long limit() throws IOException {
    try {
      long limit = Proc.number(file(isV2 ? "memory.max" : "memory.limit_in_bytes"));
      return limit < NO_LIMIT ? limit : -1;
    } catch (NoSuchFileException top) {
      // The top group of version 2 has none. A group that was removed is looked for again.
      if (!directory.toFile().isDirectory()) {
        throw top;
      }
      return -1;
    }
  }

  /** The memory that is charged to it and its descendants, including files. */
  long usage() throws IOException {
    return Proc.number(file(isV2 ? "memory.current" : "memory.usage_in_bytes"));
  }

  /** Whether limits of this group bind its children, too. */
  boolean isHierarchical() {
    try {
      return isV2 || Proc.number(file("memory.use_hierarchy")) != 0;
    } catch (IOException newKernel) {
      return true;
    }
  }

  /**
   * The memory that the kernel can free without writing anything and that no process uses: clean
   * inactive pages of files, and those pages of the swap cache that no process has mapped.
   */
  long droppable() throws IOException {
    String prefix = !isV2 && isHierarchical() ? "total_" : "";
    Map<String, Long> stat = new HashMap<>();
    Proc.pairs(file("memory.stat"), stat::put);
    long anonymous = of(stat, prefix + (isV2 ? "anon" : "rss"));
    long dirty = of(stat, prefix + (isV2 ? "file_dirty" : "dirty"));
    long listed = of(stat, prefix + "inactive_anon") + of(stat, prefix + "active_anon");
    long unmapped = Math.max(listed - of(stat, prefix + "shmem") - anonymous, 0);
    long files = Math.max(of(stat, prefix + "inactive_file") - dirty, 0);
    return files + Math.min(of(stat, prefix + "swapcached"), unmapped);
  }

  private Path file(String name) {
    return directory.resolve(name);
  }

  private static long of(Map<String, Long> stat, String name) {
    return stat.getOrDefault(name, 0L);
  }
}
