/* A program goes on while the kernel takes its pages. Each round writes to a few places of a large tree,
makes garbage, and collects. */
#include "sound.h"

int main(int count, char **arguments) {
    long depth = atol(arguments[1]), rounds = atol(arguments[2]);
    GC_INIT();
    live = tree(DEPTH, 0);
    struct node *large = tree((int)depth, 3);
    puts("begun");
    fflush(stdout);
    for (long round = 0; round < rounds; round++) {
        churn(4 << 20);
        /* Replaces a branch with an equal one. */
        struct node *at = large;
        int left = (int)depth;
        uint64_t number = 3;
        for (; left > 6; left--) {
            uint64_t half = ((uint64_t)1 << (left - 1)) - 1;
            if (round >> (left % 8) & 1) {
                at = at->right;
                number += half;
            } else
                at = at->left;
        }
        at->left = tree(left - 1, number);
        GC_gcollect();
        check_live();
    }
    if (!is_tree(large, (int)depth, 3))
        fail("the large tree");
    return sound();
}
