/* Lack of memory: objects of absurd sizes, objects larger than all memory, limits on address space and on
data, locked memory, and a process without free mappings. If there is no memory for an object, the program's
function for that case is called, and its result (null) is returned. Live objects stay as they are. */
#include "sound.h"
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>

static long asked;

static void *on_no_memory(size_t bytes) {
    asked++;
    return 0;
}

static void ignore(char *message, GC_word value) {}

static void absurd(void) {
    static const size_t sizes[] = {(size_t)1 << 40, (size_t)3 << 40, (size_t)1 << 46, (size_t)1 << 62,
                                   (size_t)-1,      (size_t)-4096,    (size_t)-1 / 2};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        asked = 0;
        if (GC_MALLOC(sizes[i]) || GC_MALLOC_ATOMIC(sizes[i]) || GC_MALLOC_UNCOLLECTABLE(sizes[i]) ||
            GC_REALLOC(GC_MALLOC(10), sizes[i]))
            fail("an object of an absurd size");
        if (asked != 4)
            fail("the program's function was not asked");
        churn(1 << 20);
        check_live();
    }
}

/* Number of resident pages. */
static long resident(void) {
    long all = 0, there = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%ld %ld", &all, &there) != 2)
        fail("statm");
    fclose(file);
    return there;
}

static int overcommit(void) {
    int mode = 0;
    FILE *file = fopen("/proc/sys/vm/overcommit_memory", "r");
    if (file && fscanf(file, "%d", &mode) != 1)
        mode = 0;
    if (file)
        fclose(file);
    return mode;
}

/* An object is refused, without taking memory, if the kernel would not map as much at once. A large object
that it would map is not. */
static void beyond(void) {
    struct sysinfo machine;
    if (overcommit() != 0 || sysinfo(&machine)) {
        puts("the kernel has no heuristic here");
        return;
    }
    size_t all = (machine.totalram + machine.totalswap) * (size_t)machine.mem_unit, gib = (size_t)1 << 30;
    if (all < 4 * gib)
        return;
    size_t heap = GC_get_heap_size();
    long pages = resident();
    asked = 0;
    for (int i = 0; i < 3; i++) {
        size_t size = all + gib + i * 8 * gib;
        if (GC_MALLOC_ATOMIC(size) || GC_malloc_atomic_ignore_off_page(size) ||
            GC_malloc_ignore_off_page(size) ||
            GC_MALLOC_UNCOLLECTABLE(size))
            fail("an object larger than all memory");
    }
    if (asked != 12)
        fail("the program's function was not asked");
    printf("%ld more pages, %ld more bytes\n", resident() - pages, (long)(GC_get_heap_size() - heap));
    if (resident() - pages > 2000 || GC_get_heap_size() > heap + (4 << 20))
        fail("what was refused takes memory");
    check_live();
    char *half = GC_malloc_atomic_ignore_off_page(all / 2);
    if (!half)
        fail("half of all memory");
    half[all / 2 - 1] = half[0] = 1;
    check_live();
}

static void *volatile large;

/* In a small cgroup without swap: a large object that is never touched must not make the collector allow a
larger heap, neither while it lives nor after its death. */
static void untouched(void) {
    large = GC_MALLOC_ATOMIC((size_t)2 << 30);
    if (!large)
        puts("no room for what is not touched");
    for (int i = 0; i < 12; i++) {
        if (i == 7)
            large = 0;
        churn(32 << 20);
        check_live();
    }
}

/* Allocates until there is no more memory, and returns the number of bytes. */
static __attribute__((noinline)) size_t take_all(void) {
    void **list = 0, **cell;
    long count = 0, seen = 0;
    asked = 0;
    while (count < 2000 && (cell = GC_MALLOC(200000)) != 0) {
        *cell = list;
        list = cell;
        count++;
    }
    if (asked != (count < 2000))
        fail("the program's function was not asked once");
    while (list) {
        cell = *list;
        *list = 0;
        list = cell;
        seen++;
    }
    if (seen != count || count < 10)
        fail("a list that took all memory");
    check_live();
    return count * 200000;
}

