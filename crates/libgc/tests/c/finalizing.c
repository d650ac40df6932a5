/* Finalizers: of chains, replaced ones, ones that save their object, the lifetime of their data, ones inside
of others, some that do not return, and the call of all of them at the end. */
#include "check.h"
#include <gc/javaxfc.h>
#include <setjmp.h>

#define COUNT 400
typedef void (*registration)(void *, GC_finalization_proc, void *, GC_finalization_proc *, void **);

struct thing {
    struct thing *next;
    struct thing *other;
    long value;
    long check;
};

static int died, wrong, out_of_order;
static long last_rank;

static int at_end;

static void on_end(void *object, void *data) {
    struct thing *thing = object;
    at_end += thing->check == 4711 && thing->value == (long)(intptr_t)data;
}

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

static void on_rank(void *object, void *data) {
    struct thing *thing = object;
    died++;
    if (thing->value < last_rank)
        out_of_order++;
    last_rank = thing->value;
}

static void make_ranks(void) {
    struct thing *next = 0;
    for (long i = 20; i > 0; i--) {
        struct thing *thing = make(i, 0);
        GC_register_finalizer(thing, on_rank, 0, 0, 0);
        thing->next = next;
        next = thing;
    }
}

/* A chain dies from its head on, one object in each collection. */
static void ranks(void) {
    died = out_of_order = 0;
    last_rank = 0;
    below(make_ranks);
    int one_at_a_time = 1;
    for (int i = 0; i < 30; i++) {
        int before = died;
        collect();
        GC_invoke_finalizers();
        one_at_a_time &= died - before <= 1;
    }
    CHECK(died >= 19);
    CHECK(out_of_order == 0);
    CHECK(one_at_a_time);
}

static void other(void *object, void *data) { wrong++; }

static void replaced(void) {
    struct thing *thing = make(1, 0);
    GC_finalization_proc before = other;
    void *data = &wrong;
    GC_register_finalizer(thing, on_death, thing, &before, &data);
    CHECK(before == 0 && data == 0);
    GC_register_finalizer_no_order(thing, other, &died, &before, &data);
    CHECK(before == on_death && data == thing);
    GC_register_finalizer_ignore_self(thing, on_death, &wrong, &before, 0);
    CHECK(before == other);
    GC_register_finalizer(thing, 0, 0, &before, &data);
    CHECK(before == on_death && data == &wrong);
    GC_register_finalizer(thing, 0, 0, &before, &data);
    CHECK(before == 0 && data == 0);
    /* An address that is no object. */
    int local;
    before = other;
    data = &local;
    GC_register_finalizer(&local, on_death, 0, &before, &data);
    CHECK(before == 0 && data == 0);
    before = other;
    GC_register_finalizer(malloc(10), on_death, 0, &before, &data);
    CHECK(before == 0);
}

static struct thing *risen[COUNT];

static void rise(void *object, void *data) {
    died++;
    risen[(intptr_t)data] = object;
}

static void make_rising(void) {
    for (int i = 0; i < COUNT; i++)
        GC_register_finalizer(make(i, 0), rise, (void *)(intptr_t)i, 0, 0);
}

/* An object that its finalizer saves lives, without a finalizer. */
static void resurrection(void) {
    died = 0;
    below(make_rising);
    collect_well();
    CHECK(MOST(died, COUNT));
    int good = 0, all = 0;
    for (int i = 0; i < COUNT; i++)
        if (risen[i]) {
            all++;
            good += risen[i]->value == i && risen[i]->check == 4711;
        }
    CHECK(good == all && MOST(all, COUNT));
    int before = died;
    memset(risen, 0, sizeof risen);
    collect_well();
    CHECK(FEW(died - before, COUNT));
}

/* The data of finalizers lives, even if the finalizer has the only reference to it. */
static long sum;

static void add_up(void *object, void *data) {
    struct thing *held = data;
    sum += held->value;
    wrong += held->check != 4711;
    died++;
}

static void make_with_data(void) {
    for (int i = 0; i < COUNT; i++)
        GC_register_finalizer(make(i, 0), add_up, make(1, 0), 0, 0);
}

static struct thing *held_by_data;
static void make_self_data(void) {
    for (int i = 0; i < COUNT; i++) {
        struct thing *thing = make(i, 0);
        GC_register_finalizer(thing, on_death, thing, 0, 0);
    }
}

static void data(void) {
    died = wrong = 0;
    below(make_with_data);
    collect_well();
    CHECK(sum == died && MOST(died, COUNT));
    CHECK(wrong == 0);
    died = 0;
    below(make_self_data);
    collect_well();
    printf("objects that are their finalizer's data are never finalized\n");
    CHECK(died == 0);
    held_by_data = 0;
}

