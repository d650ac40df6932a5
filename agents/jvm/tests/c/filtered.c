/* Runs a program under a filter that ends it for calls that services of systemd may not make
 * (SystemCallFilter=@system-service), or that older versions of that list do not have:
 * filtered PROGRAM [ARGUMENT...]. */

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef __NR_fsopen
#define __NR_fsopen 430
#endif
#ifndef __NR_pidfd_open
#define __NR_pidfd_open 434
#endif

#define ENDS(call) \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (call), 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)

int main(int count, char **arguments) {
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ENDS(__NR_bpf),
        ENDS(__NR_fsopen),
        ENDS(__NR_perf_event_open),
        ENDS(__NR_process_vm_readv),
        ENDS(__NR_mincore),
        ENDS(__NR_pidfd_open),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof steps / sizeof *steps, steps};
    if (count < 2) {
        return 2;
    }
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) {
        fprintf(stderr, "no filter: %s\n", strerror(errno));
        return 3;
    }
    execvp(arguments[1], arguments + 1);
    fprintf(stderr, "%s: %s\n", arguments[1], strerror(errno));
    return 4;
}
