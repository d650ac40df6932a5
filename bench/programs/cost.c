/* Runs a command and says what it cost: "WALL_NS PROCESSOR_US PEAK_KIB" on standard error, after all that
 * the command writes there. The kernel counts the memory of whoever starts a program to the program's
 * peak, so that a large harness cannot measure a small program: this one is smaller than any. */
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long long now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

int main(int count, char **arguments)
{
    struct rusage usage;
    int status;
    long long begin = now_ns(), end;
    pid_t child = count > 1 ? fork() : -1;
    if (child < 0) {
        fprintf(stderr, "cost: give a command\n");
        return 125;
    }
    if (child == 0) {
        execv(arguments[1], arguments + 1);
        _exit(127);
    }
    if (wait4(child, &status, 0, &usage) != child)
        return 125;
    end = now_ns();
    fprintf(stderr, "%lld %lld %ld\n", end - begin,
            (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000LL + usage.ru_utime.tv_usec
                + usage.ru_stime.tv_usec,
            usage.ru_maxrss);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}
