/* cache: a program that queries a database and caches the results (Walfield, section 5.3).
 *
 *   cache QUERIES OBJECT-BYTES POLICY [KEYS [MEAN-RANK [SEED]]]
 *
 * POLICY is the number of entries of a fixed cache, which drops the fifth that was used least lately when it
 * has more; `paper`, which releases to 7/8 of what is available under pressure; or `adaptive`, which gives
 * back what is owed, keeps what is used most, and tells the broker what memory is worth to it.
 *
 * The database is SQLite's, in memory: three temporary tables of a key and a value, 1024 rows each. A query
 * selects a row of the first, then one of the second joined with the third, ten times. Its object has
 * OBJECT-BYTES bytes (5 MB in the paper), all of which are written. Keys are drawn from KEYS (1000) by an
 * exponential distribution of MEAN-RANK (100; the paper does not print it, but this gives its hit rates).
 *
 * Prints one JSON object per line, about twice a second: "work" counts queries. The last one also has the
 * seconds that all of it took. */
#define _GNU_SOURCE
#include <math.h>
#include <plimsoll.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { ROWS = 1024, ROUNDS = 10 };

struct entry {
    struct entry *newer, *older;
    unsigned char *object;
    uint32_t uses; /* how often it was asked for lately, also while it was not cached */
};

static struct {
    struct entry *entries; /* one for each key */
    struct entry ends;     /* its `older` was used last, its `newer` longest ago */
    uint64_t cached;       /* entries with an object */
    uint64_t keys, object; /* number of keys, bytes of an object */
    uint64_t asked;        /* queries since the counts of uses were halved */
    plimsoll *principal;   /* NULL if the cache is fixed */
    plimsoll_ghost *ghost; /* NULL unless it tells what memory is worth */
} cache;

static void fail(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    fputs("cache: ", stderr);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    exit(3);
}

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* xorshift64*: a number in (0, 1]. */
static double draw(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return ((double)((*state * 0x2545F4914F6CDD1Du) >> 11) + 1.0) / 9007199254740992.0;
}

static uint64_t draw_key(uint64_t *state, double mean)
{
    uint64_t rank;
    do
        rank = (uint64_t)(-mean * log(draw(state)));
    while (rank >= cache.keys);
    return rank;
}

/* The database, and its two selects. */
static sqlite3 *database;
static sqlite3_stmt *first, *joined;

static void run(const char *text)
{
    if (sqlite3_exec(database, text, NULL, NULL, NULL) != SQLITE_OK)
        fail("%s: %s", text, sqlite3_errmsg(database));
}

static sqlite3_stmt *prepare(const char *text)
{
    sqlite3_stmt *statement;
    if (sqlite3_prepare_v2(database, text, -1, &statement, NULL) != SQLITE_OK)
        fail("%s: %s", text, sqlite3_errmsg(database));
    return statement;
}

static void make_database(void)
{
    static const char *const tables[] = {"a", "b", "c"};
    if (sqlite3_open(":memory:", &database) != SQLITE_OK)
        fail("no database: %s", sqlite3_errmsg(database));
    for (int i = 0; i < 3; i++) {
        char text[200];
        snprintf(text, sizeof text, "CREATE TEMP TABLE %s (key INTEGER, value INTEGER)", tables[i]);
        run(text);
        snprintf(text, sizeof text,
                 "WITH RECURSIVE n(i) AS (VALUES(0) UNION ALL SELECT i + 1 FROM n WHERE i < %d) "
                 "INSERT INTO %s SELECT i, (i * %d + 7) %% %d FROM n",
                 ROWS - 1, tables[i], 5 + 2 * i, ROWS);
        run(text);
    }
    first = prepare("SELECT value FROM a WHERE key = ?");
    joined = prepare("SELECT c.value FROM b JOIN c ON b.value = c.key WHERE b.key = ?");
}

/* The only value of the only row that a select yields for a key. */
static int64_t select_one(sqlite3_stmt *statement, int64_t key)
{
    sqlite3_bind_int64(statement, 1, key);
    if (sqlite3_step(statement) != SQLITE_ROW)
        fail("no row for key %lld: %s", (long long)key, sqlite3_errmsg(database));
    int64_t value = sqlite3_column_int64(statement, 0);
    sqlite3_reset(statement);
    return value;
}

