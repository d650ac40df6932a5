package io.plimsoll.memory.internal.sensing;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.plimsoll.memory.Level;
import io.plimsoll.memory.Numbers;
import io.plimsoll.memory.Source;
import io.plimsoll.memory.internal.sensing.Local.Sensed;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Local sensing: the rules, and the texts of the kernel that they look at. */
class LocalTest {
  private static final long MIB = 1 << 20;
  private static final long MOST = Long.MAX_VALUE;

  @TempDir Path root;

  private static Numbers decide(long capacity, long room, long uses, Numbers last, long now) {
    return Local.decide(new Sensed(capacity * MIB, room * MIB, uses * MIB), MOST, last, now);
  }

  @Test
  void takesAPartOfWhatIsFreeAndGivesBackWhenNothingIs() {
    Numbers calm = decide(1600, 832, 100, Numbers.NOTHING, 5);
    assertEquals(300 * MIB, calm.limit());
    assertEquals(900 * MIB, calm.available());
    assertEquals(0, calm.owed() + calm.deadline());
    assertEquals(Level.NORMAL, calm.level());

    Numbers tight = decide(1600, 12, 100, calm, 5);
    assertEquals(20 * MIB, tight.owed());
    assertEquals(80 * MIB, tight.limit());
    assertEquals(1_000_000_005L, tight.deadline());
    assertEquals(Level.WARNING, tight.level());

    Numbers late = decide(1600, 12, 100, tight, tight.deadline() + 1);
    assertEquals(tight.deadline(), late.deadline(), "a debt keeps its deadline");
    assertEquals(Level.CRITICAL, late.level());
  }

  @Test
  void neverMoreThanThereIs() {
    Random random = new Random(5);
    for (int round = 0; round < 100_000; round++) {
      long capacity = random.nextLong() >>> (14 + random.nextInt(40));
      long room = (random.nextLong() >>> 1) % (capacity + 1);
      long uses = (random.nextLong() >>> 1) % (capacity - room + 1);
      long bound = random.nextLong() >>> (1 + random.nextInt(60));
      Sensed sensed = new Sensed(capacity, room, uses);
      Numbers now = Local.decide(sensed, bound, Numbers.NOTHING, 1);
      assertTrue(now.limit() <= uses + room && now.limit() <= bound && now.limit() >= 0);
      assertTrue(now.available() <= uses + room && now.owed() <= uses && now.owed() >= 0);
      assertEquals(now.owed() > 0, now.deadline() > 0);
    }
  }

  @Test
  void aDeadBrokersLimitHoldsForAWhile() {
    Local local = new Local(Path.of("/"));
    long pid = ProcessHandle.current().pid();
    local.inherit(7 * MIB, 1000);
    Numbers bound = local.sense(pid, 2000);
    assertTrue(bound.limit() <= 7 * MIB);
    Numbers after = local.sense(pid, 1000 + Local.GRACE);
    assertTrue(after.uses() > 0 && after.limit() > 7 * MIB, after.toString());
    assertEquals(Source.LOCAL, after.source());
    assertTrue(after.generation() > bound.generation());
    assertEquals(0, local.sense(null, 5 * Local.GRACE).uses(), "a group uses nothing itself");
  }

  @Test
  void smallChangesAreNotTold() throws Exception {
    machine(1600, 832);
    write("/proc/7/status", "RssAnon:\t102400 kB\nRssShmem:\t0 kB\n");
    write("/proc/7/cgroup", "0::/\n");
    write("/proc/self/mountinfo", "");
    Local local = new Local(root);
    Numbers first = local.sense(7L, 10);
    assertEquals(100 * MIB, first.uses());
    write("/proc/7/status", "RssAnon:\t102500 kB\nRssShmem:\t0 kB\n");
    Numbers second = local.sense(7L, 20);
    assertEquals(first.limit(), second.limit());
    assertEquals(first.generation(), second.generation());
    assertEquals(102_500 * 1024L, second.uses(), "but the use is");
    write("/proc/7/status", "RssAnon:\t202400 kB\nRssShmem:\t1024 kB\n");
    Numbers third = local.sense(7L, 30);
    assertEquals(first.generation() + 1, third.generation());
    assertEquals((202_400 + 1024) * 1024L, third.uses());
  }

  private void write(String path, String text) throws Exception {
    Path file = root.resolve(path.substring(1));
    Files.createDirectories(file.getParent());
    Files.writeString(file, text);
  }

  private void machine(long total, long available) throws Exception {
    String form = "MemTotal: %d kB\nMemFree: %d kB\nMemAvailable: %d kB\nInactive(file): 0 kB\n";
    write("/proc/meminfo", String.format(form, total << 10, available << 10, available << 10));
  }

  private Domain.Reading read() throws Exception {
    return new Domain(new Proc(root), "7").read();
  }

