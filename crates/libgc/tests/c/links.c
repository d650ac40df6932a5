/* Disappearing links, short and long: the results of registering, moving and removing them, and when they are
cleared. */
#include "check.h"

#define COUNT 300
static GC_hidden_pointer *words; /* in malloc's memory, which is no root */
static int died;

static void on_death(void *object, void *data) { died++; }

static void **at(int i) { return (void **)&words[i]; }

static int cleared(void) {
    int count = 0;
    for (int i = 0; i < COUNT; i++)
        count += words[i] == 0;
    return count;
}

static int finalized, lengthy;

static void make(void) {
    for (int i = 0; i < COUNT; i++) {
        void *object = GC_malloc(32);
        words[i] = GC_HIDE_POINTER(object);
        if (lengthy)
            GC_register_long_link(at(i), object);
        else
            GC_general_register_disappearing_link(at(i), object);
        if (finalized)
            GC_register_finalizer(object, on_death, 0, 0, 0);
    }
}

static void forget_all(void) {
    for (int i = 0; i < COUNT; i++) {
        GC_unregister_disappearing_link(at(i));
        GC_unregister_long_link(at(i));
        words[i] = 0;
    }
}

static void results(void) {
    void *volatile a = GC_malloc(16), *volatile b = GC_malloc(16);
    SHOW(GC_general_register_disappearing_link(at(0), a));
    SHOW(GC_general_register_disappearing_link(at(0), a));
    SHOW(GC_general_register_disappearing_link(at(0), b));
    SHOW(GC_general_register_disappearing_link(at(1), a));
    SHOW(GC_move_disappearing_link(at(0), at(1)));
    SHOW(GC_move_disappearing_link(at(0), at(0)));
    SHOW(GC_move_disappearing_link(at(0), at(2)));
    SHOW(GC_move_disappearing_link(at(0), at(3)));
    SHOW(GC_move_disappearing_link(at(4), at(4)));
    SHOW(GC_unregister_disappearing_link(at(0)));
    SHOW(GC_unregister_disappearing_link(at(1)));
    SHOW(GC_unregister_disappearing_link(at(2)));
    SHOW(GC_unregister_disappearing_link(at(2)));
    SHOW(GC_register_long_link(at(0), a));
    SHOW(GC_register_long_link(at(0), b));
    SHOW(GC_general_register_disappearing_link(at(0), a));
    SHOW(GC_move_long_link(at(0), at(1)));
    SHOW(GC_move_long_link(at(1), at(1)));
    SHOW(GC_move_long_link(at(0), at(2)));
    SHOW(GC_register_long_link(at(2), b));
    SHOW(GC_move_long_link(at(1), at(2)));
    SHOW(GC_unregister_long_link(at(0)));
    SHOW(GC_unregister_long_link(at(1)));
    SHOW(GC_unregister_long_link(at(2)));
    SHOW(GC_unregister_disappearing_link(at(0)));
    SHOW(GC_unregister_disappearing_link((void **)((char *)words + 3)));
    SHOW(GC_unregister_long_link((void **)((char *)words + 3)));
    GC_reachable_here(a);
    GC_reachable_here(b);
}

static void deaths(void) {
    for (int kind = 0; kind < 4; kind++) {
        lengthy = kind & 1;
        finalized = kind & 2;
        forget_all();
        died = 0;
        below(make);
        CHECK(cleared() == 0);
        /* Without on-demand finalization the finalizers run in this collection, after links were cleared. */
        collect();
        printf("%s links, %s finalizers, after the first collection: %s; ", lengthy ? "long" : "short",
               finalized ? "with" : "without",
               MOST(cleared(), COUNT) ? "cleared" : FEW(cleared(), COUNT) ? "kept" : "some");
        collect_well();
        printf("later: %s\n", MOST(cleared(), COUNT) ? "cleared" : FEW(cleared(), COUNT) ? "kept" : "some");
        if (finalized)
            CHECK(MOST(died, COUNT));
    }
}

static void *held[COUNT];

static void make_held(void) {
    for (int i = 0; i < COUNT; i++) {
        held[i] = GC_malloc(32);
        words[i] = GC_HIDE_POINTER(held[i]);
        GC_general_register_disappearing_link(at(i), held[i]);
    }
}

static void lives(void) {
    forget_all();
    below(make_held);
    collect_well();
    CHECK(cleared() == 0);
    for (int i = 0; i < COUNT; i += 2)
        GC_unregister_disappearing_link(at(i));
    memset(held, 0, sizeof held);
    collect_well();
    int odd = 0, even = 0;
    for (int i = 0; i < COUNT; i++)
        *(i % 2 ? &odd : &even) += words[i] == 0;
    CHECK(MOST(odd, COUNT / 2));
    CHECK(even == 0);
}

