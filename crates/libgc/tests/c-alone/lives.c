/* Lives on while the kernel takes its pages: a large tree that is written to here and there, garbage, and a collection per round. */
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
        /* A branch is replaced by one like it. */
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
