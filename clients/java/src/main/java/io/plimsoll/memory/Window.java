package io.plimsoll.memory;

import io.plimsoll.memory.internal.page.Page;

/**
 * The place where a principal's numbers are read: the broker's page, or numbers of our own.
 * Replaced as a whole, so that readers need no lock.
 *
 * @param page the broker's page, or null
 * @param own the numbers where there is no page
 * @param source the source of the numbers
 */
record Window(Page page, Numbers own, Source source) {

  static Window on(Page page, Source source) {
    return new Window(page, null, source);
  }

  static Window of(Numbers own) {
    return new Window(null, own, own.source());
  }

  /** The numbers; null while the page shows none. */
  Numbers read() {
    return page == null ? own : page.read(source);
  }

  /** One number; 0 while the page shows none. */
  long limit() {
    return page == null ? own.limit() : page.limit();
  }
}
