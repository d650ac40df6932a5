/* Code shared by the programs by which collectors are measured. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Memory without which the program cannot go on: it exits with 3 when an allocation fails. */
static inline void *need(void *memory)
{
    if (memory == NULL) {
        fprintf(stderr, "%s: out of memory\n", program_invocation_short_name);
        exit(3);
    }
    return memory;
}

/* The next number of a sequence (xorshift). The state is not 0. */
static inline uint64_t next(uint64_t *state)
{
    uint64_t x = *state;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return *state = x;
}
