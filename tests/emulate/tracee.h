/* tracee.h - the traced processes of vnnirun: their memory, registers and changed instructions.
 *
 * After every exec of a static program each of its cpuid instructions becomes an
 * illegal one, which the tracer answers; a fork inherits the changed text.
 * SPDX-License-Identifier: MIT */
#ifndef TRACEE_H
#define TRACEE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

enum { OWN_FAILURE = 125 }; /* exit code of vnnirun's own errors, as timeout(1) has it */

/* Say what is wrong and end; the processes end too (PTRACE_O_EXITKILL). */
_Noreturn void give_up(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

bool tracee_read(pid_t pid, uint64_t address, void *to, size_t bytes);
void tracee_write(pid_t pid, uint64_t address, const void *from, size_t bytes);

/* At the stop of an exec: change the cpuid instructions, and with `evex` give each VEX dot
 * product a jump to its EVEX twin.  Leaves programs alone that are not static x86-64 ELF. */
void tracee_patch(pid_t pid, bool evex);
/* Whether what trapped here was a cpuid instruction before tracee_patch. */
bool tracee_at_cpuid(pid_t thread, uint64_t address);

/* Do what the dot product at the instruction pointer does; false if there is none. */
bool tracee_run_dot(pid_t thread, struct user_regs_struct *regs);

#endif
