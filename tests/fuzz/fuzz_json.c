/* fuzz_json.c - parse any bytes as JSON and ask every value for everything.
 *
 * replay.c has the command for running it.
 * SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds)
{
    if (!holds)
        abort();
}

/* Ask object `object` for its member `key` in every type. */
static void ask(const struct kr_json *j, size_t object, const char *key)
{
    static const char *const only[] = {"a", "b", "x_*", NULL};
    krafla_error err = {0};
    int64_t integer;
    double number;
    bool boolean;
    char text[16];
    size_t value;
    kr_json_int(j, object, key, -100, INT64_MAX, &integer, &err);
    kr_json_double(j, object, key, -1e30, 1e30, &number, &err);
    kr_json_bool(j, object, key, &boolean, &err);
    kr_json_string(j, object, key, text, sizeof text, &err);
    kr_json_member(j, object, key, KR_JSON_ARRAY, &value, &err);
    kr_json_only(j, object, "what", only, &err);
    check(strlen(err.message) < sizeof err.message && !strchr(err.message, '\n'));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kr_json j;
    krafla_error err = {0};
    if (kr_json_parse(&j, (const char *)data, size, "fuzz", &err) != KRAFLA_OK) {
        check(err.message[0] && !strchr(err.message, '\n'));
        return 0;
    }
    check(j.n_values > 0 && j.values[0].next == j.n_values);
    for (size_t v = 0; v < j.n_values; v++) {
        const struct kr_json_value *value = &j.values[v];
        check(value->start + (size_t)value->length <= size);
        check(value->next > v && value->next <= j.n_values);
        char text[64];
        int64_t integer;
        kr_json_string_at(&j, v, "value", text, sizeof text, &err);
        kr_json_int_at(&j, v, "value", 0, 100, &integer, &err);
        if (value->type == KR_JSON_OBJECT)
            ask(&j, v, "a");
    }
    kr_json_free(&j);
    return 0;
}