/* The objects that an object with an unordered finalizer refers to are still there when the finalizer is
called. */
static void look_behind(void *object, void *data) {
    struct thing *thing = object;
    died++;
    wrong += !thing->next || thing->next->check != 4711 || thing->next->value != (intptr_t)data;
}

static void make_trees(void) {
    for (long i = 0; i < COUNT; i++) {
        struct thing *thing = make(i, 0);
        thing->next = make(i, 0);
        GC_register_finalizer_no_order(thing, look_behind, (void *)i, 0, 0);
    }
}

static int unreachables, unordered;
static void on_unordered(void *object, void *data) { unordered++; }
static void on_unreachable(void *object, void *data) { unreachables++; }

static void make_mixed(void) {
    for (long i = 0; i < COUNT; i++) {
        struct thing *a = make(i, 0), *b = make(i, 0);
        a->next = b;
        GC_register_finalizer_no_order(a, on_unordered, 0, 0, 0);
        GC_register_finalizer_unreachable(b, on_unreachable, 0, 0, 0);
    }
}

static void mixed(void) {
    CHECK(GC_get_java_finalization() == 1);
    below(make_mixed);
    collect();
    GC_invoke_finalizers();
    CHECK(MOST(unordered, COUNT));
    CHECK(FEW(unreachables, COUNT));
    collect_well();
    CHECK(MOST(unreachables, COUNT));
}

static void at_the_end(void) {
    struct thing *volatile alive = make(77, 0);
    struct thing *volatile second = make(78, 0);
    GC_register_finalizer(alive, on_end, (void *)77, 0, 0);
    GC_register_finalizer_no_order(second, on_end, (void *)78, 0, 0);
    alive->next = second;
    GC_finalize_all();
    SHOW(at_end);
    CHECK(alive->check == 4711 && second->check == 4711);
    died = 0;
    GC_finalize_all();
    SHOW(at_end);
    CHECK(died == 0);
}

/* Finalizers that run inside others: the depth of each of the first LOOK ones. */
#define LOOK 60
static int begun, depth, depths[LOOK];
static jmp_buf out;

static void collects(void *object, void *data) {
    depth++;
    if (begun < LOOK)
        depths[begun] = depth;
    begun++;
    GC_gcollect();
    depth--;
}

static void jumps(void *object, void *data) {
    begun++;
    longjmp(out, 1);
}

static void make_nested(void) {
    for (int i = 0; i < 100; i++)
        GC_register_finalizer_no_order(GC_malloc(16), collects, 0, 0, 0);
}

static void make_jumping(void) {
    for (int i = 0; i < 100; i++)
        GC_register_finalizer_no_order(GC_malloc(16), jumps, 0, 0, 0);
}

static void all_due(action make) {
    begun = 0;
    GC_set_finalize_on_demand(1);
    below(make);
    collect();
    GC_set_finalize_on_demand(0);
}

static void nested(void) {
    for (int i = 0; i < 2; i++) {
        all_due(make_nested);
        collect();
        CHECK(MOST(begun, 100) && begun <= 100);
        for (int j = 0; j < LOOK; j++)
            printf("%d%c", depths[j], j + 1 < LOOK ? ' ' : '\n');
        SHOW(depth);
    }
}

/* A finalizer that is left by longjmp: after that others are called less and less often, but they are
called. */
static void left(void) {
    all_due(make_jumping);
    for (volatile int i = 0; i < 200; i++)
        if (setjmp(out) == 0)
            collect();
    SHOW(begun);
    while (GC_should_invoke_finalizers())
        if (setjmp(out) == 0)
            GC_invoke_finalizers();
    CHECK(MOST(begun, 100) && begun <= 100);
    /* Once a finalizer returns, they are called as often as before. */
    for (int i = 0; i < 2; i++) {
        all_due(make_nested);
        for (int j = 0; j < 300; j++)
            collect();
        CHECK(MOST(begun, 100) && begun <= 100);
        printf("%d %d %d %d\n", depths[0], depths[1], depths[2], depths[3]);
    }
}

static void quiet(char *message, GC_word argument) {}

int main(void) {
    GC_INIT();
    GC_set_warn_proc(quiet);
    ranks();
    replaced();
    resurrection();
    data();
    died = wrong = 0;
    below(make_trees);
    collect_well();
    CHECK(MOST(died, COUNT) && wrong == 0);
    mixed();
    nested();
    left();
    at_the_end();
    return 0;
}
