/* Plays a virtual machine that loads the agent: fakejvm LIBRARY WAY. Its tables for debuggers are wrong in
 * the way named; in the ways "right", "g1-right", "nested" and "twice" they are right. In "nested" it tells
 * of each pause within another one, and in "twice" the agent is loaded twice. Tables and structures are
 * read-only: who writes to them ends it. Prints the result of loading, the number of pauses and that of
 * environments given up. For each byte of its standard input it plays one more pause, and prints how many
 * bytes of objects have changed. Ends with its standard input. */

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef struct {
    const char *type, *field, *kind;
    int32_t is_static;
    uint64_t offset;
    void *address;
} struct_entry;

typedef struct {
    const char *type, *super;
    int32_t a, b, c;
    uint64_t size;
} type_entry;

typedef struct {
    void *value;
    const char *name;
} flag;

typedef struct {
    const char *name;
    int32_t value;
} constant;

#define EXPORT __attribute__((visibility("default")))

EXPORT struct_entry *gHotSpotVMStructs;
EXPORT type_entry *gHotSpotVMTypes;
EXPORT uint64_t gHotSpotVMStructEntryTypeNameOffset = offsetof(struct_entry, type);
EXPORT uint64_t gHotSpotVMStructEntryFieldNameOffset = offsetof(struct_entry, field);
EXPORT uint64_t gHotSpotVMStructEntryTypeStringOffset = offsetof(struct_entry, kind);
EXPORT uint64_t gHotSpotVMStructEntryIsStaticOffset = offsetof(struct_entry, is_static);
EXPORT uint64_t gHotSpotVMStructEntryOffsetOffset = offsetof(struct_entry, offset);
EXPORT uint64_t gHotSpotVMStructEntryAddressOffset = offsetof(struct_entry, address);
EXPORT uint64_t gHotSpotVMStructEntryArrayStride = sizeof(struct_entry);
EXPORT constant *gHotSpotVMIntConstants;
EXPORT uint64_t gHotSpotVMIntConstantEntryNameOffset = offsetof(constant, name);
EXPORT uint64_t gHotSpotVMIntConstantEntryValueOffset = offsetof(constant, value);
EXPORT uint64_t gHotSpotVMIntConstantEntryArrayStride = sizeof(constant);
EXPORT uint64_t gHotSpotVMTypeEntryTypeNameOffset = offsetof(type_entry, type);
EXPORT uint64_t gHotSpotVMTypeEntrySizeOffset = offsetof(type_entry, size);
EXPORT uint64_t gHotSpotVMTypeEntryArrayStride = sizeof(type_entry);

/* A machine with the names of Serial, a heap with two generations of contiguous spaces, and of G1, a
 * table of regions. */
static char on = 1, off = 0;
static flag flags[] = {
    {&on, "UseSerialGC"},        {&off, "AlwaysPreTouch"}, {&off, "UseNUMA"},
    {&off, "UseLargePages"},     {&off, "UseTransparentHugePages"},
    {NULL, NULL},
};
static flag *flag_table = flags;
static int version = 25;
typedef struct { uint64_t pad, bottom, top, end; } space;
typedef struct { uint64_t pad; space *eden, *from, *to, *old; } generation;
typedef struct { uint64_t pad, bottom, end, top; int32_t tag; } region;
typedef struct { region **base; uint64_t length; } region_table;
typedef struct { uint64_t pad, start, words; generation *young, *tenured; region_table table; } heap;
enum { REGIONS = 64 };
static region regions[REGIONS];
static region *region_pointers[REGIONS];
static space spaces[4];
static generation gen = {0, &spaces[0], &spaces[1], &spaces[2], &spaces[3]};
static heap the_heap = {0, 0, 0, &gen, &gen, {region_pointers, REGIONS}};
static heap *heap_pointer = &the_heap;

