/* tmpl/dot_ymm.h - integers in ymm registers: what the instruction sets of 256 bits share.
 * SPDX-License-Identifier: MIT */
#ifndef TMPL_DOT_YMM_H
#define TMPL_DOT_YMM_H

#include <string.h>

#include <vec.h>

#include "compiler.h"

/* The four bytes at p, in every lane. */
KR_INLINE __m256i dot_broadcast(const void *p)
{
    int32_t quad;
    memcpy(&quad, p, sizeof quad);
    return _mm256_set1_epi32(quad);
}

KR_INLINE vf dot_to_float(__m256i lo, __m256i hi)
{
    return (vf){_mm256_cvtepi32_ps(lo), _mm256_cvtepi32_ps(hi)};
}

#endif
