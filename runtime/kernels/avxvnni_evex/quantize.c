/* avxvnni_evex/quantize.c - the source of avxvnni in EVEX encoding, for its tests.
 * SPDX-License-Identifier: MIT */
#include "../avxvnni/quantize.c"
