/* Finding leaks: objects that became unreachable without being freed. */
#define GC_DEBUG
#include "check.h"
#include <gc/gc_disclaim.h>
#include <gc/gc_mark.h>
#include <pthread.h>

static void *volatile held[100];
static int died;

static void on_death(void *object, void *data) { died++; }

static void lose_plain(void) {
    for (int i = 0; i < 5; i++)
        held[i] = GC_malloc(30);
    memset((void *)held, 0, sizeof held);
}

static void lose_debug(void) {
    for (int i = 0; i < 5; i++)
        held[i] = GC_MALLOC(30);
    for (int i = 5; i < 8; i++)
        held[i] = GC_MALLOC_ATOMIC(300);
    held[8] = GC_MALLOC(50000);
    memset((void *)held, 0, sizeof held);
}

static void lose_many(void) {
    for (int i = 0; i < 100; i++)
        held[i] = GC_MALLOC(64);
    memset((void *)held, 0, sizeof held);
}

static void free_all(void) {
    for (int i = 0; i < 50; i++)
        held[i] = i % 2 ? GC_MALLOC(20 + i * 100) : GC_malloc(20 + i * 100);
    for (int i = 0; i < 50; i++)
        if (i % 2)
            GC_FREE(held[i]);
        else
            GC_free(held[i]);
    memset((void *)held, 0, sizeof held);
}

static void lose_chain(void) {
    void **first = GC_MALLOC(16), **second = GC_MALLOC(16);
    *first = second;
    held[0] = first;
    held[0] = 0;
}

static void describe(void *object, char *text) { strcpy(text, "a thing of ours"); }

static void hold_and_free(void) {
    for (int i = 0; i < 100; i++)
        held[i] = i % 2 ? GC_malloc(16 + i % 7 * 40) : GC_malloc_atomic(16 + i % 7 * 40);
    for (int i = 0; i < 100; i += 3) {
        GC_free(held[i]);
        held[i] = 0;
    }
}

static void *on_thread(void *argument) {
    hold_and_free();
    return 0;
}

/* The program turns leak detection on after it lost an object. Objects that it freed, or that it allocates
later, are no leaks. */
static int late(const char *name) {
    GC_INIT();
    below(hold_and_free);
    if (strstr(name, "thread")) {
        pthread_t thread;
        memset((void *)held, 0, sizeof held);
        collect();
        GC_pthread_create(&thread, 0, on_thread, 0);
        GC_pthread_join(thread, 0);
    }
    if (strstr(name, "collection")) {
        below(lose_debug);
        collect();
        collect();
    }
    static void *volatile kept[100];
    memcpy((void *)kept, (void *)held, sizeof held);
    below(lose_debug);
    if (strstr(name, "variable"))
        GC_find_leak = 1;
    else
        GC_set_find_leak(1);
    if (strstr(name, "more"))
        below(lose_plain);
    collect();
    if (strstr(name, "again")) {
        below(lose_debug);
        collect();
        collect();
    }
    return 0;
}

static void nothing(void) {
    below(free_all);
    collect();
}

static void hold(void) {
    for (int i = 0; i < 20; i++)
        held[i] = GC_MALLOC(20);
    collect();
    collect();
}

static void plain(void) {
    below(lose_plain);
    collect();
}

static void debug(void) {
    below(lose_debug);
    collect();
}

static void many(void) {
    below(lose_many);
    collect();
}

static void chain(void) {
    below(lose_chain);
    collect();
    collect();
}

static void at_exit(void) {
    below(lose_debug);
    wipe();
}

static void uncollectable(void) {
    held[0] = GC_MALLOC_UNCOLLECTABLE(20);
    held[1] = GC_malloc_atomic_uncollectable(20);
    memset((void *)held, 0, sizeof held);
    collect();
}

static void reallocated(void) {
    held[0] = GC_MALLOC(20);
    held[0] = GC_REALLOC(held[0], 2000);
    held[1] = GC_malloc(20);
    held[1] = GC_realloc(held[1], 2000);
    held[2] = GC_STRDUP("a text");
    collect();
    GC_FREE(held[0]);
    GC_free(held[1]);
    GC_FREE(held[2]);
    memset((void *)held, 0, sizeof held);
}

static void links(void) {
    GC_hidden_pointer word = 0;
    void *object = held[0] = GC_MALLOC(20);
    GC_finalization_proc before = on_death;
    void *data = &word;
    GC_register_finalizer(GC_base(object), on_death, 0, &before, &data);
    CHECK(before == on_death && data == &word);
    SHOW(GC_general_register_disappearing_link((void **)&word, GC_base(object)));
    SHOW(GC_register_long_link((void **)&word, GC_base(object)));
    GC_FREE(object);
    held[0] = 0;
}

static void described(void) {
    GC_register_describe_type_fn(1, describe);
    below(lose_debug);
    collect();
}

static void aborts(void) {
    setenv("GC_ABORT_ON_LEAK", "1", 1);
    below(lose_debug);
    collect();
    printf("not reached\n");
}

static void incremental(void) {
    GC_enable_incremental();
    CHECK(GC_is_incremental_mode() == 0);
}

static int part(const char *name) {
    static const struct {
        const char *name;
        action run;
    } parts[] = {{"nothing", nothing}, {"held", hold}, {"plain", plain}, {"debug", debug}, {"many", many},
                 {"chain", chain}, {"at exit", at_exit}, {"uncollectable", uncollectable},
                 {"realloc", reallocated}, {"links", links}, {"described", described}, {"abort", aborts},
                 {"incremental", incremental}};
    if (!strncmp(name, "late", 4))
        return late(name);
    GC_set_find_leak(1);
    GC_INIT();
    CHECK(GC_get_find_leak() == 1 && GC_find_leak == 1);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!strcmp(name, parts[i].name))
            parts[i].run();
    return 0;
}

/* A report has 40 leaks at most. An object that a stale word still held then is in the report at the end.
Their number differs between machines. */
static int capped(int count) { return count > 40 && count < 44 ? 40 : count; }

static void show(const char *name, const char *argument) {
    char said[20000];
    int status = again(argument, said, sizeof said);
    printf("%s: leaks %d, named %d, of them atomic %d, composite %d, without a place %d; described %d; "
           "ended with %d\n",
           name, capped(count_of(said, "leaks.c:") + count_of(said, "object at")),
           capped(count_of(said, "leaks.c:")), count_of(said, "PTRFREE"), capped(count_of(said, "NORMAL")),
           count_of(said, " (composite)"),
           count_of(said, "a thing of ours") > 0, status);
}

int main(int count, char **arguments) {
    if (count > 1 && strcmp(arguments[1], "by environment"))
        return part(arguments[1]);
    if (count > 1) {
        GC_INIT();
        CHECK(GC_get_find_leak() == 1);
        below(lose_debug);
        collect();
        return 0;
    }
    static const char *parts[] = {"nothing", "held", "plain", "debug", "many", "chain", "at exit",
                                  "uncollectable", "realloc", "links", "described", "abort", "incremental",
                                  "late", "late, variable", "late, more", "late, variable, more",
                                  "late, after a collection", "late, thread", "late, variable, again"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        show(parts[i], parts[i]);
    setenv("GC_FIND_LEAK", "1", 1);
    show("environment", "by environment");
    return 0;
}
