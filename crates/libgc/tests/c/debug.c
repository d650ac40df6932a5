/* Objects with debugging information: their functions, their finalizers, and the detection of writes outside
of them. */
#define GC_DEBUG
#include "check.h"
#include <gc/gc_mark.h>

#define COUNT 200
static int died, wrong;

static void on_death(void *object, void *data) {
    died++;
    wrong += *(long *)object != 4711 || data != &died;
}

typedef void (*registration)(void *, GC_finalization_proc, void *, GC_finalization_proc *, void **);
static registration way;

static void make(void) {
    for (int i = 0; i < COUNT; i++) {
        long *object = GC_MALLOC(24);
        *object = 4711;
        object[1] = (long)object;
        way(object, on_death, &died, 0, 0);
    }
}

static void finalizers(void) {
    static const registration ways[] = {GC_debug_register_finalizer, GC_debug_register_finalizer_ignore_self,
                                        GC_debug_register_finalizer_no_order,
                                        GC_debug_register_finalizer_unreachable};
    for (int i = 0; i < 4; i++) {
        way = ways[i];
        died = 0;
        below(make);
        collect_well();
        printf("finalizers %d, objects that refer to themselves: %s\n", i,
               died == 0 ? "live" : MOST(died, COUNT) ? "die" : "some");
    }
    CHECK(wrong == 0);
    long *object = GC_MALLOC(24);
    GC_finalization_proc before = on_death;
    void *data = &wrong;
    GC_REGISTER_FINALIZER(object, on_death, &died, &before, &data);
    CHECK(before == 0 && data == 0);
    GC_REGISTER_FINALIZER_NO_ORDER(object, on_death, &wrong, &before, &data);
    CHECK(before == on_death && data == &died);
    GC_REGISTER_FINALIZER(object, 0, 0, &before, &data);
    CHECK(before == on_death && data == &wrong);
}

static void objects(void) {
    size_t header = GC_get_debug_header_size();
    char *all[] = {GC_MALLOC(100),          GC_MALLOC_ATOMIC(100),
                   GC_MALLOC_UNCOLLECTABLE(100), GC_MALLOC_ATOMIC_UNCOLLECTABLE(100),
                   GC_MALLOC_IGNORE_OFF_PAGE(100), GC_MALLOC_ATOMIC_IGNORE_OFF_PAGE(100),
                   GC_debug_malloc_stubborn(100, __FILE__, __LINE__), GC_debug_malloc_replacement(100),
                   GC_GENERIC_OR_SPECIAL_MALLOC(100, 0), GC_GENERIC_OR_SPECIAL_MALLOC(100, 1),
                   GC_GENERIC_OR_SPECIAL_MALLOC(100, 2), GC_GENERIC_OR_SPECIAL_MALLOC(100, 3),
                   GC_MALLOC(100000), GC_MALLOC_IGNORE_OFF_PAGE(100000)};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char *base = GC_base(all[i]);
        printf("object %zu: header %d, kind %d, aligned %d, sizes %d\n", i,
               all[i] - base == (ptrdiff_t)header,
               GC_get_kind_and_size(base, 0), (uintptr_t)all[i] % 16 == 0, GC_size(base) >= header + 100);
        memset(all[i], 0x42, 100);
        char *larger = GC_REALLOC(all[i], 1000);
        printf("  realloc: contents %d, same kind %d\n", is_filled(larger, 0x42, 100),
               GC_get_kind_and_size(GC_base(larger), 0) == GC_get_kind_and_size(base, 0));
        char *smaller = GC_REALLOC(larger, 10);
        CHECK(is_filled(smaller, 0x42, 10));
        GC_FREE(smaller);
    }
    CHECK(is_filled(GC_MALLOC(1000), 0, 1000));
    CHECK(GC_REALLOC(GC_MALLOC(10), 0) == 0);
    CHECK(GC_REALLOC(0, 10) != 0);
    CHECK(GC_debug_realloc_replacement(GC_debug_malloc_replacement(10), 100) != 0);
    CHECK(strcmp(GC_STRDUP("a text"), "a text") == 0);
    CHECK(GC_debug_strdup(0, __FILE__, __LINE__) == 0);
    CHECK(strcmp(GC_STRNDUP("a text", 3), "a t") == 0);
    CHECK(strcmp(GC_STRNDUP("a text", 30), "a text") == 0);
    GC_FREE(0);
    void **cell = GC_MALLOC(16);
    GC_PTR_STORE_AND_DIRTY(cell, cell);
    CHECK(*cell == cell);
    GC_END_STUBBORN_CHANGE(cell);
    GC_debug_change_stubborn(cell);
    GC_REGISTER_DISPLACEMENT(8);
    char *pointer = GC_MALLOC(100);
    char *start = pointer;
    CHECK(GC_PTR_ADD(pointer, 10) == start + 10);
    CHECK(GC_PRE_INCR(pointer, 3) == start + 3 && pointer == start + 3);
    CHECK(GC_POST_INCR(pointer) == start + 3 && pointer == start + 4);
    CHECK(GC_POST_DECR(pointer) == start + 4 && pointer == start + 3);
    GC_hidden_pointer word = GC_HIDE_POINTER(start);
    SHOW(GC_GENERAL_REGISTER_DISAPPEARING_LINK((void **)&word, start));
    SHOW(GC_REGISTER_LONG_LINK((void **)&word, start));
    SHOW(GC_unregister_disappearing_link((void **)&word));
    SHOW(GC_unregister_long_link((void **)&word));
}

