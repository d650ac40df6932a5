/* Shared by all programs here. Each runs over the system's library and over ours, and must print the same
with both. So they print answers, never addresses or sizes that a collector is free to choose. */
#ifndef CHECK_H
#define CHECK_H

#ifndef GC_THREADS
#define GC_THREADS
#endif
#ifndef WITH_REDIRECTS
#define GC_NO_THREAD_REDIRECTS
#endif
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <gc/gc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone, unused))

/* Prints the question as it is written in the source, and the answer. */
#define CHECK(question) printf("%s: %s\n", #question, (question) ? "yes" : "no")
#define SHOW(number) printf("%s = %ld\n", #number, (long)(number))
/* Whether at least 95 % are: a conservative collector may keep a few. */
#define MOST(part, whole) ((long)(part) * 100 >= (long)(whole) * 95)
#define FEW(part, whole) ((long)(part) * 100 <= (long)(whole) * 5)

typedef void (*action)(void);

/* Output is written line by line, so that none is lost in a crash, and a forked child does not print what its
parent had buffered. */
static __attribute__((constructor)) void print_lines(void) { setvbuf(stdout, 0, _IOLBF, 4096); }

/* Overwrites the values that earlier calls left on the stack below this frame. */
static NOINLINE void wipe(void) {
    volatile char room[32768];
    for (size_t i = 0; i < sizeof room; i++)
        room[i] = 0;
}

/* Two registers that a call keeps, and those that the compiler may keep a value in during a call. */
#ifdef __aarch64__
#define ONE_REGISTER "x19"
#define ANOTHER_REGISTER "x20"
#define KEPT_REGISTERS "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28"
#else
#define ONE_REGISTER "rbx"
#define ANOTHER_REGISTER "r12"
#define KEPT_REGISTERS "rbx", "r12", "r13", "r14", "r15"
#endif

/* Calls `what` well below this frame, where `wipe` reaches, with nothing left in registers. */
static NOINLINE void below(action what) {
    volatile char room[4096];
    room[0] = room[4095] = 1;
    what();
    __asm__ volatile("" ::: KEPT_REGISTERS, "memory");
    room[1] = room[0];
}

static NOINLINE void collect(void) {
    wipe();
    GC_gcollect();
}

/* Collects several times, so that all finalizers that are due have run. */
static NOINLINE void collect_well(void) {
    for (int i = 0; i < 4; i++) {
        collect();
        GC_invoke_finalizers();
    }
}

static NOINLINE int is_filled(const void *start, int with, size_t bytes) {
    const unsigned char *at = (const unsigned char *)start;
    for (size_t i = 0; i < bytes; i++)
        if (at[i] != (unsigned char)with)
            return 0;
    return 1;
}

/* Runs this program again with an argument, and returns its exit status. Its standard error is put into
`said`; its standard output is ours. */
static NOINLINE int again(const char *argument, char *said, size_t room) {
    int ends[2];
    fflush(stdout);
    if (pipe(ends) != 0)
        abort();
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], 2);
        close(ends[0]);
        close(ends[1]);
        execl("/proc/self/exe", "again", argument, (char *)0);
        _exit(99);
    }
    close(ends[1]);
    size_t length = 0;
    char rest[512];
    for (;;) {
        ssize_t got = length + 1 < room ? read(ends[0], said + length, room - length - 1)
                                        : read(ends[0], rest, sizeof rest);
        if (got <= 0)
            break;
        if (length + 1 < room)
            length += (size_t)got;
    }
    if (room)
        said[length] = 0;
    close(ends[0]);
    int status;
    waitpid(child, &status, 0);
    return status;
}

static NOINLINE int count_of(const char *text, const char *part) {
    int count = 0;
    for (const char *at = text; (at = strstr(at, part)) != 0; at += strlen(part))
        count++;
    return count;
}

#endif
