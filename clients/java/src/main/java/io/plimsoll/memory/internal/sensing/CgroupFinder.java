package io.plimsoll.memory.internal.sensing;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * Finds the memory cgroup of a process: {@code /proc/PID/cgroup} gives its name, {@code
 * /proc/self/mountinfo} where the names are mounted.
 */
final class CgroupFinder {
  private static final String DELETED = " (deleted)";

  /** The deepest tree of groups that is walked. */
  private static final int MAX_DEPTH = 64;

  private final Proc proc;

  CgroupFinder(Proc proc) {
    this.proc = proc;
  }

  /**
   * A mounted hierarchy.
   *
   * @param isV2 whether its interface is version 2
   * @param root the group of the hierarchy that is at the mount point
   * @param point where it is mounted
   */
  private record Mount(boolean isV2, String root, String point) {}

  /** The groups whose limits bind a process, innermost first; none where nothing is visible. */
  List<Cgroup> above(String pid) throws IOException {
    List<String> membership;
    try {
      membership = Proc.lines(proc.at("/proc/" + pid + "/cgroup"));
    } catch (NoSuchFileException withoutCgroups) {
      Proc.text(proc.at("/proc/" + pid + "/status"));
      return List.of();
    }
    for (Mount mount : mounts()) {
      String name = nameOf(membership, mount.isV2());
      if (name == null || mount.isV2() && !hasMemory(mount)) {
        continue;
      }
      String below = below(mount.root(), name);
      if (below != null) {
        return walk(mount, below);
      }
    }
    return List.of();
  }

  private List<Cgroup> walk(Mount mount, String below) {
    List<Cgroup> groups = new ArrayList<>();
    Path top = proc.at(mount.point());
    Path directory = top.resolve(below);
    while (groups.size() < MAX_DEPTH) {
      Cgroup group = new Cgroup(directory, mount.isV2());
      // A group of version 1 without hierarchy is not bound by those above.
      if (!groups.isEmpty() && !group.isHierarchical()) {
        break;
      }
      groups.add(group);
      if (directory.equals(top)) {
        break;
      }
      directory = directory.getParent();
    }
    return groups;
  }

  private boolean hasMemory(Mount mount) {
    try {
      String controllers = Proc.text(proc.at(mount.point()).resolve("cgroup.controllers"));
      return Arrays.asList(controllers.trim().split(" ")).contains("memory");
    } catch (IOException unreadable) {
      return false;
    }
  }

  /** The name of the group in the hierarchy of version 2, or in that with the memory controller. */
  static String nameOf(List<String> membership, boolean isV2) {
    for (String line : membership) {
      String[] fields = line.split(":", 3);
      if (fields.length < 3 || !fields[2].startsWith("/")) {
        continue;
      }
      boolean isUnified = fields[0].equals("0") && fields[1].isEmpty();
      boolean isMemory = Arrays.asList(fields[1].split(",")).contains("memory");
      if (isV2 ? isUnified : isMemory) {
        String name = fields[2];
        return name.endsWith(DELETED) ? name.substring(0, name.length() - DELETED.length()) : name;
      }
    }
    return null;
  }

  /**
   * The path below a mount of the group with this name; null if it is not below it, or if the mount
   * begins above our namespace.
   */
  static String below(String root, String name) {
    String prefix = root.equals("/") ? "" : root;
    boolean isBelow = name.equals(prefix) || name.startsWith(prefix + "/");
    boolean climbs = (root + name + "/").contains("/../");
    return isBelow && !climbs ? name.substring(Math.min(prefix.length() + 1, name.length())) : null;
  }

  /** The mounted hierarchies of cgroups, without those that a later mount lies over. */
  private List<Mount> mounts() throws IOException {
    List<Mount> found = new ArrayList<>();
    for (String line : Proc.lines(proc.at("/proc/self/mountinfo"))) {
      String[] halves = line.split(" - ", 2);
      String[] fields = halves[0].split(" ");
      if (halves.length < 2 || fields.length < 5) {
        continue;
      }
      String point = unescape(fields[4]);
      found.removeIf(earlier -> (earlier.point() + "/").startsWith(point + "/"));
      String[] rest = halves[1].split(" ");
      boolean isV2 = rest[0].equals("cgroup2");
      boolean isV1 =
          rest[0].equals("cgroup")
              && rest.length > 2
              && Arrays.asList(rest[2].split(",")).contains("memory");
      if ((isV1 || isV2) && Files.isDirectory(proc.at(point))) {
        found.add(new Mount(isV2, unescape(fields[3]), point));
      }
    }
    return found;
  }

  /** Undoes the octal escapes of mountinfo: {@code \040} is a blank. */
  static String unescape(String text) {
    StringBuilder out = new StringBuilder();
    int at = 0;
    while (at < text.length()) {
      boolean isEscape = text.startsWith("\\", at) && text.length() >= at + 4;
      String digits = isEscape ? text.substring(at + 1, at + 4) : "";
      boolean isOctal = isEscape && digits.chars().allMatch(each -> each >= '0' && each <= '7');
      out.append(isOctal ? (char) Integer.parseInt(digits, 8) : text.charAt(at));
      at += isOctal ? 4 : 1;
    }
    return out.toString();
  }
}
