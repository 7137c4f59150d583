/* unit.h - the whole of the C unit-test harness: one program per file, no registry.
 * SPDX-License-Identifier: MIT */
#ifndef UNIT_H
#define UNIT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int unit_failed, unit_passed;

#define EXPECT(cond)                                                                               \
    do {                                                                                           \
        if (cond) {                                                                                \
            unit_passed++;                                                                         \
        } else {                                                                                   \
            unit_failed++;                                                                         \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #cond);                   \
        }                                                                                          \
    } while (0)

#define EXPECT_STR(want, got)                                                                      \
    do {                                                                                           \
        const char *unit_want = (want), *unit_got = (got);                                         \
        if (strcmp(unit_want, unit_got) == 0) {                                                    \
            unit_passed++;                                                                         \
        } else {                                                                                   \
            unit_failed++;                                                                         \
            fprintf(stderr, "%s:%d: want \"%s\", got \"%s\"\n", __FILE__, __LINE__, unit_want,     \
                    unit_got);                                                                     \
        }                                                                                          \
    } while (0)

/* Last statement of main. */
static int unit_done(const char *name)
{
    printf("%s: %d passed, %d failed\n", name, unit_passed, unit_failed);
    return unit_failed != 0;
}

#endif
