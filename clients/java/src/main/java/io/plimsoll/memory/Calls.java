package io.plimsoll.memory;

import io.plimsoll.memory.internal.wire.Call;

/** The calls of a client, as {@code io.plimsoll.varlink} declares them. */
final class Calls {
  private Calls() {}

  static Call register(Wish wish, Long parent) {
    return Call.of("Register")
        .with("name", wish.name)
        .with("kind", wish.isGroup ? "group" : "process")
        .with("pid", wish.pid)
        .with("parent", parent)
        .with("weight", wish.weight)
        .with("priority", wish.priority)
        .with("max", wish.max == null || wish.max == 0 ? null : wish.max)
        .with("adapter", wish.adapter);
  }

  static Call attach(long id, long pid) {
    return Call.of("Attach").with("id", id).with("pid", pid);
  }

  /** Tells who steers it, and what it is called; a name of null keeps the present one. */
  static Call adapt(long id, String adapter, String name) {
    return Call.of("Adapt").with("id", id).with("adapter", adapter).with("name", name);
  }

  static Call report(long id, Report report) {
    Call call = Call.of("Report").with("id", id);
    report.forEach(call::with);
    return call;
  }

  static Call subscribe(long id) {
    return Call.of("Subscribe").with("id", id).wanting(Call.Mode.MORE);
  }

  static Call released(long id, long bytes) {
    return Call.of("Released").with("id", id).with("bytes", bytes);
  }

  /** Changes one setting. */
  static Call set(long id, String setting, Object value) {
    return Call.of("Set").with("id", id).with(setting, value);
  }

  static Call list() {
    return Call.of("List");
  }
}
