/* test_snapshots.c - which copies of a state are kept, and that they come back whole.
 * SPDX-License-Identifier: MIT */
#include "unit.h"

#include <stdint.h>

#include "snapshots.h"

enum { STATE = 37, HIDDEN = 5, SLOT_BYTES = (48 + 16) * 4 };

static float state[STATE], hidden[HIDDEN];

/* A state that only this position has. */
static void set(size_t pos)
{
    for (size_t i = 0; i < STATE; i++)
        state[i] = (float)(pos * 100 + i);
    for (size_t i = 0; i < HIDDEN; i++)
        hidden[i] = (float)(pos * 100 + 50 + i);
}

static void add(struct kr_snapshots *s, size_t pos, bool boundary)
{
    set(pos);
    kr_snapshots_add(s, pos, boundary, state, hidden);
}

/* Every kept state is that of its position. */
static void expect_whole(const struct kr_snapshots *s)
{
    for (size_t i = 0; i < s->n; i++) {
        float got[STATE], row[HIDDEN];
        EXPECT(i == 0 || s->kept[i - 1].pos < s->kept[i].pos);
        EXPECT(kr_snapshots_find(s, s->kept[i].pos) == &s->kept[i]);
        kr_snapshots_load(s, &s->kept[i], got, row);
        set(s->kept[i].pos);
        EXPECT(memcmp(got, state, sizeof got) == 0 && memcmp(row, hidden, sizeof row) == 0);
    }
}

static bool has(const struct kr_snapshots *s, size_t pos)
{
    const struct kr_snapshot *k = kr_snapshots_find(s, pos);
    return k && k->pos == pos;
}

static void memory_bounds_the_slots(void)
{
    struct kr_snapshots s;
    kr_snapshots_alloc(&s, STATE, HIDDEN, SLOT_BYTES * 3 + 1);
    EXPECT(s.slots == 3 && s.bytes == SLOT_BYTES * 3);
    kr_snapshots_free(&s);
    kr_snapshots_alloc(&s, STATE, HIDDEN, UINT64_MAX);
    EXPECT(s.slots == KR_MAX_SNAPSHOTS);
    kr_snapshots_free(&s);
    kr_snapshots_alloc(&s, STATE, HIDDEN, SLOT_BYTES - 1);
    EXPECT(s.slots == 0 && s.base == NULL);
    EXPECT(!kr_snapshots_due(&s, 1000));
    add(&s, 7, true);
    EXPECT(s.n == 0 && kr_snapshots_find(&s, 100) == NULL);
    kr_snapshots_free(&s);
}

/* A long prompt in steps of 128: the largest gap is at most a few times the mean. */
static void a_long_timeline_is_covered_evenly(void)
{
    static const size_t lengths[] = {500, 3000, 10000, 100000};
    struct kr_snapshots s;
    for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
        kr_snapshots_alloc(&s, STATE, HIDDEN, SLOT_BYTES * 8);
        for (size_t pos = 128; pos <= lengths[k]; pos += 128)
            if (kr_snapshots_due(&s, pos))
                add(&s, pos, false);
        expect_whole(&s);
        size_t before = 0, widest = 0;
        for (size_t i = 0; i <= s.n; i++) {
            const size_t pos = i < s.n ? s.kept[i].pos : lengths[k];
            widest = pos - before > widest ? pos - before : widest;
            before = pos;
        }
        EXPECT(s.n >= 3 && widest <= 128 + 3 * lengths[k] / 8);
        kr_snapshots_free(&s);
    }
}

static void the_last_turn_stays(void)
{
    struct kr_snapshots s;
    for (size_t slots = 1; slots <= 4; slots++) {
        kr_snapshots_alloc(&s, STATE, HIDDEN, SLOT_BYTES * slots);
        for (size_t pos = 100; pos < 2000; pos += 300) {
            add(&s, pos, true);      /* the reply ended */
            add(&s, pos + 20, true); /* the next prompt */
            for (size_t p = pos + 128; p < pos + 300; p += 30)
                if (kr_snapshots_due(&s, p))
                    add(&s, p, false);
            EXPECT(has(&s, pos + 20) && (slots == 1 || has(&s, pos)));
            expect_whole(&s);
        }
        kr_snapshots_free(&s);
    }
}

static void boundaries_outlive_a_spread(void)
{
    struct kr_snapshots s;
    kr_snapshots_alloc(&s, STATE, HIDDEN, SLOT_BYTES * 4);
    add(&s, 100, true);
    add(&s, 228, false);
    add(&s, 356, false);
    add(&s, 484, true);
    add(&s, 500, true);
    EXPECT(has(&s, 100) && has(&s, 484) && has(&s, 500) && s.n == 4);
    kr_snapshots_add(&s, 500, false, state, hidden); /* stays what it is */
    EXPECT(s.n == 4 && s.kept[3].boundary);
    kr_snapshots_free(&s);
}

static void what_lies_behind_a_cut_is_gone_and_its_room_is_used_again(void)
{
    struct kr_snapshots s;
    kr_snapshots_alloc(&s, STATE, HIDDEN, SLOT_BYTES * 3);
    add(&s, 10, true);
    add(&s, 20, true);
    add(&s, 30, true);
    kr_snapshots_cut(&s, 20);
    EXPECT(has(&s, 10) && has(&s, 20) && s.n == 2);
    EXPECT(kr_snapshots_find(&s, 9) == NULL && kr_snapshots_find(&s, 29)->pos == 20);
    for (size_t pos = 21; pos < 60; pos += 3) {
        add(&s, pos, pos % 2);
        expect_whole(&s);
        EXPECT(s.n == 3);
        if (pos % 4 == 0)
            kr_snapshots_cut(&s, pos - 1);
        if (s.n < 3)
            add(&s, pos + 1, true);
    }
    kr_snapshots_cut(&s, 0);
    EXPECT(s.n == 0);
    kr_snapshots_free(&s);
}

int main(void)
{
    memory_bounds_the_slots();
    a_long_timeline_is_covered_evenly();
    the_last_turn_stays();
    boundaries_outlive_a_spread();
    what_lies_behind_a_cut_is_gone_and_its_room_is_used_again();
    return unit_done("test_snapshots");
}
