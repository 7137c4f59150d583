/* avxvnni_evex/dot.h - the source of avxvnni in EVEX encoding, for its tests.
 * SPDX-License-Identifier: MIT */
#include "../avxvnni/dot.h"
