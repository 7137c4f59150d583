/* vnnirun.c - run a static x86-64 program as if on another CPU, on any with AVX2.
 *
 *   build/emulate/vnnirun [--cpu=LEVEL] [--fast] [--stats] PROGRAM ARGS...
 *
 * It answers CPUID at the level asked for (levels.h), also to the programs that a
 * launcher starts, and does the AVX-VNNI dot products that this CPU lacks: each as
 * it traps, tens of thousands a second, or with --fast by their EVEX twins.
 * Threads, forks and execs are followed, and signals passed on.  It ends as the program
 * ends, by the same code or signal, or with 125 for an error of its own.
 * SPDX-License-Identifier: MIT */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "levels.h"
#include "tracee.h"

static struct {
    enum level level;
    bool fast, stats;
    unsigned long cpuid, dots; /* answered, emulated */
} run = {.level = HOST};

static pid_t program;

/* Only what was sent to vnnirun: Ctrl-C of a terminal reaches the program by itself. */
static void pass_on(int signal, siginfo_t *info, void *context)
{
    (void)context;
    if (info->si_code <= 0) /* by a process, not by the kernel */
        kill(program, signal);
}

static void catch_signals(void)
{
    static const int passed[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
    struct sigaction action = {.sa_sigaction = pass_on, .sa_flags = SA_SIGINFO | SA_RESTART};
    for (size_t i = 0; i < sizeof passed / sizeof *passed; i++)
        sigaction(passed[i], &action, NULL);
}

static pid_t start(char **words)
{
    const pid_t pid = fork();
    if (pid < 0)
        give_up("cannot start %s: %s", words[0], strerror(errno));
    if (pid == 0) {
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        raise(SIGSTOP);
        execvp(words[0], words);
        fprintf(stderr, "vnnirun: %s: %s\n", words[0], strerror(errno));
        _exit(127);
    }
    int status;
    const long options = PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
                         PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL;
    if (waitpid(pid, &status, 0) < 0 || ptrace(PTRACE_SETOPTIONS, pid, NULL, options) != 0)
        give_up("cannot trace: %s; does this system allow ptrace?", strerror(errno));
    ptrace(PTRACE_CONT, pid, NULL, NULL);
    return pid;
}

static void answer_cpuid(struct user_regs_struct *regs)
{
    const struct cpuid c = level_cpuid(run.level, (uint32_t)regs->rax, (uint32_t)regs->rcx);
    regs->rax = c.reg[0];
    regs->rbx = c.reg[1];
    regs->rcx = c.reg[2];
    regs->rdx = c.reg[3];
    regs->rip += 2; /* the length of cpuid */
}

/* Do what an illegal instruction stands for; false if it is illegal for the level too. */
static bool handle_illegal(pid_t thread)
{
    struct user_regs_struct regs;
    ptrace(PTRACE_GETREGS, thread, NULL, &regs);
    if (tracee_at_cpuid(thread, regs.rip)) {
        answer_cpuid(&regs);
        run.cpuid++;
    } else if ((run.level == AVXVNNI || run.level == HOST) && tracee_run_dot(thread, &regs)) {
        run.dots++;
    } else {
        return false;
    }
    ptrace(PTRACE_SETREGS, thread, NULL, &regs);
    return true;
}

/* A stop of a traced thread; the signal to pass on, or 0. */
static int handle_stop(pid_t thread, int status)
{
    if (status >> 16 == PTRACE_EVENT_EXEC)
        tracee_patch(thread, run.fast);
    if (status >> 16 != 0)
        return 0;
    const int signal = WSTOPSIG(status);
    if (signal == SIGSTOP) /* a new thread or process begins with it */
        return 0;
    return signal == SIGILL && handle_illegal(thread) ? 0 : signal;
}

/* Until every process has ended; how the first one did. */
static int follow(pid_t first)
{
    int end = 0, status;
    for (;;) {
        const pid_t pid = waitpid(-1, &status, __WALL);
        if (pid < 0 && errno == EINTR)
            continue;
        if (pid < 0)
            return end;
        if (WIFSTOPPED(status)) {
            const long signal = handle_stop(pid, status);
            ptrace(PTRACE_CONT, pid, NULL, signal);
            continue;
        }
        if (pid == first)
            end = status;
    }
}

static int usage(void)
{
    fputs("usage: vnnirun [--cpu=LEVEL] [--fast] [--stats] PROGRAM ARGS...\n"
          "  --cpu=LEVEL  sse2, ssse3, sse41, avx2, avxvnni, avx512vnni or host (default)\n"
          "  --fast       replace AVX-VNNI by AVX512-VNNI, which this CPU must have\n"
          "  --stats      say at the end how often it had to help\n",
          stderr);
    return OWN_FAILURE;
}

int main(int argc, char **argv)
{
    int i = 1;
    for (; i < argc && strncmp(argv[i], "--", 2) == 0; i++) {
        if (strcmp(argv[i], "--fast") == 0)
            run.fast = true;
        else if (strcmp(argv[i], "--stats") == 0)
            run.stats = true;
        else if (strncmp(argv[i], "--cpu=", 6) != 0 || !level_find(&run.level, argv[i] + 6))
            return usage();
    }
    if (i == argc)
        return usage();
    if (run.fast && !host_has_evex_dot())
        give_up("--fast: this CPU lacks avx512-vnni or avx512vl");
    program = start(argv + i);
    catch_signals();
    const int end = follow(program);
    if (run.stats)
        fprintf(stderr, "vnnirun: answered cpuid %lu times, emulated %lu dot products\n", run.cpuid,
                run.dots);
    if (WIFEXITED(end))
        return WEXITSTATUS(end);
    signal(WTERMSIG(end), SIG_DFL);
    raise(WTERMSIG(end));
    return OWN_FAILURE;
}
