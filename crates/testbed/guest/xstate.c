/* For user-mode Linux on a processor with AMX; user-mode.sh preloads it. A kernel before 6.13 keeps 2696
 * bytes of the registers of a program. The kernel below sets them only if it is given all that the
 * processor has, 11 KB with AMX. So it is given zeros for the rest: the first bytes say that no more is in
 * use. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <unistd.h>
#include <sys/syscall.h>

static char all[1 << 16];
static size_t size;

long ptrace(enum __ptrace_request request, ...)
{
	va_list rest;
	va_start(rest, request);
	long pid = va_arg(rest, long);
	void *address = va_arg(rest, void *);
	void *data = va_arg(rest, void *);
	va_end(rest);
	struct iovec whole = {all, sizeof all}, *given = data;
	if (request == PTRACE_SETREGSET && (long)address == NT_X86_XSTATE) {
		if (size == 0) {
			if (syscall(SYS_ptrace, PTRACE_GETREGSET, pid, address, &whole) != 0)
				return -1;
			size = whole.iov_len;
		}
		if (given->iov_len < size) {
			memset(all, 0, size);
			memcpy(all, given->iov_base, given->iov_len);
			whole.iov_len = size;
			data = &whole;
		}
	}
	/* As the C library: these return the word itself. */
	if (request == PTRACE_PEEKTEXT || request == PTRACE_PEEKDATA || request == PTRACE_PEEKUSER) {
		long word;
		long failed = syscall(SYS_ptrace, request, pid, address, &word);
		if (failed == 0)
			errno = 0;
		return failed == 0 ? word : failed;
	}
	return syscall(SYS_ptrace, request, pid, address, data);
}
