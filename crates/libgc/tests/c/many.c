/* Lists of free objects, and the inline macros that take objects from them. */
#include "check.h"
#include <gc/gc_inline.h>
#include <gc/gc_mark.h>

static size_t sizes[] = {1, 8, 15, 16, 17, 24, 32, 48, 100, 128, 250, 256, 500, 1000, 2000};
#define SIZES (sizeof sizes / sizeof *sizes)
static void *roots[SIZES];

static void lists(void) {
    int some = 1, cleared = 1, large_enough = 1, bases = 1, distinct = 1;
    for (size_t i = 0; i < SIZES; i++) {
        int count = 0;
        void *list = roots[i] = GC_malloc_many(sizes[i]);
        for (void *object = list; object; object = GC_NEXT(object)) {
            count++;
            bases &= GC_base(object) == object;
            /* The caller adds the extra byte to the size. */
            large_enough &= GC_size(object) >= sizes[i];
            if (sizes[i] > sizeof(void *))
                cleared &= is_filled((char *)object + sizeof(void *), 0, sizes[i] - sizeof(void *));
        }
        some &= count > 0;
        /* All objects of the list are different. */
        int mark = 0;
        for (void *object = list; object; object = GC_NEXT(object))
            if (sizes[i] >= 16)
                ((int *)object)[2] = ++mark;
        mark = 0;
        for (void *object = list; object; object = GC_NEXT(object))
            if (sizes[i] >= 16)
                distinct &= ((int *)object)[2] == ++mark;
    }
    CHECK(some);
    CHECK(cleared);
    CHECK(large_enough);
    CHECK(bases);
    CHECK(distinct);
}

static int exact(size_t bytes) {
    void *object = GC_malloc_many(bytes);
    return GC_size(object) == bytes;
}

static void of_kinds(void) {
    for (int kind = 0; kind <= 1; kind++) {
        static void *list;
        list = (void *)1;
        GC_generic_malloc_many(64, kind, &list);
        int count = 0, right = 1;
        for (void *object = list; object; object = GC_NEXT(object)) {
            count++;
            right &= GC_get_kind_and_size(object, 0) == kind && GC_size(object) >= 64;
        }
        CHECK(count > 0 && right);
    }
    printf("as it is: nothing more\n");
    for (size_t bytes = 16; bytes <= 128; bytes += 16) {
        static void *exactly;
        GC_generic_malloc_many(bytes, GC_I_NORMAL, &exactly);
        if (GC_size(exactly) != bytes)
            printf("  %zu: %zu\n", bytes, GC_size(exactly));
    }
    static void *large;
    GC_generic_malloc_many(50000, GC_I_NORMAL, &large);
    CHECK(large && !GC_NEXT(large) && GC_size(large) >= 50000);
}

/* The whole list lives as long as there is a reference to its head. Objects that were taken from it die. */
static int died;
static intptr_t question;
static void *head;

static void on_death(void *object, void *data) { died += (intptr_t)data == question; }

static void take(void) {
    for (int i = 0; i < 100; i++) {
        if (!head)
            head = GC_malloc_many(32);
        void *object = head;
        head = GC_NEXT(object);
        GC_NEXT(object) = 0;
        GC_register_finalizer_no_order(object, on_death, (void *)question, 0, 0);
    }
}

static void *tiny[GC_TINY_FREELISTS], *tiny_atomic[GC_TINY_FREELISTS];

struct cons {
    struct cons *first, *second;
};
static struct cons *list;
static int cleared = 1;

static void inline_macros(void) {
    for (long i = 0; i < 20000; i++) {
        struct cons *cons;
        GC_CONS(cons, i, list, tiny);
        list = cons;
        long *words;
        GC_MALLOC_WORDS(words, 6, tiny);
        cleared &= is_filled(words, 0, 48);
        memset(words, 0x77, 48);
        GC_MALLOC_ATOMIC_WORDS(words, 4, tiny_atomic);
        memset(words, 0x66, 32);
        GC_MALLOC_WORDS(words, 100, tiny);
        cleared &= is_filled(words, 0, 800);
        memset(words, 0x55, 800);
    }
}

int main(void) {
    GC_INIT();
    lists();
    of_kinds();
    printf("as GC_malloc: a byte more\n");
    CHECK(exact(16));
    CHECK(exact(32));
    CHECK(exact(64));
    question++;
    below(take);
    collect_well();
    CHECK(MOST(died, 100));
    int left = 0, sound = 1;
    for (void *object = head; object; object = GC_NEXT(object)) {
        left++;
        sound &= GC_base(object) == object && GC_size(object) >= 31;
    }
    CHECK(sound);
    /* The collector does not follow a list of atomic objects beyond its first one. */
    GC_disable();
    below(inline_macros);
    GC_enable();
    memset(tiny_atomic, 0, sizeof tiny_atomic);
    GC_gcollect();
    CHECK(cleared);
    long expected = 20000;
    for (struct cons *cons = list; cons; cons = cons->second)
        sound &= (long)(intptr_t)cons->first == --expected;
    CHECK(sound && expected == 0);
    /* The text that is printed may differ between collectors. */
    int out = dup(1), nothing = open("/dev/null", O_WRONLY);
    fflush(stdout);
    dup2(nothing, 1);
    GC_print_free_list(GC_I_NORMAL, 2);
    dup2(out, 1);
    return 0;
}
