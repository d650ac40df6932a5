/* Finalizers in all orders: pairs, cycles, removed and repeated ones. */
#include "check.h"

#define COUNT 400
typedef void (*registration)(void *, GC_finalization_proc, void *, GC_finalization_proc *, void **);

struct thing {
    struct thing *next;
    struct thing *other;
    long value;
    long check;
};

static int died, wrong;

static void on_death(void *object, void *data) {
    struct thing *thing = object;
    died++;
    if (thing->check != 4711 || thing->value != (long)(intptr_t)data)
        wrong++;
}

static struct thing *make(long value, registration how) {
    struct thing *thing = GC_malloc(sizeof *thing);
    thing->value = value;
    thing->check = 4711;
    if (how)
        how(thing, on_death, (void *)(intptr_t)value, 0, 0);
    return thing;
}

static registration way;

static void singles(void) {
    for (long i = 0; i < COUNT; i++)
        make(i, way);
}

/* Pairs where the first refers to the second, and both have finalizers. */
static void pairs(void) {
    for (long i = 0; i < COUNT; i++)
        make(i, way)->next = make(i + COUNT, way);
}

static void selves(void) {
    for (long i = 0; i < COUNT; i++) {
        struct thing *thing = make(i, way);
        thing->next = thing;
    }
}

static void cycles(void) {
    for (long i = 0; i < COUNT; i++) {
        struct thing *a = make(i, way), *b = make(i, way);
        a->next = b;
        b->next = a;
    }
}

/* A finalizer only at one end of a cycle. */
static void half_cycles(void) {
    for (long i = 0; i < COUNT; i++) {
        struct thing *a = make(i, way), *b = make(i, 0);
        a->next = b;
        b->next = a;
    }
}

static void try(const char *what, action fill) {
    int rounds[3];
    died = wrong = 0;
    below(fill);
    for (int i = 0; i < 3; i++) {
        int before = died;
        collect();
        GC_invoke_finalizers();
        rounds[i] = died - before;
    }
    printf("  %s:", what);
    for (int i = 0; i < 3; i++)
        printf(" %s", MOST(rounds[i], 2 * COUNT) ? "all"
                      : MOST(rounds[i], COUNT)   ? "half"
                      : FEW(rounds[i], COUNT)    ? "none"
                                                 : "some");
    printf(", wrong: %d\n", wrong);
}

static void all_shapes(const char *name, registration how) {
    printf("%s\n", name);
    way = how;
    try("single", singles);
    try("pairs", pairs);
    try("selves", selves);
    try("cycles", cycles);
    try("half cycles", half_cycles);
}

static void removed(void) {
    for (int i = 0; i < COUNT; i++) {
        struct thing *thing = make(i, GC_register_finalizer);
        GC_register_finalizer(thing, 0, 0, 0, 0);
    }
}

static void two_times(void) {
    for (int i = 0; i < COUNT; i++) {
        struct thing *thing = make(i, GC_register_finalizer);
        GC_register_finalizer(thing, on_death, (void *)(intptr_t)i, 0, 0);
    }
}

static void quiet(char *message, GC_word argument) {}

int main(void) {
    GC_INIT();
    GC_set_warn_proc(quiet);
    all_shapes("ordered", GC_register_finalizer);
    all_shapes("ignoring themselves", GC_register_finalizer_ignore_self);
    all_shapes("unordered", GC_register_finalizer_no_order);
    all_shapes("when unreachable", GC_register_finalizer_unreachable);
    way = 0;
    try("removed", removed);
    try("registered twice", two_times);
    return 0;
}
