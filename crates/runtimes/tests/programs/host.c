/* A program with a Java virtual machine inside, and with its own handler of SIGQUIT: host CLASSPATH
before|after|xrs. It prints when the machine is up, and, when its input ends, how often it received the
signal. The handler is set after the machine is made, or before; in that case the machine replaces the
handler, except with xrs. */
#include <jni.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t quits;

static void on_quit(int signal) {
    (void)signal;
    quits++;
}

static void take_quit(void) {
    struct sigaction action = {.sa_handler = on_quit};
    sigaction(SIGQUIT, &action, NULL);
}

int main(int argc, char **argv) {
    char path[4096];
    if (argc < 3) return 2;
    snprintf(path, sizeof path, "-Djava.class.path=%s", argv[1]);
    JavaVMOption options[] = {{path, NULL}, {"-Xmx64m", NULL}, {"-Xrs", NULL}};
    JavaVMInitArgs arguments = {JNI_VERSION_10, strcmp(argv[2], "xrs") ? 2 : 3, options, JNI_FALSE};
    JavaVM *machine;
    JNIEnv *environment;
    if (strcmp(argv[2], "after")) take_quit();
    if (JNI_CreateJavaVM(&machine, (void **)&environment, &arguments)) return 3;
    if (!strcmp(argv[2], "after")) take_quit();
    puts("up");
    fflush(stdout);
    char byte;
    while (read(0, &byte, 1) != 0) { }
    printf("quits %d\n", (int)quits);
    fflush(stdout);
    _exit(0);
}
