/* tracee.c - patching and emulating.
 *
 * objdump finds the instructions: a scan for their bytes would take constants for
 * code.
 * SPDX-License-Identifier: MIT */
#include "tracee.h"

#include <cpuid.h>
#include <elf.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vex.h"

enum {
    JUMP_BYTES = 5,       /* e9 and 32 bits */
    CAVE_BYTES = 1 << 20, /* for the EVEX twins, each followed by a jump back */
    CAVE_AT = 0x10000000, /* above static programs, within the reach of a jump */
};

/* What stands for cpuid in a changed program: two opcodes that 64-bit mode does not have. */
static const uint8_t cpuid_bytes[] = {0x0f, 0xa2}, trap_bytes[] = {0x27, 0x2f};

void give_up(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fputs("vnnirun: ", stderr);
    vfprintf(stderr, fmt, args);
    fputc('\n', stderr);
    va_end(args);
    exit(OWN_FAILURE);
}

/* ---- memory ------------------------------------------------------------------ */

bool tracee_read(pid_t pid, uint64_t address, void *to, size_t bytes)
{
    const struct iovec here = {to, bytes}, there = {(void *)(uintptr_t)address, bytes};
    return process_vm_readv(pid, &here, 1, &there, 1, 0) == (ssize_t)bytes;
}

/* Through /proc, which may write to the program's text. */
void tracee_write(pid_t pid, uint64_t address, const void *from, size_t bytes)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/mem", (int)pid);
    FILE *f = fopen(path, "r+b");
    const bool done = f && setvbuf(f, NULL, _IONBF, 0) == 0 &&
                      fseeko(f, (off_t)address, SEEK_SET) == 0 &&
                      fwrite(from, 1, bytes, f) == bytes;
    if (f)
        fclose(f);
    if (!done)
        give_up("cannot write to process %d at %#llx", (int)pid, (unsigned long long)address);
}

static void step(pid_t pid)
{
    int status;
    ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL);
    if (waitpid(pid, &status, __WALL) < 0 || !WIFSTOPPED(status))
        give_up("process %d did not stop", (int)pid);
}

/* Let the process map memory for code at CAVE_AT, by a system call in place of its next
 * instruction. */
static void make_cave(pid_t pid)
{
    static const uint8_t syscall_bytes[] = {0x0f, 0x05};
    uint8_t saved[sizeof syscall_bytes];
    struct user_regs_struct before, call;
    step(pid); /* out of execve, which would overwrite the result */
    ptrace(PTRACE_GETREGS, pid, NULL, &before);
    if (!tracee_read(pid, before.rip, saved, sizeof saved))
        give_up("cannot read the start of process %d", (int)pid);
    tracee_write(pid, before.rip, syscall_bytes, sizeof syscall_bytes);
    call = before;
    call.rax = SYS_mmap;
    call.orig_rax = (uint64_t)-1;
    call.rdi = CAVE_AT;
    call.rsi = CAVE_BYTES;
    call.rdx = PROT_READ | PROT_EXEC;
    call.r10 = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
    call.r8 = (uint64_t)-1;
    call.r9 = 0;
    ptrace(PTRACE_SETREGS, pid, NULL, &call);
    step(pid);
    ptrace(PTRACE_GETREGS, pid, NULL, &call);
    tracee_write(pid, before.rip, saved, sizeof saved);
    ptrace(PTRACE_SETREGS, pid, NULL, &before);
    if (call.rax != CAVE_AT)
        give_up("cannot map memory at %#x: code %lld", CAVE_AT, -(long long)call.rax);
}

/* ---- finding instructions ------------------------------------------------------ */

/* The program of a process after exec, if it is a static x86-64 one. */
static bool static_program(pid_t pid, char *path, size_t bytes)
{
    char link[64];
    snprintf(link, sizeof link, "/proc/%d/exe", (int)pid);
    const ssize_t length = readlink(link, path, bytes - 1);
    if (length <= 0)
        return false;
    path[length] = '\0';
    FILE *f = fopen(path, "rb");
    Elf64_Ehdr head = {0};
    const bool whole = f && fread(&head, sizeof head, 1, f) == 1;
    if (f)
        fclose(f);
    return whole && memcmp(head.e_ident, ELFMAG, SELFMAG) == 0 && head.e_type == ET_EXEC &&
           head.e_machine == EM_X86_64;
}

