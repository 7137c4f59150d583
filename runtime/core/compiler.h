/* compiler.h - the only place that knows compilers apart.
 * SPDX-License-Identifier: MIT */
#ifndef KR_COMPILER_H
#define KR_COMPILER_H

#if defined(__GNUC__)
#define KR_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define KR_INLINE static inline __attribute__((always_inline))
#define KR_NOINLINE __attribute__((noinline))
#define KR_ALIGNED(n) __attribute__((aligned(n)))
#define KR_UNLIKELY(x) __builtin_expect(!!(x), 0)
#else
#define KR_PRINTF(fmt, args)
#define KR_INLINE static __forceinline
#define KR_NOINLINE __declspec(noinline)
#define KR_ALIGNED(n) __declspec(align(n))
#define KR_UNLIKELY(x) (x)
#endif

#endif
