/* keep: keeps memory in the client's hands: keep MIB. Fills so many blocks, says so, and gives back what is
 * owed. */
#define _GNU_SOURCE
#include <plimsoll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { MIB = 1 << 20, READS = 5000000 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

int main(int argc, char **argv)
{
    plimsoll_options options = PLIMSOLL_OPTIONS_INIT;
    plimsoll_numbers numbers;
    uint64_t count = argc > 1 ? strtoull(argv[1], NULL, 10) : 0, kept = count;
    plimsoll *principal;
    options.adapter = "self";
    if (count == 0 || (principal = plimsoll_open("keep", &options)) == NULL) {
        fprintf(stderr, "keep: %s\n", count == 0 ? "usage: keep MIB" : plimsoll_error());
        return 2;
    }
    double begun = now();
    for (int i = 0; i < READS; i++)
        plimsoll_read(principal, &numbers);
    printf("{\"read_ns\": %.1f}\n", (now() - begun) / READS);
    unsigned char *memory =
        mmap(NULL, count * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return 3;
    memset(memory, 1, count * MIB);
    printf("{\"ready\": %llu}\n", (unsigned long long)(count * MIB));
    fflush(stdout);
    for (;;) {
        if (plimsoll_wait(principal, 60000, &numbers) != PLIMSOLL_OWED)
            continue;
        uint64_t drop = (numbers.owed + MIB - 1) / MIB;
        drop = drop < kept ? drop : kept;
        kept -= drop;
        munmap(memory + kept * MIB, drop * MIB);
        plimsoll_released(principal, drop * MIB);
    }
}
