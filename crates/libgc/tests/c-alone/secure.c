/* Prints whether it has more rights than the user who started it, and which variables of its environment the
collector follows. */
#include "sound.h"
#include <dirent.h>
#include <sys/auxv.h>

int main(void) {
    GC_INIT();
    int disabled = GC_is_disabled();
    if (disabled)
        GC_enable();
    GC_gcollect();
    int threads = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *task; tasks && (task = readdir(tasks));)
        threads += task->d_name[0] != '.';
    printf("secure %d, divisor %d, disabled %d, threads %d\n", getauxval(AT_SECURE) != 0,
           (int)GC_get_free_space_divisor(),
           disabled, threads);
    return 0;
}