/* If a link is registered for several objects, the last one counts. */
static void *second;
static void register_twice(void) {
    void *first = GC_malloc(32);
    second = GC_malloc(32);
    words[0] = 1;
    words[1] = 1;
    GC_general_register_disappearing_link(at(0), first);
    GC_general_register_disappearing_link(at(0), second);
    GC_general_register_disappearing_link(at(1), second);
    GC_general_register_disappearing_link(at(1), first);
}

static void registered_twice(void) {
    forget_all();
    below(register_twice);
    collect_well();
    CHECK(words[0] == 1);
    CHECK(words[1] == 0);
    second = 0;
    collect_well();
    CHECK(words[0] == 0);
}

static void moves(void) {
    forget_all();
    lengthy = finalized = 0;
    below(make);
    int moved = 0;
    for (int i = 0; i < COUNT / 2; i++) {
        moved += GC_unregister_disappearing_link(at(i + COUNT / 2));
        words[i + COUNT / 2] = 7;
        moved += GC_move_disappearing_link(at(i), at(i + COUNT / 2)) == GC_SUCCESS;
    }
    CHECK(moved == COUNT);
    collect_well();
    int low = 0, high = 0;
    for (int i = 0; i < COUNT / 2; i++) {
        low += words[i] == 0;
        high += words[i + COUNT / 2] == 0;
    }
    CHECK(low == 0);
    CHECK(MOST(high, COUNT / 2));
}

struct cell {
    struct cell *next;
    struct cell *weak;
};
static struct cell *all;

/* GC_register_disappearing_link registers a link for the object that contains it. */
static void inside(void) {
    struct cell *cell = GC_malloc(sizeof *cell);
    cell->weak = cell;
    SHOW(GC_register_disappearing_link((void **)&cell->weak));
    SHOW(GC_register_disappearing_link((void **)&cell->weak));
    all = cell;
}

/* A cycle of objects with finalizers that a disappearing link breaks. */
static void broken_cycles(void) {
    for (int i = 0; i < COUNT; i++) {
        struct cell *a = GC_malloc(sizeof *a), *b = GC_malloc(sizeof *b);
        a->next = b;
        b->weak = a;
        GC_register_finalizer(a, on_death, 0, 0, 0);
        GC_register_finalizer(b, on_death, 0, 0, 0);
        GC_general_register_disappearing_link((void **)&b->weak, a);
    }
}

/* A link in a dead object is forgotten, so that nothing is written to the object that takes its place. */
static void links_in_dead(void) {
    for (int i = 0; i < COUNT; i++) {
        struct cell *cell = GC_malloc(sizeof *cell);
        cell->weak = (void *)GC_HIDE_POINTER(held[i]);
        GC_general_register_disappearing_link((void **)&cell->weak, held[i]);
    }
}

static int changed;
static void fill_places(void) {
    struct cell *cells[COUNT * 2];
    for (int i = 0; i < COUNT * 2; i++) {
        cells[i] = GC_malloc(sizeof(struct cell));
        cells[i]->weak = (void *)0x1111;
    }
    memset(held, 0, sizeof held);
    collect_well();
    for (int i = 0; i < COUNT * 2; i++)
        changed += cells[i]->weak != (void *)0x1111;
}

int main(int count, char **arguments) {
    GC_INIT();
    if (count > 1) {
        void *link = GC_malloc(10), **odd = (void **)3;
        switch (arguments[1][0]) {
        case '0': GC_register_disappearing_link(&link); break;
        case '1': GC_general_register_disappearing_link(odd, link); break;
        case '2': GC_register_long_link(odd, link); break;
        case '3': GC_register_disappearing_link((void **)((char *)link + 3)); break;
        case '4': GC_move_disappearing_link(&link, odd); break;
        case '5': GC_move_long_link(&link, odd); break;
        }
        return 0;
    }
    words = calloc(COUNT, sizeof *words);
    results();
    deaths();
    lives();
    registered_twice();
    moves();
    below(inside);
    all = 0;
    died = 0;
    below(broken_cycles);
    collect_well();
    CHECK(MOST(died, 2 * COUNT));
    forget_all();
    below(make_held);
    forget_all();
    below(links_in_dead);
    collect_well();
    below(fill_places);
    CHECK(changed == 0);
    printf("links that are in no object, or no words\n");
    for (int i = 0; i < 6; i++) {
        char which[] = {(char)('0' + i), 0}, said[1000];
        int status = again(which, said, sizeof said);
        printf("%d, ended with %d\n%s", i, status, said);
    }
    return 0;
}
