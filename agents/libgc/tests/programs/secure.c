/* Linked with the adapter. Prints whether it has more rights than the user who started it, and how many
threads it has. */
#include <dirent.h>
#include <gc/gc.h>
#include <stdio.h>
#include <sys/auxv.h>
int main(void)
{
    GC_INIT();
    /* A call of libgc, so that the linker keeps libgc among the libraries that this program needs. */
    if (GC_malloc(10) == NULL) return 3;
    int threads = 0;
    DIR *tasks = opendir("/proc/self/task");
    if (tasks == NULL) return 2;
    for (struct dirent *task; (task = readdir(tasks)) != NULL;) threads += task->d_name[0] != '.';
    closedir(tasks);
    printf("{\"secure\":%d,\"threads\":%d}\n", getauxval(AT_SECURE) != 0, threads);
    return 0;
}
