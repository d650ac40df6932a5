/* Many threads that use all functions at the same time. Each has a table of objects whose contents it
knows. */
#include "check.h"
#include <gc/gc_disclaim.h>
#include <gc/gc_mark.h>
#include <gc/gc_typed.h>
#include <pthread.h>

#define THREADS 6
#define SLOTS 400

struct object {
    struct object *self; /* its start, so that it is checked too */
    unsigned seed;
    unsigned words;
    uintptr_t contents[];
};

static unsigned next(unsigned *seed) { return *seed = *seed * 1664525u + 1013904223u; }

static void write_to(struct object *object, unsigned words, unsigned seed) {
    object->self = object;
    object->seed = seed;
    object->words = words;
    for (unsigned i = 0; i < words; i++)
        object->contents[i] = next(&seed) >> 8 | 1;
}

static int is_sound(const struct object *object, const struct object *self) {
    unsigned seed = object->seed;
    if (object->self != self)
        return 0;
    for (unsigned i = 0; i < object->words; i++)
        if (object->contents[i] != (next(&seed) >> 8 | 1))
            return 0;
    return 1;
}

static int steps = 20000;
static long finalized, bad_finalized;

static void on_death(void *object, void *data) {
    __atomic_add_fetch(&finalized, 1, __ATOMIC_RELAXED);
    if (!is_sound(object, object))
        __atomic_add_fetch(&bad_finalized, 1, __ATOMIC_RELAXED);
}

static struct GC_finalizer_closure closure = {on_death, 0};
static unsigned kind;
static GC_descr typed;

static struct GC_ms_entry *mark(GC_word *address, struct GC_ms_entry *top, struct GC_ms_entry *limit,
                                GC_word environment) {
    struct object *object = (struct object *)address;
    return GC_MARK_AND_PUSH(object->self, top, limit, (void **)&object->self);
}

enum how { PLAIN, ATOMIC, HELD, TYPED, OWN, FINALIZED, CHEAP, DEBUG, WAYS };

static struct object *get(enum how how, size_t bytes) {
    switch (how) {
    case ATOMIC:
        return GC_malloc_atomic(bytes);
    case HELD:
        return GC_malloc_uncollectable(bytes);
    case TYPED:
        return GC_malloc_explicitly_typed(bytes, typed);
    case OWN:
        return GC_generic_malloc(bytes, (int)kind);
    case CHEAP:
        return GC_finalized_malloc(bytes, &closure);
    case DEBUG:
        return GC_debug_malloc(bytes, __FILE__, __LINE__);
    default:
        return GC_malloc(bytes);
    }
}

struct table {
    struct object *objects[SLOTS];
    unsigned char ways[SLOTS];
    GC_hidden_pointer links[SLOTS];
};

static void let_go(struct table *table, int slot) {
    struct object *object = table->objects[slot];
    table->objects[slot] = 0;
    if (object && table->ways[slot] == HELD)
        GC_free(object);
}

static void *work(void *argument) {
    unsigned seed = (unsigned)(uintptr_t)argument * 7919 + 17;
    long bad = 0;
    struct table *table = GC_malloc(sizeof *table);
    for (int step = 0; step < steps; step++) {
        int slot = (int)(next(&seed) >> 8) % SLOTS;
        struct object *object = table->objects[slot];
        enum how how = table->ways[slot];
        if (object && !is_sound(object, object))
            bad++;
        switch (next(&seed) >> 12 & 7) {
        case 0: /* freed by hand */
            if (object && (how == PLAIN || how == ATOMIC || how == HELD)) {
                GC_unregister_disappearing_link((void **)&table->links[slot]);
                table->objects[slot] = 0;
                GC_free(object);
            }
            break;
        case 1: /* another size */
            if (object && (how == PLAIN || how == ATOMIC || how == HELD)) {
                unsigned words = (next(&seed) >> 8) % 300;
                GC_unregister_disappearing_link((void **)&table->links[slot]);
                unsigned kept = words < object->words ? words : object->words;
                object->words = kept;
                object = table->objects[slot] =
                    GC_realloc(object, sizeof *object + words * sizeof(uintptr_t));
                bad += !is_sound(object, object->self);
                write_to(object, words, seed);
            }
            break;
        case 2: /* a link to it */
            if (object && (how == PLAIN || how == ATOMIC || how == TYPED || how == OWN)) {
                table->links[slot] = GC_HIDE_POINTER(object);
                GC_general_register_disappearing_link((void **)&table->links[slot], object);
            }
            break;
        case 3:
            if (step % 300 == 0)
                GC_gcollect();
            break;
        default: { /* a new one in its place */
            let_go(table, slot);
            how = (enum how)((next(&seed) >> 8) % WAYS);
            unsigned words = (next(&seed) >> 8) % (step % 50 ? 60 : 3000);
            size_t bytes = sizeof *object + words * sizeof(uintptr_t);
            object = get(how, bytes);
            if (how != ATOMIC && (object->self || object->words || (words && object->contents[words - 1])))
                bad++;
            write_to(object, words, seed);
            if (how == FINALIZED)
                GC_register_finalizer_ignore_self(object, on_death, 0, 0, 0);
            table->objects[slot] = object;
            table->ways[slot] = (unsigned char)how;
        }
        }
        /* A link either refers to an object that lives, or is cleared. */
        if (table->links[slot] && table->objects[slot] &&
            table->links[slot] == GC_HIDE_POINTER(table->objects[slot]))
            bad += !GC_base(GC_REVEAL_POINTER(table->links[slot]));
    }
    for (int slot = 0; slot < SLOTS; slot++) {
        bad += table->objects[slot] && !is_sound(table->objects[slot], table->objects[slot]);
        let_go(table, slot);
    }
    return (void *)bad;
}

int main(int count, char **arguments) {
    if (count > 1)
        steps = atoi(arguments[1]);
    GC_INIT();
    GC_init_finalized_malloc();
    kind = GC_new_kind(GC_new_free_list(), GC_MAKE_PROC(GC_new_proc(mark), 0), 0, 1);
    GC_word bits[1] = {1};
    typed = GC_make_descriptor(bits, 3);
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        GC_pthread_create(&threads[i], 0, work, (void *)i);
    long bad = 0;
    for (int i = 0; i < THREADS; i++) {
        void *result;
        GC_pthread_join(threads[i], &result);
        bad += (long)result;
    }
    for (int i = 0; i < 3; i++)
        collect_well();
    SHOW(bad);
    SHOW(bad_finalized);
    CHECK(finalized > steps / 4);
    return 0;
}