  @Test
  void theMachineBoundsWhereNoGroupDoes() throws Exception {
    machine(1000, 400);
    write("/proc/7/cgroup", "0::/a\n");
    write("/proc/self/mountinfo", "30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    assertEquals(new Domain.Reading(1000 * MIB, 600 * MIB), read());
  }

  @Test
  void theTightestGroupOfVersion2Binds() throws Exception {
    machine(1000, 400);
    write("/proc/7/cgroup", "3:cpu:/x\n0::/outer/in ner (deleted)\n");
    write(
        "/proc/self/mountinfo",
        "30 1 0:26 /outer /cg\\040roups rw shared:1 - cgroup2 none rw\n"
            + "31 1 0:5 / /x rw - tmpfs x rw\n");
    write("/cg roups/cgroup.controllers", "cpu memory pids\n");
    write("/cg roups/memory.max", "314572800\n");
    write("/cg roups/memory.current", "209715200\n");
    write("/cg roups/memory.stat", "anon 0\ninactive_file 62914560\nfile_dirty 10485760\n");
    write("/cg roups/in ner/memory.max", "max\n");
    assertEquals(new Domain.Reading(300 * MIB, 150 * MIB), read());
    write("/cg roups/in ner/memory.max", "104857600\n");
    write("/cg roups/in ner/memory.current", "52428800\n");
    write("/cg roups/in ner/memory.stat", "anon 0\nswapcached 5242880\ninactive_anon 2097152\n");
    assertEquals(new Domain.Reading(100 * MIB, 48 * MIB), read());
    write("/cg roups/cgroup.controllers", "cpu pids\n");
    assertEquals(1000 * MIB, read().capacity(), "without the controller no group bounds");
  }

  @Test
  void theTightestGroupOfVersion1Binds() throws Exception {
    machine(1000, 400);
    write("/proc/7/cgroup", "9:memory:/outer/inner\n0::/\n");
    write(
        "/proc/self/mountinfo", "30 1 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
    String top = "/sys/fs/cgroup/memory/";
    write(top + "memory.limit_in_bytes", "9223372036854771712\n");
    write(top + "memory.use_hierarchy", "1\n");
    write(top + "outer/memory.limit_in_bytes", "209715200\n");
    write(top + "outer/memory.usage_in_bytes", "104857600\n");
    write(top + "outer/memory.use_hierarchy", "1\n");
    write(top + "outer/memory.stat", "inactive_file 1\ntotal_inactive_file 52428800\n");
    write(top + "outer/inner/memory.limit_in_bytes", "9223372036854771712\n");
    write(top + "outer/inner/memory.use_hierarchy", "1\n");
    assertEquals(new Domain.Reading(200 * MIB, 50 * MIB), read());
    write(top + "outer/memory.use_hierarchy", "0\n");
    assertEquals(1000 * MIB, read().capacity(), "a group without hierarchy binds itself only");
  }

  @Test
  void whereTheGroupIsGoneTheMachineBounds() throws Exception {
    machine(1000, 400);
    write("/proc/7/cgroup", "0::/gone (deleted)\n");
    write("/proc/7/status", "RssAnon: 1024 kB\n");
    write("/proc/self/mountinfo", "30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    write("/sys/fs/cgroup/cgroup.controllers", "memory\n");
    Numbers now = new Local(root).sense(7L, 5);
    assertEquals(MIB, now.uses());
    assertEquals((1 + 400 - 32) * MIB, now.available());
  }

  @Test
  void namesBelowMountsAreFound() {
    assertEquals("b/c", CgroupFinder.below("/a", "/a/b/c"));
    assertEquals("", CgroupFinder.below("/a", "/a"));
    assertEquals("", CgroupFinder.below("/", "/"));
    assertEquals("x", CgroupFinder.below("/", "/x"));
    assertNull(CgroupFinder.below("/a", "/ab"));
    assertNull(CgroupFinder.below("/..", "/"), "it begins above our namespace");
    assertNull(CgroupFinder.below("/", "/../x"));
    assertNull(CgroupFinder.nameOf(List.of("", "x", "1:cpu:/a", "0::relative"), true));
    assertEquals("\\04a b\\", CgroupFinder.unescape("\\04a\\040b\\134"));
  }

  @Test
  void textsThatMakeNoSenseAreNoNumbers() {
    assertEquals(-1, Proc.number("max"));
    assertEquals(-1, Proc.number("-5"));
    assertEquals(-1, Proc.number(""));
    assertEquals(MOST, Proc.number("99999999999999999999"));
    Local nowhere = new Local(root.resolve("absent"));
    Numbers heap = nowhere.sense(7L, 5);
    assertTrue(heap.limit() > 0 && heap.limit() <= Runtime.getRuntime().maxMemory());
  }
}
