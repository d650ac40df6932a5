/* Mistakes of the program: it frees objects twice, frees addresses that are no objects, writes before and
behind objects and to freed ones, and hides references. Warnings may follow, but all other live objects stay
as they are. */
#include "sound.h"

static long warnings;

static void on_warning(char *message, GC_word value) {
    warnings++;
}

#define COUNT 400
static char *objects[COUNT];
static void *all[4 * COUNT];

/* New objects do not overlap. */
static void distinct(size_t bytes, int atomic) {
    int count = 4 * COUNT;
    for (int i = 0; i < count; i++) {
        all[i] = atomic ? GC_MALLOC_ATOMIC(bytes) : GC_MALLOC(bytes);
        memset(all[i], 0, bytes);
    }
    for (int i = 0; i < count; i++)
        ((char *)all[i])[bytes - 1]++;
    for (int i = 0; i < count; i++)
        if (((char *)all[i])[bytes - 1] != 1)
            fail("one place for two objects");
    memset(all, 0, sizeof all);
}

static void free_twice(size_t bytes, int atomic, int collected) {
    for (int i = 0; i < COUNT; i++)
        objects[i] = atomic ? GC_MALLOC_ATOMIC(bytes) : GC_MALLOC(bytes);
    long before = warnings;
    for (int i = 0; i < COUNT; i++)
        GC_FREE(objects[i]);
    if (warnings != before)
        fail("warned of objects that were freed once");
    if (collected)
        GC_gcollect();
    for (int i = 0; i < COUNT; i += 3)
        GC_FREE(objects[i]);
    if (!collected && warnings == before)
        fail("nothing was said of objects that were freed twice");
    memset(objects, 0, sizeof objects);
    distinct(bytes, atomic);
}

static void free_others(void) {
    static char data[100];
    char local[100];
    char *inside = GC_MALLOC(100), *large = GC_MALLOC(100000);
    void *words[] = {data, local, malloc(10), inside + 16, inside + 3, large + 16384, large + 50000,
                     (void *)8, (void *)-16, (void *)free_others, &warnings, (void *)GC_malloc};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        long before = warnings;
        GC_FREE(words[i]);
        if (warnings != before + 1)
            fail("nothing was said of what is no object");
    }
    memset(inside, 1, 100);
    memset(large, 1, 100000);
    GC_FREE(large);
    GC_FREE(large);
    GC_FREE(inside);
}

/* Writes beyond the ends of objects, into their neighbours. The collector then reads the garbage that is in
these. */
static void write_beside(void) {
    static const size_t sizes[] = {16, 48, 100, 1000, 5000, 8192, 40000};
    for (size_t size = 0; size < sizeof sizes / sizeof *sizes; size++) {
        size_t bytes = sizes[size];
        for (int i = 0; i < COUNT; i++)
            objects[i] = GC_MALLOC(bytes);
        for (int i = 1; i < COUNT - 1; i += 2) {
            /* Behind the last object of a superpage may lie a part of the live tree, so only our own objects
            are written to. */
            uintptr_t end = (uintptr_t)objects[i] + GC_size(objects[i]);
            if (GC_base((void *)end) == objects[i + 1])
                memset((void *)end, (int)(size * 41 + i), bytes < 64 ? 16 : 64);
            if (i % 4 == 1)
                GC_FREE(objects[i + 1]);
            if (GC_base((void *)end) == objects[i + 1])
                memset((void *)end, (int)(size * 43 + i), 16);
        }
        for (int i = 0; i < 10; i++)
            GC_MALLOC(bytes);
        GC_gcollect();
        memset(objects, 0, sizeof objects);
        GC_gcollect();
        distinct(bytes, 0);
    }
}

/* Writes to freed objects, which destroys lists of free objects that are kept in them. */
static void write_to_freed(void) {
    for (size_t bytes = 16; bytes <= 4096; bytes *= 2) {
        for (int i = 0; i < COUNT; i++)
            objects[i] = GC_MALLOC(bytes);
        for (int i = 0; i < COUNT; i++)
            GC_FREE(objects[i]);
        for (int i = 0; i < COUNT; i += 7)
            memset(objects[i], 0xa5, 16);
        objects[COUNT - 1][3] ^= 1;
        memset(objects, 0, sizeof objects);
        distinct(bytes, 0);
        GC_gcollect();
        distinct(bytes, 1);
    }
}

/* Objects with hidden references only are gone after a collection, and freeing them then is a further
mistake. */
static void hide(void) {
    static uintptr_t hidden[COUNT];
    for (int i = 0; i < COUNT; i++)
        hidden[i] = ~(uintptr_t)GC_MALLOC(64);
    GC_gcollect();
    distinct(64, 0);
    for (int i = 0; i < COUNT; i++)
        hidden[i] = ~(uintptr_t)GC_MALLOC(80);
    for (int i = 0; i < 3; i++)
        GC_gcollect();
    for (int i = 0; i < COUNT; i++)
        GC_FREE((void *)~hidden[i]);
    distinct(80, 0);
}

int main(void) {
    GC_INIT();
    GC_set_warn_proc(on_warning);
    live = tree(DEPTH, 0);
    for (size_t bytes = 16; bytes <= 4096; bytes *= 4)
        for (int how = 0; how < 4; how++)
            free_twice(bytes, how & 1, how & 2);
    free_others();
    check_live();
    hide();
    write_to_freed();
    check_live();
    write_beside();
    churn(20 << 20);
    return sound();
}