/* Computes the object of a key. Its memory goes back to the kernel at once when it is dropped. */
static unsigned char *compute(uint64_t key)
{
    int64_t value = (int64_t)(key % ROWS);
    for (int i = 0; i < ROUNDS; i++)
        value = select_one(joined, select_one(first, value));
    unsigned char *object = mmap(NULL, cache.object, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (object == MAP_FAILED)
        fail("no memory for an object");
    memset(object, (int)(value & 255) | 1, cache.object);
    return object;
}

static void unlink_entry(struct entry *entry)
{
    entry->newer->older = entry->older;
    entry->older->newer = entry->newer;
}

static void make_newest(struct entry *entry)
{
    entry->older = cache.ends.older;
    entry->newer = &cache.ends;
    entry->older->newer = entry;
    cache.ends.older = entry;
}

static void drop(struct entry *entry)
{
    unlink_entry(entry);
    munmap(entry->object, cache.object);
    entry->object = NULL;
    cache.cached--;
    if (cache.ghost != NULL)
        plimsoll_ghost_evicted(cache.ghost, (uint64_t)(entry - cache.entries), cache.object,
                               cache.cached * cache.object);
}

/* The victim: asked for least often lately, and among such the one that was used longest ago. */
static struct entry *least_used(void)
{
    struct entry *least = cache.ends.newer;
    for (struct entry *entry = least; entry != &cache.ends; entry = entry->newer)
        if (entry->uses < least->uses)
            least = entry;
    return least;
}

/* Drops as many entries as take up `bytes`, and returns the bytes that were freed. */
static uint64_t free_bytes(uint64_t bytes, bool by_uses)
{
    uint64_t freed = 0;
    for (; freed < bytes && cache.cached > 0; freed += cache.object)
        drop(by_uses ? least_used() : cache.ends.newer);
    return freed;
}

/* A fixed cache: discards a fifth when it has more than `most` entries. */
static void keep_fixed(uint64_t most)
{
    if (cache.cached > most)
        free_bytes((most + 4) / 5 * cache.object, false);
}

/* The paper's adaptive cache: under pressure it releases until the program uses 7/8 of what is available. */
static void keep_as_the_paper(void)
{
    plimsoll_numbers numbers;
    plimsoll_read(cache.principal, &numbers);
    bool pressure = numbers.owed > 0 || numbers.uses + cache.object > numbers.available;
    uint64_t goal = numbers.available / 8 * 7;
    if (pressure && numbers.uses > goal)
        plimsoll_released(cache.principal, free_bytes(numbers.uses - goal, false));
}

/* Gives back what is owed. */
static void give_back(void)
{
    plimsoll_numbers numbers;
    plimsoll_read(cache.principal, &numbers);
    if (numbers.owed > 0)
        plimsoll_released(cache.principal, free_bytes(numbers.owed, true));
}

/* Whether an entry may be kept: in memory that is granted, or in the place of one that is used less. */
static bool may_keep(const struct entry *entry)
{
    plimsoll_numbers numbers;
    plimsoll_read(cache.principal, &numbers);
    /* Its object is there already, and may not be counted yet. */
    if (numbers.uses + 2 * cache.object <= numbers.limit)
        return true;
    struct entry *least = least_used();
    if (least == &cache.ends || least->uses > entry->uses)
        return false;
    drop(least);
    return true;
}

static void report(void)
{
    static uint64_t next;
    plimsoll_known known = PLIMSOLL_KNOWN_INIT;
    if (now() < next)
        return;
    next = now() + 1000000000u;
    plimsoll_numbers numbers;
    plimsoll_read(cache.principal, &numbers);
    uint64_t used = cache.cached * cache.object;
    uint64_t beside = numbers.uses > used ? numbers.uses - used : 0;
    known.demand = beside + cache.keys * cache.object;
    known.floor = beside + cache.object;
    known.worth = plimsoll_ghost_worth(cache.ghost);
    plimsoll_report(cache.principal, &known);
}

/* Counts of uses fade, so that keys that were popular once go. */
static void fade(void)
{
    if (++cache.asked < 20 * cache.keys)
        return;
    cache.asked = 0;
    for (uint64_t i = 0; i < cache.keys; i++)
        cache.entries[i].uses /= 2;
}

/* One query. Returns whether it was a hit. */
static bool query(uint64_t key, uint64_t fixed, bool adaptive)
{
    struct entry *entry = &cache.entries[key];
    entry->uses++;
    fade();
    if (adaptive)
        give_back();
    if (entry->object != NULL) {
        unlink_entry(entry);
        make_newest(entry);
        return true;
    }
    uint64_t begun = now();
    unsigned char *object = compute(key);
    if (cache.ghost != NULL)
        plimsoll_ghost_missed(cache.ghost, key, now() - begun);
    if (adaptive && !may_keep(entry)) {
        munmap(object, cache.object);
        return false;
    }
    entry->object = object;
    make_newest(entry);
    cache.cached++;
    if (fixed > 0)
        keep_fixed(fixed);
    else if (!adaptive)
        keep_as_the_paper();
    return false;
}

static void tell(uint64_t work, uint64_t hits, uint64_t begun)
{
    printf("{\"work\": %llu, \"hits\": %llu, \"bytes\": %llu, \"seconds\": %.3f}\n",
           (unsigned long long)work, (unsigned long long)hits,
           (unsigned long long)(cache.cached * cache.object), (double)(now() - begun) / 1e9);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    if (argc < 4 || atoll(argv[1]) < 1 || atoll(argv[2]) < 1) {
        fputs("usage: cache QUERIES OBJECT-BYTES ENTRIES|paper|adaptive [KEYS [MEAN-RANK [SEED]]]\n",
              stderr);
        return 2;
    }
    uint64_t queries = (uint64_t)atoll(argv[1]), fixed = strtoull(argv[3], NULL, 10);
    bool adaptive = strcmp(argv[3], "adaptive") == 0;
    cache.object = (uint64_t)atoll(argv[2]);
    cache.keys = argc > 4 ? (uint64_t)atoll(argv[4]) : 1000;
    double mean = argc > 5 ? atof(argv[5]) : 100;
    uint64_t state = 0x9E3779B97F4A7C15u * (argc > 6 ? (uint64_t)atoll(argv[6]) : 1) | 1;
    if (fixed == 0 && !adaptive && strcmp(argv[3], "paper") != 0)
        fail("there is no policy `%s`", argv[3]);
    cache.entries = calloc(cache.keys, sizeof *cache.entries);
    cache.ends.newer = cache.ends.older = &cache.ends;
    make_database();
    if (fixed == 0 && (cache.principal = plimsoll_open("cache", NULL)) == NULL)
        fail("%s", plimsoll_error());
    if (adaptive)
        cache.ghost = plimsoll_ghost_new();
    uint64_t hits = 0, begun = now(), next = begun;
    for (uint64_t i = 0; i < queries; i++) {
        if (now() >= next) {
            next += 500000000u;
            tell(i, hits, begun);
        }
        hits += query(draw_key(&state, mean), fixed, adaptive);
        if (adaptive)
            report();
    }
    tell(queries, hits, begun);
    plimsoll_close(cache.principal);
    return 0;
}