static struct_entry serial[] = {
    {"JVMFlag", "flags", "JVMFlag*", 1, 0, &flag_table},
    {"JVMFlag", "_addr", "void*", 0, offsetof(flag, value), NULL},
    {"JVMFlag", "_name", "const char*", 0, offsetof(flag, name), NULL},
    {"Abstract_VM_Version", "_vm_major_version", "int", 1, 0, &version},
    {"Universe", "_collectedHeap", "CollectedHeap*", 1, 0, &heap_pointer},
    {"CollectedHeap", "_reserved", "MemRegion", 0, offsetof(heap, start), NULL},
    {"MemRegion", "_start", "HeapWord*", 0, 0, NULL},
    {"MemRegion", "_word_size", "size_t", 0, 8, NULL},
    {"SerialHeap", "_young_gen", "DefNewGeneration*", 0, offsetof(heap, young), NULL},
    {"SerialHeap", "_old_gen", "TenuredGeneration*", 0, offsetof(heap, tenured), NULL},
    {"DefNewGeneration", "_eden_space", "ContiguousSpace*", 0, offsetof(generation, eden), NULL},
    {"DefNewGeneration", "_from_space", "ContiguousSpace*", 0, offsetof(generation, from), NULL},
    {"DefNewGeneration", "_to_space", "ContiguousSpace*", 0, offsetof(generation, to), NULL},
    {"TenuredGeneration", "_the_space", "ContiguousSpace*", 0, offsetof(generation, old), NULL},
    {"ContiguousSpace", "_bottom", "HeapWord*", 0, offsetof(space, bottom), NULL},
    {"ContiguousSpace", "_top", "HeapWord*", 0, offsetof(space, top), NULL},
    {"ContiguousSpace", "_end", "HeapWord*", 0, offsetof(space, end), NULL},
    {"G1CollectedHeap", "_hrm", "G1HeapRegionManager", 0, offsetof(heap, table), NULL},
    {"G1HeapRegionManager", "_regions", "G1HeapRegionTable", 0, 0, NULL},
    {"G1HeapRegionTable", "_base", "address", 0, offsetof(region_table, base), NULL},
    {"G1HeapRegionTable", "_length", "size_t", 0, offsetof(region_table, length), NULL},
    {"G1HeapRegion", "_bottom", "HeapWord* const", 0, offsetof(region, bottom), NULL},
    {"G1HeapRegion", "_top", "HeapWord* volatile", 0, offsetof(region, top), NULL},
    {"G1HeapRegion", "_end", "HeapWord* const", 0, offsetof(region, end), NULL},
    {"G1HeapRegion", "_type", "G1HeapRegionType", 0, offsetof(region, tag), NULL},
    {"G1HeapRegionType", "_tag", "G1HeapRegionType::Tag volatile", 0, 0, NULL},
    {NULL, NULL, NULL, 0, 0, NULL},
};
static type_entry types[] = {
    {"JVMFlag", NULL, 0, 0, 0, sizeof(flag)},
    {NULL, NULL, 0, 0, 0, 0},
};
static constant constants[] = {{"G1HeapRegionType::FreeTag", 0}, {NULL, 0}};
static char endless[4096 * 4];

static void *wild = (void *)0x123456789000;

static void name(const char *type, const char *now) {
    for (int i = 0; serial[i].type; i++)
        if (!strcmp(serial[i].type, type)) serial[i].type = now;
}

static void make_regions(const char *memory, const char *way) {
    for (int i = 0; i < REGIONS; i++) {
        regions[i].bottom = regions[i].top = (uint64_t)memory + ((uint64_t)i << 20);
        regions[i].end = regions[i].bottom + (1 << 20);
        region_pointers[i] = &regions[i];
    }
    if (strncmp(way, "g1", 2)) return;
    flags[0].name = "UseG1GC";
    if (!strcmp(way, "g1-nameless")) constants[0].name = "Other::FreeTag";
    if (!strcmp(way, "g1-other")) name("G1HeapRegion", "Something");
    if (!strcmp(way, "g1-wild-table")) the_heap.table.base = wild;
    if (!strcmp(way, "g1-wild-region")) region_pointers[5] = wild;
    if (!strcmp(way, "g1-none")) memset(region_pointers, 0, sizeof region_pointers);
    if (!strcmp(way, "g1-many")) the_heap.table.length = (uint64_t)-1;
    if (!strcmp(way, "g1-inside-out")) regions[7].top = regions[7].end + 8;
}

/* A read-only copy. */
static void *frozen(const void *from, size_t size) {
    void *copy = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (copy == MAP_FAILED) exit(2);
    memcpy(copy, from, size);
    if (mprotect(copy, size, PROT_READ)) exit(2);
    return copy;
}

static void freeze(void) {
    space *kept = frozen(spaces, sizeof spaces);
    if (gen.eden != wild) gen.eden = &kept[0];
    gen.from = &kept[1];
    gen.to = &kept[2];
    gen.old = &kept[3];
    the_heap.young = the_heap.tenured = frozen(&gen, sizeof gen);
    region *areas = frozen(regions, sizeof regions);
    for (int i = 0; i < REGIONS; i++)
        if (region_pointers[i] == &regions[i]) region_pointers[i] = &areas[i];
    if (the_heap.table.base == region_pointers)
        the_heap.table.base = frozen(region_pointers, sizeof region_pointers);
    if (heap_pointer == &the_heap) heap_pointer = frozen(&the_heap, sizeof the_heap);
    flag_table = frozen(flags, sizeof flags);
    if (gHotSpotVMStructs == serial) gHotSpotVMStructs = frozen(serial, sizeof serial);
    gHotSpotVMTypes = frozen(types, sizeof types);
    gHotSpotVMIntConstants = frozen(constants, sizeof constants);
}

/* Objects: of the spaces what is below their tops, of the regions none. */
static char *memory;
static const size_t heap_size = 64 << 20;

