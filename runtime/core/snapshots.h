/* snapshots.h - copies of a hybrid model's state, from which a changed timeline goes on.
 *
 * Keys and values of any prefix stay in the KV cache; the state of linear layers
 * is that of one position.  So copies are kept: of the boundaries of turns, where
 * most changes begin, and of positions spread over the timeline.  All are of
 * prefixes of the one timeline of their session.
 * SPDX-License-Identifier: MIT */
#ifndef KR_SNAPSHOTS_H
#define KR_SNAPSHOTS_H

#include "error.h"

enum {
    KR_MAX_SNAPSHOTS = 64,
    KR_SNAPSHOT_STEP = 128, /* positions that are evaluated at least between two of a spread */
};

/* Slot `slot` holds the state after tokens [0, pos). */
struct kr_snapshot {
    size_t pos, slot;
    bool boundary; /* of a turn */
};

struct kr_snapshots {
    float *base; /* [slots][state_floats | hidden_floats], each to a multiple of 16 */
    size_t slots, slot_floats;
    size_t state_floats, hidden_floats;
    size_t bytes;
    struct kr_snapshot kept[KR_MAX_SNAPSHOTS]; /* [n] in ascending positions; behind: free slots */
    size_t n;
};

/* Memory for as many as fit in most_bytes, none if not even one does or there is no memory.  hidden:
 * the floats of the last token that its logits are computed from. */
void kr_snapshots_alloc(struct kr_snapshots *s, size_t state_floats, size_t hidden_floats,
                        uint64_t most_bytes);
void kr_snapshots_free(struct kr_snapshots *s);

/* Whether one of the spread is due after tokens [0, pos). */
bool kr_snapshots_due(const struct kr_snapshots *s, size_t pos);
/* Keep a copy for pos, the last there is; one of that position becomes a boundary if this is one.
 * When there is no room, the one goes whose loss makes the smallest gap.  For a spread, the last two
 * boundaries stay. */
void kr_snapshots_add(struct kr_snapshots *s, size_t pos, bool boundary, const float *state,
                      const float *hidden);
/* Forget those behind pos. */
void kr_snapshots_cut(struct kr_snapshots *s, size_t pos);
/* The last one at pos or before; NULL if there is none. */
const struct kr_snapshot *kr_snapshots_find(const struct kr_snapshots *s, size_t pos);
void kr_snapshots_load(const struct kr_snapshots *s, const struct kr_snapshot *from, float *state,
                       float *hidden);

#endif
