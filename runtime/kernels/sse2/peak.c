/* sse2/peak.c - what the many-column loop makes at best; both formats meet it as words.
 * SPDX-License-Identifier: MIT */
#include "peak.h"

#include "kernels.h"

uint64_t kern_peak(enum kern_wtype w, size_t rounds, const char **name)
{
    (void)w;
    *name = PEAK_WORDS_NAME;
    return peak_words(rounds);
}
