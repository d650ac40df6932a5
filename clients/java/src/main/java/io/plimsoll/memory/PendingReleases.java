package io.plimsoll.memory;

import java.util.ArrayDeque;

/**
 * Memory that the program gave back and that the numbers do not show yet. The broker reads a
 * program's memory some milliseconds after it was freed, and numbers that were on their way
 * meanwhile are older still. Without this, a debt that was paid would be told again, and paid
 * twice. Belongs to the lock of the principal.
 */
final class PendingReleases {
  /** Releases that are remembered one by one; further ones join the last. */
  private static final int MOST = 16;

  private record Release(long at, long bytes) {}

  /** The oldest first. */
  private final ArrayDeque<Release> releases = new ArrayDeque<>(MOST);

  /** Notes that bytes were given back before {@code now}. Forgets what {@code shown} includes. */
  void add(long bytes, long now, Numbers shown) {
    releases.removeIf(release -> release.at <= shown.asOf());
    long earlier = releases.size() == MOST ? releases.removeLast().bytes : 0;
    releases.addLast(new Release(now, Saturating.plus(earlier, bytes)));
  }

  /** The numbers as they will be once the broker has seen what was given back. */
  Numbers settle(Numbers numbers) {
    long paid = 0;
    for (Release release : releases) {
      if (release.at > numbers.asOf()) {
        paid = Saturating.plus(paid, release.bytes);
      }
    }
    return numbers.without(paid);
  }

  int count() {
    return releases.size();
  }
}
