/* avxvnni_evex/matmul.c - the source of avxvnni in EVEX encoding, for its tests.
 * SPDX-License-Identifier: MIT */
#include "../avxvnni/matmul.c"
