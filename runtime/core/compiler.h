/* compiler.h - the only place that knows compilers apart.
 * SPDX-License-Identifier: MIT */
#ifndef KR_COMPILER_H
#define KR_COMPILER_H

#if defined(__MINGW32__) /* its own printf, which _GNU_SOURCE chooses, not msvcrt's */
#define KR_PRINTF(fmt, args) __attribute__((format(gnu_printf, fmt, args)))
#elif defined(__GNUC__)
#define KR_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define KR_PRINTF(fmt, args)
#endif

#if defined(__GNUC__)
#define KR_INLINE static inline __attribute__((always_inline))
#define KR_NOINLINE __attribute__((noinline))
#define KR_ALIGNED(n) __attribute__((aligned(n)))
#define KR_PREFETCH(p) __builtin_prefetch(p)
#define KR_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define KR_NO_SANITIZE __attribute__((no_sanitize("address", "thread", "undefined")))
#else
#define KR_INLINE static __forceinline
#define KR_NOINLINE __declspec(noinline)
#define KR_ALIGNED(n) __declspec(align(n))
#define KR_PREFETCH(p) ((void)(p))
#define KR_UNLIKELY(x) (x)
#define KR_NO_SANITIZE
#endif

/* Before a `for` with few, constant rounds over an array that has to become registers; and before
 * one that must stay a loop of two rounds at a time, because unrolled it would need too many. */
#if defined(__clang__)
#define KR_UNROLL _Pragma("clang loop unroll(full)")
#define KR_UNROLL_BY_2 _Pragma("clang loop unroll_count(2)")
#elif defined(__GNUC__)
#define KR_UNROLL _Pragma("GCC unroll 16")
#define KR_UNROLL_BY_2 _Pragma("GCC unroll 2")
#else
#define KR_UNROLL
#define KR_UNROLL_BY_2
#endif

/* Leave no AVX state behind for SSE code, which some cores run at half speed beside it.  An SSE
 * build has no name for the instruction, so it is given as bytes. */
#if defined(__GNUC__) && defined(__x86_64__)
#define KR_CLEAR_UPPER()                                                                           \
    do {                                                                                           \
        if (__builtin_cpu_supports("avx"))                                                         \
            __asm__ volatile(".byte 0xc5, 0xf8, 0x77" ::: "memory"); /* vzeroupper */              \
    } while (0)
#else
#define KR_CLEAR_UPPER() ((void)0)
#endif

/* The compiler takes the vector variable v for changed: a loop over it is neither folded nor hoisted
 * (kern_peak).  Elsewhere a measured peak may be wrong. */
#if defined(__GNUC__) && defined(__x86_64__)
#define KR_OPAQUE(v) __asm__ volatile("" : "+x"(v))
#elif defined(__GNUC__) && (defined(__aarch64__) || defined(__arm__))
#define KR_OPAQUE(v) __asm__ volatile("" : "+w"(v))
#else
#define KR_OPAQUE(v) ((void)(v))
#endif

/* Tell the core that this is a spin loop. */
#if defined(__GNUC__) && defined(__x86_64__)
#define KR_PAUSE() __builtin_ia32_pause()
#elif defined(__GNUC__) && defined(__aarch64__)
#define KR_PAUSE() __asm__ volatile("isb" ::: "memory") /* yield is a no-op on most cores */
#elif defined(__GNUC__) && defined(__arm__)
#define KR_PAUSE() __asm__ volatile("yield" ::: "memory")
#else
#define KR_PAUSE() ((void)0)
#endif

#endif