static size_t changed(const char *way) {
    size_t bytes = 0;
    for (int i = 0; i < 4 && strncmp(way, "g1", 2); i++)
        for (char *at = (char *)spaces[i].bottom; at < (char *)spaces[i].top; at++) bytes += *at != 'x';
    return bytes;
}

static void make_tables(const char *way) {
    size_t size = heap_size, aligned = 1 << 20;
    memory = mmap(NULL, size + aligned, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) exit(2);
    memory = (char *)(((uint64_t)memory + aligned - 1) & -aligned);
    memset(memory, 'x', size);
    the_heap.start = (uint64_t)memory;
    the_heap.words = size / 8;
    for (int i = 0; i < 4; i++) {
        spaces[i].bottom = (uint64_t)memory + (size / 4) * i;
        spaces[i].top = spaces[i].bottom + 8192;
        spaces[i].end = spaces[i].bottom + size / 4;
    }
    gHotSpotVMStructs = serial;
    gHotSpotVMTypes = types;
    gHotSpotVMIntConstants = constants;
    make_regions(memory, way);
    if (!strcmp(way, "null")) gHotSpotVMStructs = NULL;
    if (!strcmp(way, "wild")) gHotSpotVMStructs = wild;
    if (!strcmp(way, "empty")) serial[0].type = NULL;
    if (!strcmp(way, "endless")) {
        /* Names without an end, in entries without an end. */
        memset(endless, 'x', sizeof endless);
        for (int i = 0; serial[i].type; i++) serial[i].type = serial[i].field = endless;
    }
    if (!strcmp(way, "nameless"))
        for (int i = 0; serial[i].type; i++) serial[i].type = wild;
    if (!strcmp(way, "other")) flags[0].value = &off;
    if (!strcmp(way, "nothing-known")) serial[3].type = serial[4].type = "Something";
    if (!strcmp(way, "newer")) version = 99;
    if (!strcmp(way, "wild-heap")) heap_pointer = wild;
    if (!strcmp(way, "wild-spaces")) gen.eden = wild;
    if (!strcmp(way, "inside-out")) spaces[1].top = spaces[1].end + 8;
    freeze();
}

/* JVMTI and the invocation interface, as far as the agent uses them. */
typedef int (*function)();
static function jvmti_table[200];
static function *jvmti = jvmti_table;
static void *callbacks[64];
static int enabled[100], refused_event = -1, disposed, depth = 1;

static int add_capabilities(void *env, const uint32_t *wanted) {
    (void)env;
    return wanted[0] == (uint32_t)1 << 31 && !wanted[1] && !wanted[2] && !wanted[3] ? 0 : 98;
}

static int set_callbacks(void *env, void **table, int size) {
    (void)env;
    if (size > (int)sizeof callbacks) return 103;
    memcpy(callbacks, table, size);
    return 0;
}

static int enable(void *env, int mode, int event, void *thread) {
    (void)env;
    (void)thread;
    if (event == refused_event && mode) return 98;
    enabled[event] = mode;
    return 0;
}

static int dispose(void *env) {
    (void)env;
    disposed++;
    return 0;
}

static int get_env(void *vm, void **env, int wanted) {
    (void)vm;
    (void)wanted;
    *env = &jvmti;
    return 0;
}

static function vm_table[10];
static function *vm = vm_table;

/* Whether it is wanted. */
static int play_pause(void) {
    if (!enabled[81] || !enabled[82]) return 0;
    for (int i = 0; i < depth; i++) ((void (*)(void *))callbacks[81 - 50])(&jvmti);
    for (int i = 0; i < depth; i++) ((void (*)(void *))callbacks[82 - 50])(&jvmti);
    return 1;
}

int main(int count, char **arguments) {
    if (count != 3) return 2;
    make_tables(arguments[2]);
    if (!strcmp(arguments[2], "no-events")) refused_event = 82;
    if (!strcmp(arguments[2], "nested")) depth = 2;
    jvmti_table[1] = (function)enable;
    jvmti_table[121] = (function)set_callbacks;
    jvmti_table[126] = (function)dispose;
    jvmti_table[141] = (function)add_capabilities;
    vm_table[6] = (function)get_env;
    void *library = dlopen(arguments[1], RTLD_NOW);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return 2;
    }
    int (*attach)(void *, char *, void *) = (int (*)(void *, char *, void *))dlsym(library, "Agent_OnAttach");
    int result = attach(&vm, "", NULL);
    if (!strcmp(arguments[2], "twice")) result = result ? result : attach(&vm, "", NULL);
    int pauses = 0;
    while (pauses < 5 && play_pause()) pauses++;
    printf("%d %d %d\n", result, pauses, disposed);
    fflush(stdout);
    while (getchar() != EOF) {
        play_pause();
        printf("%zu\n", changed(arguments[2]));
        fflush(stdout);
    }
    ((void (*)(void *, void *))callbacks[51 - 50])(&jvmti, NULL);
    ((void (*)(void *))callbacks[82 - 50])(&jvmti);
    dlclose(library);
    return 0;
}
