/* avxvnni_evex/vec.h - the source of avxvnni in EVEX encoding, for its tests.
 * SPDX-License-Identifier: MIT */
#include "../avxvnni/vec.h"
