/* A cache that follows its limit: it fills itself up to the limit, and gives back what it owes.
 *
 *     cc cache.c -lplimsoll -o cache && ./cache 60
 *
 * The argument is how many seconds to run.
 */
#include <plimsoll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BLOCK ((size_t)1 << 20)
#define MOST 4096

static char *blocks[MOST];
static size_t count;

/* Adds a block. The block is written to, so that it is resident. */
static int grow(void)
{
    if (count == MOST || (blocks[count] = malloc(BLOCK)) == NULL)
        return 0;
    memset(blocks[count++], 1, BLOCK);
    return 1;
}

/* Gives back at least this many bytes, if the cache has them. Returns how many it gave back. */
static uint64_t shrink(uint64_t bytes)
{
    uint64_t freed = 0;
    while (count > 0 && freed < bytes) {
        free(blocks[--count]);
        freed += BLOCK;
    }
    return freed;
}

int main(int argc, char **argv)
{
    time_t end = time(NULL) + (argc > 1 ? atoi(argv[1]) : 60);
    plimsoll *principal = plimsoll_open("example-cache", NULL);
    if (principal == NULL) {
        fprintf(stderr, "cache: %s\n", plimsoll_error());
        return 1;
    }
    while (time(NULL) < end) {
        plimsoll_numbers now;
        int event = plimsoll_wait(principal, 20, &now);
        if (event < 0) {
            fprintf(stderr, "cache: %s\n", plimsoll_error());
            break;
        }
        if (now.owed > 0)
            plimsoll_released(principal, shrink(now.owed));
        else if (now.uses + 2 * BLOCK < now.limit)
            grow();
        if (now.owed > 0 || event != PLIMSOLL_TIMEOUT) {
            printf("limit %llu MiB, owed %llu MiB, cached %zu MiB, from %s\n",
                   (unsigned long long)now.limit >> 20, (unsigned long long)now.owed >> 20, count,
                   now.source == PLIMSOLL_LOCAL ? "local sensing" : "the broker");
            fflush(stdout);
        }
    }
    shrink(UINT64_MAX);
    plimsoll_close(principal);
    return 0;
}
