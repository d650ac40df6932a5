/* A resource that the collector needs is refused. By the argument: a system call (by seccomp), /proc (because
the process is not dumpable), or descriptors (because the program closes some that it did not open). */
#include "sound.h"
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define IOCTL_SCAN 0x10 /* PAGEMAP_SCAN's number, and the letter f */

/* Refuses one system call; if it is ioctl, only PAGEMAP_SCAN. */
static void refuse(unsigned call) {
    struct sock_filter all[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, call == SYS_ioctl ? 4 : 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    if (call == SYS_ioctl) {
        all[2] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                                              offsetof(struct seccomp_data, args[1]));
        all[3] = (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xffff);
        all[4] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 'f' << 8 | IOCTL_SCAN, 0, 1);
        all[5] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
    }
    struct sock_fprog program = {sizeof all / sizeof *all, all};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        fail("prctl");
}

static void undumpable(void) {
    if (getuid() == 0 && (setgid(65534) || setuid(65534)))
        fail("another user");
    if (prctl(PR_SET_DUMPABLE, 0))
        fail("prctl");
    if (open("/proc/self/pagemap", O_RDONLY) >= 0)
        fail("pagemap can be opened all the same");
}

/* Closes all descriptors, and opens its own with the same numbers. The collector must not close those. */
static void close_all(void) {
    static int own[40];
    closefrom(3);
    for (int i = 0; i < 40; i++)
        own[i] = open("/dev/null", O_RDONLY);
    fcntl(own[0], F_DUPFD, 900);
    churn(2 << 20);
    GC_gcollect();
    for (int i = 0; i < 40; i++)
        if (own[i] < 0 || fcntl(own[i], F_GETFD) < 0)
            fail("a file of the program's was closed");
}

static volatile int stop;

static void *closing(void *argument) {
    while (!stop)
        close_all();
    return 0;
}

static void round_of(const char *what) {
    churn(4 << 20);
    for (int i = 0; i < 3; i++)
        GC_gcollect();
    if (!strcmp(what, "files"))
        close_all();
    check_live();
}

int main(int count, char **arguments) {
    const char *what = arguments[1];
    GC_INIT();
    live = tree(DEPTH, 0);
    struct node *more = tree(DEPTH, 5);
    /* At first nothing is refused, and summaries are made. */
    round_of("");
    if (!strcmp(what, "userfaultfd"))
        refuse(SYS_userfaultfd);
    else if (!strcmp(what, "madvise"))
        refuse(SYS_madvise);
    else if (!strcmp(what, "scan"))
        refuse(SYS_ioctl);
    else if (!strcmp(what, "open"))
        refuse(SYS_openat);
    else if (!strcmp(what, "undumpable"))
        undumpable();
    else if (strcmp(what, "files"))
        fail("an argument");
    pthread_t thread;
    int threads = !strcmp(what, "files") && GC_pthread_create(&thread, 0, closing, 0) == 0;
    for (int i = 0; i < 8; i++) {
        /* Writes to objects that were summarised. */
        struct node *young = tree(8, 77);
        more->left->left->left = young;
        round_of(threads ? "" : what);
        if (more->left->left->left != young || !is_tree(young, 8, 77))
            fail("what was written last");
    }
    if (threads) {
        stop = 1;
        GC_pthread_join(thread, 0);
    }
    return sound();
}
