/* tokenizer.h - what the rest of the library may ask a tokenizer beside krafla.h.
 * SPDX-License-Identifier: MIT */
#ifndef KR_TOKENIZER_H
#define KR_TOKENIZER_H

#include <stdbool.h>

#include "krafla.h"

/* Whether there is a token of this id: a vocabulary may have holes. */
bool kr_tokenizer_has(const krafla_tokenizer *t, int32_t id);

#endif