/* Drops all of that, and goes on. */
static void all_of_it(void) {
    for (int round = 0; round < 3; round++) {
        take_all();
        GC_gcollect();
        churn(4 << 20);
    }
}

static void limit(int what, rlim_t bytes) {
    struct rlimit limit = {bytes, bytes};
    if (setrlimit(what, &limit))
        fail("setrlimit");
}

static void *in_thread(void *argument) {
    struct node *mine = tree(6, 5);
    GC_gcollect();
    if (!is_tree(mine, 6, 5))
        fail("a thread's tree");
    return mine;
}

/* Maps single pages that the kernel cannot merge, until it allows no further mapping; then unmaps `back` of
them. */
static void take_mappings(int back) {
    enum { MOST = 1 << 20 };
    char *last = 0, *before[64] = {0};
    int count = 0;
    for (; count < MOST; count++) {
        char *page = mmap(0, 4096, count & 1 ? PROT_READ : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (page == MAP_FAILED)
            break;
        before[count % 64] = last = page;
    }
    if (count == MOST)
        fail("mappings have no end");
    for (int i = 0; i < back && 2 * i < count && last; i++)
        munmap(before[(count - 1 - 2 * i) % 64], 4096);
}

static void without_mappings(void) {
    take_mappings(0);
    asked = 0;
    for (int i = 0; i < 5; i++) {
        churn(4 << 20);
        GC_gcollect();
        check_live();
    }
    /* Each thread is created or not, but none runs without being registered. */
    int created = 0;
    for (int i = 0; i < 20; i++) {
        pthread_t thread;
        int error = GC_pthread_create(&thread, 0, in_thread, 0);
        void *result = 0;
        if (error == 0 && (GC_pthread_join(thread, &result) || !is_tree(result, 6, 5)))
            fail("what a thread returned");
        if (error != 0 && error != EAGAIN && error != ENOMEM)
            fail("an error of its own");
        created += error == 0;
        take_mappings(i % 8);
    }
    printf("%d threads without mappings\n", created);
    all_of_it();
}

/* Objects get most of a limit on data: metadata is not made in advance for a heap that cannot become so
large. */
static void data(rlim_t bytes) {
    limit(RLIMIT_DATA, bytes);
    GC_INIT();
    GC_set_oom_fn(on_no_memory);
    live = tree(DEPTH, 0);
    size_t taken = take_all();
    printf("%zu MB of data\n", taken >> 20);
    if (taken < bytes / 8 * 5)
        fail("a limit on data left little for objects");
    all_of_it();
}

/* In a small cgroup, with all mappings populated and locked. */
static void locked(void) {
    if (mlockall(MCL_CURRENT))
        printf("not locked: %s\n", strerror(errno));
    for (int i = 0; i < 5; i++) {
        churn(8 << 20);
        GC_gcollect();
        check_live();
    }
}

int main(int count, char **arguments) {
    GC_set_warn_proc(ignore);
    char what = arguments[1][0];
    rlim_t most = (rlim_t)atol(arguments[1] + 1) << 20;
    if (what == 'd') {
        data(most);
        return sound();
    }
    if (what == 'l')
        limit(RLIMIT_AS, most);
    GC_INIT();
    GC_set_oom_fn(on_no_memory);
    live = tree(DEPTH, 0);
    if (what == 'a')
        absurd();
    else if (what == 'b')
        beyond();
    else if (what == 'u')
        untouched();
    else if (what == 'p')
        locked();
    else if (what == 'm')
        without_mappings();
    else {
        all_of_it();
        pthread_t thread;
        void *result = 0;
        if (GC_pthread_create(&thread, 0, in_thread, 0) == 0 &&
            (GC_pthread_join(thread, &result) || !is_tree(result, 6, 5)))
            fail("what a thread returned");
    }
    return sound();
}
