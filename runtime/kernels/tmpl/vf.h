/* tmpl/vf.h - the vocabulary every <isa>/vec.h provides: one vector of 16
 * floats, whatever the registers' width (1 zmm, 2 ymm, 4 xmm or q, 16 floats).
 *
 * Because all float code is written over these 16 lanes, every reduction has
 * the same tree on every ISA, and a class gives the same bits by construction.
 *
 *   typedef ... vf;
 *   vf   vf_set1(float)                   vf   vf_load(const float *)        unaligned
 *   void vf_store(float *, vf)            unaligned
 *   vf   vf_load_n(const float *, size_t n)   lanes >= n are 0, and not read; n < 16
 *   void vf_store_n(float *, vf, size_t n)    lanes >= n are not written;    n < 16
 *   vf   vf_add, vf_sub, vf_mul, vf_div, vf_max, vf_min (vf a, vf b)
 *   vf   vf_fma(vf a, vf b, vf c)         c + a*b: one rounding (fused) or two (unfused)
 *   vf   vf_fnma(vf a, vf b, vf c)        c - a*b, likewise
 *   vf   vf_abs(vf), vf_rint(vf)          to nearest even; |x| < 2^22 for rint
 *   vf   vf_ldexp(vf p, vf n)             p * 2^n, added to the exponent; n integer, -126..127
 *   vf   vf_swap_pairs(vf)                lanes 1,0,3,2,...
 *   vf   vf_keep(vf v, size_t lo, size_t hi, vf other)   v where lo <= lane < hi <= 16, else other
 *   float vf_sum(vf)                      ((l0+l8)+(l4+l12)) + ... : halves added, 8, 4, 2, 1
 *   float vf_amax(vf)                     the largest lane (no NaN among them)
 *   vf   vf_load_f16(const uint16_t *)    exact, subnormals too
 *   void vf_store_f16(uint16_t *, vf)     to nearest even, overflow to infinity
 *   vf   vf_load_i8(const int8_t *)       exact
 *   void vf_store_i8(int8_t *, vf)        lanes are integers in -127..127
 *
 * This header holds no code: it is the list that docs/kernels.md and the lint refer to.
 * SPDX-License-Identifier: MIT */
