/* run_logits.c - --dump-logits: every position's logits into a file, which appears only whole.
 * SPDX-License-Identifier: MIT */
#include "run.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int file_failed(const char *what, const char *path)
{
    const int reason = errno;
    console_progress("%s", "");
    console_error("cannot %s %.4096s: %s", what, path, strerror(reason));
    return ARGS_RUNTIME;
}

/* Rows [from, to) of the step that has just been evaluated. */
static int write_rows(struct run *r, FILE *f, const char *path, size_t from, size_t to)
{
    krafla_error err;
    for (size_t pos = from; pos < to; pos++) {
        const float *logits;
        if (krafla_session_logits_at(r->session, pos, &logits, &err) != KRAFLA_OK)
            return args_failed(&err);
        if (fwrite(logits, sizeof *logits, (size_t)r->vocab, f) != (size_t)r->vocab)
            return file_failed("write", path);
    }
    return ARGS_OK;
}

static int write_all(struct run *r, const int32_t *ids, size_t n, FILE *f, const char *path)
{
    int code = ARGS_OK;
    for (size_t at = 0; at < n && code == ARGS_OK;) {
        const size_t step = n - at < (size_t)r->o->batch ? n - at : (size_t)r->o->batch;
        const enum run_end end = run_prompt(r, ids + at, step, &code);
        if (end == RUN_INTERRUPTED)
            code = ARGS_RUNTIME;
        if (end == RUN_LIMIT)
            code = write_rows(r, f, path, at, at + step);
        at += step;
        console_progress("logits of %zu of %zu positions", at, n);
    }
    console_progress("%s", "");
    return code;
}

int run_dump_logits(struct run *r, const int32_t *ids, size_t n)
{
    const char *path = r->o->dump_logits;
    const size_t bytes = strlen(path) + sizeof ".tmp";
    char *temporary = malloc(bytes);
    if (!temporary) {
        errno = ENOMEM;
        return file_failed("create", path);
    }
    snprintf(temporary, bytes, "%s.tmp", path);

    console_catch_interrupt();
    FILE *f = console_create_file(temporary); /* one of this name is somebody's */
    int code = f ? write_all(r, ids, n, f, temporary) : file_failed("create", temporary);
    if (f && fclose(f) != 0 && code == ARGS_OK)
        code = file_failed("write", temporary);
    if (code == ARGS_OK && !console_replace_file(temporary, path))
        code = file_failed("replace", path);
    if (f && code != ARGS_OK)
        console_remove_file(temporary);
    console_release_interrupt();
    free(temporary);
    if (code == ARGS_OK)
        run_statistics(r);
    return code;
}
