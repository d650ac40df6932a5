/* Incremental mode: programs that ask for it must work, whether or not the collector then collects
incrementally. */
#include "check.h"

struct node {
    struct node *next, *other;
    long number;
};

static struct node *lists[16];
static long bad;

static void churn(void) {
    for (int round = 0; round < 200; round++) {
        struct node *list = 0;
        for (long i = 0; i < 1000; i++) {
            struct node *node = GC_malloc(sizeof *node);
            bad += node->next || node->number;
            node->next = list;
            node->number = i;
            GC_END_STUBBORN_CHANGE(node);
            GC_reachable_here(list);
            list = node;
        }
        /* Stores references to new objects in old ones. */
        struct node *old = lists[round % 16];
        if (old)
            GC_PTR_STORE_AND_DIRTY(&old->other, list);
        lists[(round * 7 + 3) % 16] = list;
        GC_collect_a_little();
    }
    for (int i = 0; i < 16; i++) {
        long expected = 1000;
        for (struct node *node = lists[i]; node; node = node->next)
            bad += node->number != --expected;
        bad += lists[i] && expected != 0;
        if (lists[i] && lists[i]->other) {
            expected = 1000;
            for (struct node *node = lists[i]->other; node; node = node->next)
                bad += node->number != --expected;
            bad += expected != 0;
        }
    }
}

static int died;
static void on_death(void *object, void *data) { died++; }
static void make(void) {
    for (int i = 0; i < 100; i++)
        GC_register_finalizer(GC_malloc(40), on_death, 0, 0, 0);
}

int main(void) {
    GC_set_time_limit(5);
    GC_enable_incremental();
    CHECK(GC_is_init_called() != 0);
    churn();
    CHECK(bad == 0);
    for (int i = 0; i < 5; i++) {
        GC_start_incremental_collection();
        while (GC_collect_a_little())
            ;
    }
    churn();
    CHECK(bad == 0);
    below(make);
    collect_well();
    CHECK(MOST(died, 100));
    GC_enable_incremental();
    GC_gcollect();
    int needs = GC_incremental_protection_needs();
    CHECK(needs >= GC_PROTECTS_NONE && needs <= (GC_PROTECTS_POINTER_HEAP | GC_PROTECTS_PTRFREE_HEAP));
    int mode = GC_is_incremental_mode();
    CHECK(mode == 0 || mode == 1);
    GC_word before = GC_get_gc_no();
    GC_gcollect();
    CHECK(GC_get_gc_no() > before);
    return 0;
}
