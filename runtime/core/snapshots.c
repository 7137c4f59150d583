/* snapshots.c - which copies of the state are kept.
 *
 * A copy is worth the gap it would leave: so many tokens more would be evaluated
 * for a change inside it.  A boundary of a turn is worth several times that.
 * SPDX-License-Identifier: MIT */
#include "snapshots.h"

#include <assert.h>
#include <string.h>

#include "map.h"

enum {
    ALIGN_FLOATS = 16,
    BOUNDARY_WORTH = 4, /* times the gap */
    TURN_BOUNDARIES = 2 /* start and end of the last one: not for a spread to push out */
};

/* Where the hidden row lies in a slot. */
static size_t hidden_at(const struct kr_snapshots *s)
{
    return kr_round_up(s->state_floats, ALIGN_FLOATS);
}

void kr_snapshots_alloc(struct kr_snapshots *s, size_t state_floats, size_t hidden_floats,
                        uint64_t most_bytes)
{
    *s = (struct kr_snapshots){.state_floats = state_floats, .hidden_floats = hidden_floats};
    /* Both exist in memory already, so their sum fits. */
    s->slot_floats = hidden_at(s) + kr_round_up(hidden_floats, ALIGN_FLOATS);
    const size_t slot_bytes = s->slot_floats * sizeof(float);
    const uint64_t most = most_bytes < SIZE_MAX / 2 ? most_bytes : SIZE_MAX / 2;
    const uint64_t fit = most / slot_bytes;
    s->slots = fit < KR_MAX_SNAPSHOTS ? (size_t)fit : KR_MAX_SNAPSHOTS;
    while (s->slots > 0) {
        s->bytes = s->slots * slot_bytes;
        s->base = kr_big_alloc(s->bytes);
        if (s->base)
            break;
        s->slots /= 2;
    }
    for (size_t i = 0; i < s->slots; i++)
        s->kept[i].slot = i;
}

void kr_snapshots_free(struct kr_snapshots *s)
{
    if (s->base)
        kr_big_free(s->base, s->bytes);
    *s = (struct kr_snapshots){0};
}

bool kr_snapshots_due(const struct kr_snapshots *s, size_t pos)
{
    if (s->slots == 0)
        return false;
    const size_t last = s->n > 0 ? s->kept[s->n - 1].pos : 0;
    const size_t even = pos / s->slots;
    return pos - last >= (even > KR_SNAPSHOT_STEP ? even : KR_SNAPSHOT_STEP);
}

/* The one to give up for another at pos, or s->n: none. */
static size_t find_victim(const struct kr_snapshots *s, size_t pos, bool boundary)
{
    size_t sacred = boundary ? TURN_BOUNDARIES - 1 : TURN_BOUNDARIES; /* boundaries from the end */
    size_t victim = s->n, least = SIZE_MAX;
    for (size_t i = s->n; i-- > 0;) {
        const struct kr_snapshot *k = &s->kept[i];
        if (k->boundary && sacred > 0) {
            sacred--;
            continue;
        }
        const size_t before = i > 0 ? s->kept[i - 1].pos : 0;
        const size_t after = i + 1 < s->n ? s->kept[i + 1].pos : pos;
        const size_t worth = (after - before) * (k->boundary ? BOUNDARY_WORTH : 1);
        if (worth < least) {
            least = worth;
            victim = i;
        }
    }
    return victim == s->n && boundary ? 0 : victim;
}

void kr_snapshots_add(struct kr_snapshots *s, size_t pos, bool boundary, const float *state,
                      const float *hidden)
{
    if (s->slots == 0)
        return;
    struct kr_snapshot *last = s->n > 0 ? &s->kept[s->n - 1] : NULL;
    assert(!last || last->pos <= pos);
    if (last && last->pos == pos) {
        last->boundary |= boundary;
        return;
    }
    if (s->n == s->slots) {
        const size_t victim = find_victim(s, pos, boundary);
        if (victim == s->n)
            return;
        const struct kr_snapshot gone = s->kept[victim];
        s->n--;
        memmove(&s->kept[victim], &s->kept[victim + 1], (s->n - victim) * sizeof gone);
        s->kept[s->n] = gone;
    }
    struct kr_snapshot *k = &s->kept[s->n++];
    k->pos = pos;
    k->boundary = boundary;
    float *to = s->base + k->slot * s->slot_floats;
    memcpy(to, state, s->state_floats * sizeof *to);
    memcpy(to + hidden_at(s), hidden, s->hidden_floats * sizeof *to);
}

void kr_snapshots_cut(struct kr_snapshots *s, size_t pos)
{
    while (s->n > 0 && s->kept[s->n - 1].pos > pos)
        s->n--;
}

const struct kr_snapshot *kr_snapshots_find(const struct kr_snapshots *s, size_t pos)
{
    for (size_t i = s->n; i-- > 0;)
        if (s->kept[i].pos <= pos)
            return &s->kept[i];
    return NULL;
}

void kr_snapshots_load(const struct kr_snapshots *s, const struct kr_snapshot *from, float *state,
                       float *hidden)
{
    const float *slot = s->base + from->slot * s->slot_floats;
    memcpy(state, slot, s->state_floats * sizeof *state);
    memcpy(hidden, slot + hidden_at(s), s->hidden_floats * sizeof *hidden);
}
