// Exceptions out of callbacks: they go through the collector to who called it, and it goes on.
#include "check.h"
#include <gc/gc_typed.h>
#include <new>
#include <pthread.h>

struct Thrown {
    int number;
};

// Counts what is left behind on the way.
static int unwound;

struct Watch {
    ~Watch() { unwound++; }
};

template <typename Function> static NOINLINE int caught(Function function) {
    try {
        Watch watch;
        function();
    } catch (const Thrown &thrown) {
        return thrown.number;
    } catch (const std::bad_alloc &) {
        return -1;
    }
    return 0;
}

// In a process of its own, where libgc goes on with less than it had.
template <typename Function> static NOINLINE int caught_alone(Function function) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        _exit(caught(function));
    int status;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1000 - WTERMSIG(status);
}

static void quiet(char *, GC_word) {}

static void *no_memory(size_t) { throw std::bad_alloc(); }

static const size_t FAR = (size_t)1 << 45;

static void out_of_memory() {
    auto before = GC_get_oom_fn();
    GC_set_oom_fn(no_memory);
    SHOW(caught([] { GC_malloc(FAR); }));
    SHOW(caught([] { GC_malloc_atomic(FAR); }));
    SHOW(caught([] { GC_malloc_uncollectable(FAR); }));
    SHOW(caught([] { GC_malloc_atomic_uncollectable(FAR); }));
    SHOW(caught([] { GC_malloc_ignore_off_page(FAR); }));
    SHOW(caught([] { GC_malloc_atomic_ignore_off_page(FAR); }));
    SHOW(caught([] { GC_malloc_explicitly_typed(FAR, 0); }));
    SHOW(caught([] { GC_memalign(64, FAR); }));
    SHOW(caught([] { GC_realloc(GC_malloc(10), FAR); }));
    SHOW(caught([] { GC_realloc(0, FAR); }));
    SHOW(caught([] { GC_debug_malloc(FAR, GC_EXTRAS); }));
    SHOW(caught([] { GC_debug_malloc_atomic(FAR, GC_EXTRAS); }));
    SHOW(caught([] { GC_debug_realloc(GC_debug_malloc(10, GC_EXTRAS), FAR, GC_EXTRAS); }));
    void *place;
    SHOW(caught([&] { GC_posix_memalign(&place, 64, FAR); }));
    SHOW(unwound);
    GC_set_oom_fn(before);
    CHECK(GC_malloc(FAR) == 0);
    // Nobody holds the lock.
    GC_alloc_lock();
    GC_alloc_unlock();
    GC_gcollect();
    CHECK(GC_malloc(100) != 0);
}

// Finalizers that do not return.
#define COUNT 100
static int begun;

static void throws(void *, void *) {
    begun++;
    throw Thrown{begun};
}

static void make_hundred() {
    for (int i = 0; i < COUNT; i++)
        GC_register_finalizer_no_order(GC_malloc(16), throws, 0, 0, 0);
}

static void *leave(void *) {
    int arrived = 0;
    GC_set_finalize_on_demand(1);
    below(make_hundred);
    collect();
    GC_set_finalize_on_demand(0);
    for (int i = 0; i < COUNT; i++)
        arrived += caught([] { GC_gcollect(); }) != 0;
    CHECK(arrived == begun);
    SHOW(begun);
    begun = 0;
    while (GC_should_invoke_finalizers())
        arrived += caught([] { GC_invoke_finalizers(); }) != 0;
    CHECK(MOST(arrived, COUNT) && arrived <= COUNT);
    return 0;
}

// A thread of its own, because how deep one is in finalizers is known of the thread. It prints, too.
static void in_thread(void *(*run)(void *)) {
    pthread_t thread;
    int made = GC_pthread_create(&thread, 0, run, 0);
    int joined = GC_pthread_join(thread, 0);
    CHECK(made == 0);
    CHECK(joined == 0);
}

static void notify() { throw Thrown{7}; }
static void nothing(void *, void *) {}
static void make_one() { GC_register_finalizer_no_order(GC_malloc(16), nothing, 0, 0, 0); }

static void notifier() {
    GC_set_finalize_on_demand(1);
    GC_set_finalizer_notifier(notify);
    for (int i = 0; i < 3; i++) {
        below(make_one);
        below(make_one);
        printf("notifier: %d\n", caught([] { collect(); }));
    }
    GC_set_finalizer_notifier(0);
    GC_set_finalize_on_demand(0);
    GC_invoke_finalizers();
}

static void *throw_from(void *number) { throw Thrown{(int)(intptr_t)number}; }
static void *add_one(void *number) { return (void *)((intptr_t)number + 1); }
static void *active(void *number) { return GC_call_with_gc_active(throw_from, number); }

static void *active_inside(void *number) {
    intptr_t sum = caught([&] { active(number); });
    return (void *)(sum + (intptr_t)GC_call_with_gc_active(add_one, number));
}

static void *with_base(struct GC_stack_base *, void *number) { return throw_from(number); }

static void warns(char *, GC_word) { throw Thrown{9}; }
static void aborts(const char *) { throw Thrown{10}; }

static void calls() {
    SHOW(caught([] { GC_do_blocking(throw_from, (void *)3); }));
    SHOW((intptr_t)GC_do_blocking(add_one, (void *)3));
    GC_gcollect();
    SHOW(caught([] { GC_call_with_gc_active(throw_from, (void *)4); }));
    SHOW(caught([] { GC_call_with_stack_base(with_base, (void *)5); }));
    SHOW(caught_alone([] { GC_do_blocking(active, (void *)6); }));
    SHOW(caught_alone([] { GC_do_blocking(active_inside, (void *)6); }));
    SHOW(caught_alone([] { GC_call_with_alloc_lock(throw_from, (void *)8); }));
    SHOW(caught_alone([] {
        GC_set_warn_proc(warns);
        GC_malloc(FAR);
    }));
    int first = 0;
    SHOW(caught_alone([&] {
        GC_set_abort_func(aborts);
        GC_same_obj(GC_malloc(10), &first);
    }));
}

int main() {
    GC_INIT();
    GC_set_warn_proc(quiet);
    // What finalizers and notifiers throw arrives where this file expects it. A collection that memory
    // pressure brings about would let it out of any allocation.
    GC_set_disable_automatic_collection(1);
    out_of_memory();
    in_thread(leave);
    notifier();
    calls();
    for (int i = 0; i < 3; i++)
        collect();
    CHECK(GC_malloc(1000) != 0);
    return 0;
}
