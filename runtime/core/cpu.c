/* cpu.c - the guard: may this build run here?
 *
 * KR_ISA and KR_ISA_NEEDS come from isas.txt through the build.
 * SPDX-License-Identifier: MIT */
#include "cpu.h"

#include <string.h>

#include "ml.h"

const char *krafla_version(void)
{
    return ML_VERSION;
}

const char *krafla_isa(void)
{
    return KR_ISA;
}

static bool has(const char *name, size_t length, uint32_t features)
{
    for (size_t i = 0; kr_cpu_features[i]; i++)
        if (strlen(kr_cpu_features[i]) == length && memcmp(kr_cpu_features[i], name, length) == 0)
            return features >> i & 1;
    return false;
}

const char *kr_cpu_missing(const char *needs, uint32_t features, size_t *length)
{
    for (const char *name = needs + strspn(needs, " "); *name; name += strspn(name, " ")) {
        *length = strcspn(name, " ");
        if (!has(name, *length, features))
            return name;
        name += *length;
    }
    return NULL;
}

int32_t krafla_cpu_has(const char *features)
{
    size_t length;
    return !kr_cpu_missing(features, kr_cpu_detect(), &length);
}

krafla_status krafla_cpu_check(krafla_error *err)
{
    size_t length;
    const char *name = kr_cpu_missing(KR_ISA_NEEDS, kr_cpu_detect(), &length);
    if (name)
        return kr_fail(err, KRAFLA_E_CPU, "CPU lacks %.*s required by ISA=%s", (int)length, name,
                       KR_ISA);
    return KRAFLA_OK;
}
