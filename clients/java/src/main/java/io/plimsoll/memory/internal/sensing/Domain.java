package io.plimsoll.memory.internal.sensing;

import java.io.IOException;
import java.nio.file.NoSuchFileException;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * The memory that bounds a process: the machine's, or that of the tightest cgroup above. The one
 * with the least room binds. Limits are read each time; the list of groups is made again after many
 * reads, and at once if a group disappeared.
 */
final class Domain {
  /** After this many reads the groups are looked up again, because a process can be moved. */
  private static final int READS_PER_SCAN = 256;

  private final Proc proc;
  private final String pid;
  private List<Cgroup> groups;
  private int reads;

  /**
   * The state of a domain.
   *
   * @param capacity the most that it may hold, bytes
   * @param used in use, and cannot be dropped for free
   */
  record Reading(long capacity, long used) {
    long room() {
      return Math.max(capacity - used, 0);
    }
  }

  /** The domain of a process, named as in {@code /proc}; null for the whole machine. */
  Domain(Proc proc, String pid) throws IOException {
    this.proc = proc;
    this.pid = pid;
    scan();
  }

  Reading read() throws IOException {
    if (++reads >= READS_PER_SCAN) {
      scan();
    }
    try {
      return readAll();
    } catch (NoSuchFileException removed) {
      // The group was removed and perhaps made again. Look once more before failing.
      scan();
      return readAll();
    }
  }

  private void scan() throws IOException {
    groups = pid == null ? List.of() : new CgroupFinder(proc).above(pid);
    reads = 0;
  }

  private Reading readAll() throws IOException {
    Reading machine = machine();
    Reading tightest = machine;
    for (Cgroup group : groups) {
      long limit = group.limit();
      if (limit < 0 || limit >= machine.capacity()) {
        continue;
      }
      long usage = group.usage();
      // A group that is far from its limit even with all its caches cannot bind.
      if (limit - usage > tightest.room()) {
        continue;
      }
      Reading here = new Reading(limit, Math.max(usage - group.droppable(), 0));
      tightest = here.room() <= tightest.room() ? here : tightest;
    }
    return tightest;
  }

  /**
   * The machine's memory. In use is what cannot be dropped for free: the kernel is reluctant to
   * drop half of the reclaimable slabs. Never less than the kernel's own estimate.
   */
  private Reading machine() throws IOException {
    Map<String, Long> info = new HashMap<>();
    Proc.pairs(proc.at("/proc/meminfo"), info::put);
    long total = of(info, "MemTotal");
    if (total == 0) {
      throw new IOException("/proc/meminfo has no line MemTotal");
    }
    long files = Math.max(of(info, "Inactive(file)") - of(info, "Dirty"), 0);
    long droppable = files + of(info, "SwapCached") + of(info, "SReclaimable") / 2;
    long used = Math.max(total - of(info, "MemFree") - droppable, 0);
    Long available = info.get("MemAvailable");
    return new Reading(total, available == null ? used : Math.max(used, total - available));
  }

  private static long of(Map<String, Long> info, String name) {
    return info.getOrDefault(name, 0L);
  }
}
