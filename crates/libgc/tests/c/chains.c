/* Long chains of objects: all objects of a chain live as long as its head. */
#include "check.h"

/* A chain. The program keeps a reference to its first object only. */
struct node {
    struct node *next;
    long filler[3];
};
static struct node *chain;

static void make_chain(void) {
    for (long i = 0; i < 100000; i++) {
        struct node *node = GC_malloc(sizeof *node);
        node->next = chain;
        node->filler[0] = i;
        chain = node;
    }
}

static int chain_is_whole(void) {
    long expected = 100000;
    for (struct node *node = chain; node; node = node->next)
        if (node->filler[0] != --expected || node->filler[1] || node->filler[2])
            return 0;
    return expected == 0;
}

int main(void) {
    GC_INIT();
    below(make_chain);
    collect_well();
    CHECK(chain_is_whole());
    chain = 0;
    size_t before = GC_get_total_bytes();
    below(make_chain);
    chain = 0;
    collect_well();
    CHECK(GC_get_total_bytes() >= before + 100000 * sizeof(struct node));
    return 0;
}
