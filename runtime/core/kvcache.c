/* kvcache.c - sizes and addresses of the KV cache; what is in it is the kernels' business.
 * SPDX-License-Identifier: MIT */
#include "kvcache.h"

#include "map.h"

enum { ALIGN = 64 };

bool kr_kvcache_plan(struct kr_kvcache *c, enum kern_kvtype type, size_t n_ctx, size_t layers,
                     size_t heads, size_t head_dim)
{
    *c = (struct kr_kvcache){.layers = layers, .heads = heads, .head_dim = head_dim, .type = type};

    const size_t positions = n_ctx < KERN_SEGMENT ? kr_round_up(n_ctx, KERN_LANES) : KERN_SEGMENT;

    /* head_dim is at most 65536: these fit 32 bits. */
    const size_t padded = kr_round_up(head_dim, KERN_LANES), element = kern_kv_element(type);
    c->k_bytes = positions * (type == KERN_KV_Q8 ? padded : head_dim) * element;
    c->k_bytes = kr_round_up(c->k_bytes, ALIGN);
    c->v_bytes = positions * padded * element;
    c->scale_bytes = type == KERN_KV_Q8 ? positions * sizeof(float) : 0;
    c->head_bytes = c->k_bytes + c->v_bytes + 2 * c->scale_bytes;

    const size_t segments = (n_ctx + KERN_SEGMENT - 1) / KERN_SEGMENT;
    return kr_size_mul(&c->bytes, c->head_bytes, heads) &&
           kr_size_mul(&c->bytes, c->bytes, layers) && kr_size_mul(&c->bytes, c->bytes, segments);
}

bool kr_kvcache_alloc(struct kr_kvcache *c)
{
    c->base = kr_big_alloc(c->bytes);
    return c->base != NULL;
}

void kr_kvcache_free(struct kr_kvcache *c)
{
    if (c->base)
        kr_big_free(c->base, c->bytes);
    c->base = NULL;
}

struct kern_kv kr_kvcache_at(const struct kr_kvcache *c, size_t layer, size_t head, size_t segment)
{
    uint8_t *at = c->base + ((segment * c->layers + layer) * c->heads + head) * c->head_bytes;
    uint8_t *scales = at + c->k_bytes + c->v_bytes;
    return (struct kern_kv){
        .k = at,
        .v = at + c->k_bytes,
        .ks = c->scale_bytes ? (float *)(void *)scales : NULL,
        .vs = c->scale_bytes ? (float *)(void *)(scales + c->scale_bytes) : NULL,
        .head_dim = (uint32_t)c->head_dim,
        .type = (uint8_t)c->type,
    };
}

void kr_kvcache_clear(const struct kr_kvcache *c, size_t pos0, size_t pos1, const float *zero)
{
    for (size_t pos = pos0; pos < pos1; pos++)
        for (size_t layer = 0; layer < c->layers; layer++)
            for (size_t head = 0; head < c->heads; head++) {
                const struct kern_kv kv = kr_kvcache_at(c, layer, head, pos / KERN_SEGMENT);
                kern_kv_store(&kv, pos % KERN_SEGMENT, zero, zero);
            }
}