static char *volatile victims[4];

/* The number of places in this file that the error output names. */
static int places(const char *said) { return count_of(said, "debug.c:"); }

static int part(const char *name) {
    char *object = GC_MALLOC(24);
    victims[0] = object;
    memset(object, 1, 24);
    if (!strcmp(name, "sound")) {
        GC_gcollect();
        GC_FREE(object);
    } else if (!strcmp(name, "end")) {
        object[24] ^= 1;
        GC_gcollect();
    } else if (!strcmp(name, "free end")) {
        object[24] ^= 1;
        GC_FREE(object);
    } else if (!strcmp(name, "three")) {
        for (int i = 1; i < 4; i++) {
            victims[i] = GC_MALLOC_ATOMIC(40 * i);
            victims[i][40 * i] ^= 5;
        }
        GC_gcollect();
    } else if (!strcmp(name, "atomic")) {
        victims[0] = object = GC_MALLOC_ATOMIC(16);
        object[16] ^= 1;
        GC_gcollect();
    } else if (!strcmp(name, "before")) {
        object[-1] ^= 0x10;
        GC_gcollect();
    } else if (!strcmp(name, "twice")) {
        GC_FREE(object);
        GC_FREE(object);
    } else if (!strcmp(name, "plain")) {
        GC_debug_free(GC_malloc(50));
    } else if (!strcmp(name, "no object")) {
        int local;
        GC_FREE(&local);
    } else if (!strcmp(name, "realloc plain")) {
        char *plain = GC_malloc(50);
        plain[5] = 7;
        plain = GC_REALLOC(plain, 500);
        printf("  %d\n", plain[5]);
    } else if (!strcmp(name, "realloc no object")) {
        int local;
        GC_REALLOC(&local, 10);
    } else if (!strcmp(name, "finalizer of plain")) {
        GC_REGISTER_FINALIZER(GC_malloc(50), on_death, 0, 0, 0);
    } else if (!strcmp(name, "store nowhere")) {
        void *local;
        GC_PTR_STORE_AND_DIRTY(&local, object);
    }
    return 0;
}

static void quiet(char *message, GC_word argument) {}

int main(int count, char **arguments) {
    GC_INIT();
    GC_set_warn_proc(quiet);
    if (count > 1)
        return part(arguments[1]);
    objects();
    finalizers();
    static const char *parts[] = {"sound", "end", "free end", "three", "atomic", "before", "twice", "plain",
                                  "no object", "realloc plain", "realloc no object", "finalizer of plain",
                                  "store nowhere"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char said[4000];
        printf("%s:\n", parts[i]);
        int status = again(parts[i], said, sizeof said);
        /* For an object that is freed twice, only one of the two libraries says where it was allocated. */
        int named = strcmp(parts[i], "twice") ? places(said) : 0;
        printf("  said something: %s, places named: %d, ended with %d\n", said[0] ? "yes" : "no", named,
               status);
    }
    return 0;
}