static FILE *start_objdump(const char *path, pid_t *pid)
{
    int ends[2];
    if (pipe(ends) != 0 || (*pid = fork()) < 0)
        give_up("cannot start objdump: %s", strerror(errno));
    if (*pid == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        execlp("objdump", "objdump", "-d", "--no-show-raw-insn", "--", path, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    return fdopen(ends[0], "r");
}

/* Call `found` for every cpuid and every VEX dot product of a program. */
static void each_instruction(pid_t pid, const char *path,
                             void (*found)(pid_t pid, uint64_t address, bool cpuid))
{
    pid_t objdump;
    int status;
    char line[512];
    FILE *f = start_objdump(path, &objdump);
    while (f && fgets(line, sizeof line, f)) {
        /* "  401234:<tab>{vex} vpdpbusd ..." */
        const char *words = strchr(line, '\t');
        const bool cpuid = words && strncmp(words, "\tcpuid", 6) == 0;
        if (cpuid || (words && strncmp(words, "\t{vex} vpdp", 11) == 0))
            found(pid, strtoull(line, NULL, 16), cpuid);
    }
    if (f)
        fclose(f);
    if (waitpid(objdump, &status, 0) < 0 || status != 0)
        give_up("objdump is missing or failed for %s: install binutils", path);
}

/* ---- changing instructions ------------------------------------------------------- */

static void trap_cpuid(pid_t pid, uint64_t address, bool cpuid)
{
    uint8_t bytes[sizeof cpuid_bytes];
    if (!cpuid)
        return;
    if (!tracee_read(pid, address, bytes, sizeof bytes) ||
        memcmp(bytes, cpuid_bytes, sizeof bytes) != 0)
        give_up("no cpuid at %#llx", (unsigned long long)address);
    tracee_write(pid, address, trap_bytes, sizeof trap_bytes);
}

static void put_jump(uint8_t *at, uint64_t from, uint64_t to)
{
    const int32_t distance = (int32_t)(int64_t)(to - (from + JUMP_BYTES));
    at[0] = 0xe9;
    memcpy(at + 1, &distance, sizeof distance);
}

static size_t cave_used;

static void detour_dot(pid_t pid, uint64_t address, bool cpuid)
{
    uint8_t bytes[VEX_BYTES], code[EVEX_BYTES + JUMP_BYTES], jump[VEX_BYTES];
    struct vex_dot dot;
    if (cpuid)
        return;
    if (!tracee_read(pid, address, bytes, sizeof bytes) || !vex_dot_decode(&dot, bytes))
        give_up("no dot product at %#llx", (unsigned long long)address);
    if (cave_used == 0)
        make_cave(pid);
    const uint64_t at = CAVE_AT + cave_used;
    const unsigned n = vex_dot_to_evex(&dot, bytes, address, at, code);
    if (n == 0 || cave_used + n + JUMP_BYTES > CAVE_BYTES)
        give_up("no room for the twin of %#llx", (unsigned long long)address);
    put_jump(code + n, at + n, address + dot.length);
    tracee_write(pid, at, code, n + JUMP_BYTES);
    cave_used += n + JUMP_BYTES;

    memset(jump, 0x90, sizeof jump); /* the rest of a longer instruction is never reached */
    put_jump(jump, address, at);
    tracee_write(pid, address, jump, dot.length);
}

void tracee_patch(pid_t pid, bool evex)
{
    char path[4096];
    if (!static_program(pid, path, sizeof path))
        return;
    each_instruction(pid, path, trap_cpuid);
    cave_used = 0;
    if (evex)
        each_instruction(pid, path, detour_dot);
}

bool tracee_at_cpuid(pid_t thread, uint64_t address)
{
    uint8_t bytes[sizeof trap_bytes];
    return tracee_read(thread, address, bytes, sizeof bytes) &&
           memcmp(bytes, trap_bytes, sizeof bytes) == 0;
}

/* ---- emulating --------------------------------------------------------------------- */

/* The area that XSAVE writes, in its standard form. */
enum {
    XSAVE_XMM = 160,     /* the lower halves of the vector registers, 16 bytes each */
    XSAVE_PRESENT = 512, /* which parts are not in their initial state, all zero */
    XSAVE_BYTES = 16384,
    SSE = 2,
    AVX = 4,
    HALF = YMM_BYTES / 2,
};

struct vectors {
    uint8_t area[XSAVE_BYTES];
    size_t bytes; /* of the area that this CPU uses */
    size_t upper; /* where the upper halves are */
};

static uint64_t present(const struct vectors *v)
{
    uint64_t parts;
    memcpy(&parts, v->area + XSAVE_PRESENT, sizeof parts);
    return parts;
}

static bool read_vectors(pid_t thread, struct vectors *v)
{
    unsigned size, offset, c, d;
    __cpuid_count(13, 2, size, offset, c, d); /* the part of the upper halves */
    struct iovec area = {v->area, sizeof v->area};
    if (ptrace(PTRACE_GETREGSET, thread, NT_X86_XSTATE, &area) != 0)
        return false;
    v->bytes = area.iov_len;
    v->upper = offset;
    /* Make what "initial state" means explicit. */
    if (!(present(v) & SSE))
        memset(v->area + XSAVE_XMM, 0, 16 * HALF);
    if (!(present(v) & AVX))
        memset(v->area + v->upper, 0, 16 * HALF);
    const uint64_t parts = present(v) | SSE | AVX;
    memcpy(v->area + XSAVE_PRESENT, &parts, sizeof parts);
    return true;
}

static void get_vector(const struct vectors *v, unsigned n, void *to)
{
    memcpy(to, v->area + XSAVE_XMM + n * HALF, HALF);
    memcpy((uint8_t *)to + HALF, v->area + v->upper + n * HALF, HALF);
}

static void set_vector(struct vectors *v, unsigned n, const void *from)
{
    memcpy(v->area + XSAVE_XMM + n * HALF, from, HALF);
    memcpy(v->area + v->upper + n * HALF, (const uint8_t *)from + HALF, HALF);
}

static uint64_t operand_address(const struct vex_dot *d, const struct user_regs_struct *r)
{
    const uint64_t general[16] = {r->rax, r->rcx, r->rdx, r->rbx, r->rsp, r->rbp, r->rsi, r->rdi,
                                  r->r8,  r->r9,  r->r10, r->r11, r->r12, r->r13, r->r14, r->r15};
    uint64_t address = (uint64_t)(int64_t)d->displacement;
    if (d->relative)
        address += r->rip + d->length;
    if (d->base >= 0)
        address += general[d->base];
    if (d->index >= 0)
        address += general[d->index] << d->scale;
    return address;
}

/* The bytes at the instruction pointer; fewer, and zeros, where the text ends. */
static void read_instruction(pid_t pid, uint64_t at, uint8_t bytes[VEX_BYTES])
{
    memset(bytes, 0, VEX_BYTES);
    for (size_t n = VEX_BYTES; n > 0 && !tracee_read(pid, at, bytes, n); n--)
        ;
}

bool tracee_run_dot(pid_t thread, struct user_regs_struct *regs)
{
    static struct vectors v; /* too large for a stack, and one thread traces */
    uint8_t bytes[VEX_BYTES], a[YMM_BYTES], b[YMM_BYTES] = {0};
    int32_t acc[YMM_BYTES / sizeof(int32_t)];
    struct vex_dot d;
    read_instruction(thread, regs->rip, bytes);
    if (!vex_dot_decode(&d, bytes) || !read_vectors(thread, &v))
        return false;
    get_vector(&v, d.dst, acc);
    get_vector(&v, d.a, a);
    if (!d.memory)
        get_vector(&v, d.b, b);
    else if (!tracee_read(thread, operand_address(&d, regs), b, d.ymm ? YMM_BYTES : HALF))
        return false;
    vex_dot_run(&d, acc, a, b);
    set_vector(&v, d.dst, acc);
    const struct iovec area = {v.area, v.bytes};
    regs->rip += d.length;
    return ptrace(PTRACE_SETREGSET, thread, NT_X86_XSTATE, &area) == 0;
}
