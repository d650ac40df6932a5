/* When finalizers are called: by the collector, on demand, with a notifier; and the warnings about them. */
#include "check.h"

#define COUNT 100
static int died, notified, awaited;

static void on_death(void *object, void *data) {
    died++;
    GC_gcollect();
    GC_malloc(100);
}

static void make(void) {
    for (int i = 0; i < COUNT; i++)
        GC_register_finalizer(GC_malloc(50), on_death, 0, 0, 0);
}

static void notify(void) {
    notified++;
    /* The collector holds no lock here, so allocation is allowed. */
    GC_malloc(10);
}

static void awaits(void *object) {
    awaited += GC_base(object) == object;
    free(malloc(100));
}

static void allocate(void) {
    for (int i = 0; i < 1000000; i++)
        GC_malloc(50);
}

static int cycles;

static void count_cycles(char *message, GC_word argument) {
    cycles += strstr(message, "inalization cycle") != 0 && GC_base((void *)argument) != 0;
}

static void make_cycle(void) {
    void **a = GC_malloc(16), **b = GC_malloc(16);
    *a = b;
    *b = a;
    GC_register_finalizer(a, on_death, 0, 0, 0);
    GC_register_finalizer(b, on_death, 0, 0, 0);
}

static void without_demand(void) {
    GC_set_finalizer_notifier(notify);
    below(make);
    collect();
    printf("called by the collection\n");
    CHECK(MOST(died, COUNT));
    CHECK(notified == 0);
    CHECK(GC_should_invoke_finalizers() == 0);

    died = 0;
    below(make);
    below(allocate);
    printf("called by an allocation\n");
    CHECK(MOST(died, COUNT));
}

static void on_demand(void) {
    GC_set_finalize_on_demand(1);
    CHECK(GC_get_finalize_on_demand() == 1);
    died = notified = 0;
    below(make);
    collect();
    printf("on demand\n");
    CHECK(died == 0);
    CHECK(notified == 1);
    CHECK(GC_should_invoke_finalizers() != 0);
    for (int i = 0; i < 100; i++)
        GC_malloc(100);
    CHECK(notified == 1);
    collect();
    CHECK(notified == 2);
    CHECK(died == 0);
    int count = GC_invoke_finalizers();
    CHECK(count == died && MOST(died, COUNT));
    CHECK(GC_should_invoke_finalizers() == 0);
    notified = 0;
    GC_gcollect();
    CHECK(notified == 0);
    SHOW(GC_invoke_finalizers());
}

static void awaited_first(void) {
    CHECK(GC_get_await_finalize_proc() == 0);
    GC_set_await_finalize_proc(awaits);
    CHECK(GC_get_await_finalize_proc() == awaits);
    died = 0;
    below(make);
    collect();
    CHECK(MOST(awaited, COUNT));
    int before = awaited;
    collect();
    CHECK(awaited - before <= 2);
    CHECK(died == 0);
    GC_set_await_finalize_proc(0);

    GC_set_finalizer_notifier(0);
    below(make);
    collect();
    GC_set_finalize_on_demand(0);
    died = 0;
    collect();
    CHECK(died >= COUNT);
}

/* A warning names every object of a cycle, in each collection. */
static void cycles_are_named(void) {
    GC_warn_proc was = GC_get_warn_proc();
    GC_set_warn_proc(count_cycles);
    below(make_cycle);
    collect();
    SHOW(cycles);
    collect();
    SHOW(cycles);
    GC_set_warn_proc(was);
}

int main(void) {
    GC_INIT();
    CHECK(GC_get_finalize_on_demand() == 0);
    CHECK(GC_get_finalizer_notifier() == 0);
    CHECK(GC_should_invoke_finalizers() == 0);
    SHOW(GC_invoke_finalizers());
    without_demand();
    on_demand();
    awaited_first();
    cycles_are_named();
    return 0;
}
