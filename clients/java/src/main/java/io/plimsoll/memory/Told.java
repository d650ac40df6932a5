package io.plimsoll.memory;

/**
 * A state that was told to waiting threads, or is to be told.
 *
 * @param numbers the numbers
 * @param joins counts joins, so that a broker that died and came back unseen is still told
 * @param joined whether there is a broker
 */
record Told(Numbers numbers, long joins, boolean joined) {

  /**
   * The event that follows if {@code before} was told last; null if nothing that matters changed.
   */
  Event.Kind newsSince(Told before) {
    Numbers now = numbers;
    Numbers then = before.numbers;
    if (joined && (!before.joined || joins != before.joins)) {
      return Event.Kind.JOINED;
    }
    if (before.joined && !joined) {
      return Event.Kind.BROKER_LOST;
    }
    if (now.owed() > then.owed() || now.owed() > 0 && now.deadline() != then.deadline()) {
      return Event.Kind.OWED;
    }
    if (then.owed() > 0 && now.owed() == 0 || now.level().compareTo(then.level()) < 0) {
      return Event.Kind.RELIEF;
    }
    boolean isSame =
        now.limit() == then.limit()
            && now.available() == then.available()
            && now.owed() == then.owed()
            && now.level() == then.level();
    return isSame ? null : Event.Kind.CHANGED;
  }

  Told with(Numbers numbers) {
    return new Told(numbers, joins, joined);
  }
}
