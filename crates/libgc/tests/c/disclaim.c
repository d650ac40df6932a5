/* Cheap finalizers, and procedures that the collector calls before it uses the memory of an object again. */
#include "check.h"
#include <gc/gc_disclaim.h>
#include <gc/gc_mark.h>

#define COUNT 1000
struct thing {
    long value, check;
    struct thing *other;
};

static int died, wrong, lost;
static intptr_t question;

static void on_death(void *object, void *data) {
    struct thing *thing = object;
    died++;
    wrong += thing->check != 99 || data != &question;
    /* The object that it refers to is still there. */
    lost += thing->other && thing->other->check != 98;
}

static struct GC_finalizer_closure closure = {on_death, &question};

static void make(void) {
    for (long i = 0; i < COUNT; i++) {
        struct thing *thing = GC_finalized_malloc(sizeof *thing, &closure);
        wrong += thing->value || thing->check || thing->other;
        wrong += (uintptr_t)thing % sizeof(void *) != 0 ||
                 GC_size(GC_base(thing)) < sizeof *thing + sizeof(void *);
        wrong += GC_base(thing) != (void *)((void **)thing - 1);
        thing->value = i;
        thing->check = 99;
        thing->other = GC_malloc(sizeof *thing);
        thing->other->check = 98;
    }
}

static struct thing *kept[COUNT];

static void make_kept(void) {
    for (long i = 0; i < COUNT; i++) {
        kept[i] = GC_finalized_malloc(sizeof **kept, &closure);
        kept[i]->check = 99;
    }
}

static void make_large(void) {
    for (long i = 0; i < 50; i++) {
        struct thing *thing = GC_finalized_malloc(40000, &closure);
        thing->check = 99;
    }
}

/* Allocates, so that lazy sweeping reaches all dead objects. */
static void churn(void) {
    for (int i = 0; i < 3 * COUNT; i++) {
        struct thing *thing = GC_finalized_malloc(sizeof *thing, &closure);
        thing->check = 99;
    }
    for (int i = 0; i < 20000; i++)
        GC_malloc(sizeof(struct thing) + 8);
}

static void settle(void) {
    for (int i = 0; i < 4; i++) {
        collect();
        below(churn);
    }
}

/* A kind of our own: its procedure sees objects with their old contents, and may keep them. */
static int asked, keeping, kept_count;

struct own {
    GC_word tag;
    long number;
};

static unsigned own_kind;

static int own_disclaim(void *object) {
    struct own *own = object;
    if (own->tag != 1)
        return 0; /* nobody's place */
    asked++;
    if (keeping) {
        kept_count++;
        return 1;
    }
    wrong += own->number != 4242;
    own->tag = 0;
    return 0;
}

static void make_own(void) {
    for (int i = 0; i < COUNT; i++) {
        struct own *own = GC_generic_malloc(sizeof *own, (int)own_kind);
        own->number = 4242;
        own->tag = 1;
    }
}

static void own_churn(void) {
    for (int i = 0; i < 5 * COUNT; i++) {
        struct own *own = GC_generic_malloc(sizeof *own, (int)own_kind);
        own->tag = 2;
    }
}

static void freed(void) {
    for (int i = 0; i < COUNT; i++) {
        struct own *own = GC_generic_malloc(sizeof *own, (int)own_kind);
        own->number = 4242;
        own->tag = 1;
        own->tag = 2;
        GC_free(own);
    }
}

int main(void) {
    GC_INIT();
    GC_init_finalized_malloc();
    GC_init_finalized_malloc();
    below(make);
    settle();
    CHECK(MOST(died, COUNT));
    CHECK(wrong == 0);
    CHECK(lost == 0);
    below(make_kept);
    died = 0;
    int good = 1;
    GC_gcollect();
    for (int i = 0; i < COUNT; i++)
        good &= kept[i]->check == 99;
    CHECK(good);
    memset(kept, 0, sizeof kept);
    settle();
    CHECK(MOST(died, COUNT));
    died = 0;
    below(make_large);
    settle();
    CHECK(died >= 45);
    CHECK(wrong == 0);

    own_kind = GC_new_kind(GC_new_free_list(), GC_DS_LENGTH, 1, 1);
    GC_register_disclaim_proc((int)own_kind, own_disclaim, 0);
    below(make_own);
    for (int i = 0; i < 3; i++) {
        collect();
        below(own_churn);
    }
    CHECK(MOST(asked, COUNT));
    CHECK(asked <= COUNT);
    CHECK(wrong == 0);
    asked = 0;
    keeping = 1;
    below(make_own);
    for (int i = 0; i < 3; i++) {
        collect();
        below(own_churn);
    }
    CHECK(asked > 0 && asked == kept_count);
    /* The procedure is called again for objects that it kept. */
    keeping = 0;
    asked = 0;
    for (int i = 0; i < 3; i++) {
        collect();
        below(own_churn);
    }
    CHECK(MOST(asked, COUNT));
    CHECK(wrong == 0);
    asked = 0;
    below(freed);
    collect();
    below(own_churn);
    CHECK(asked == 0);
    return 0;
}
