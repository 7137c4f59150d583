/* model.h - a loaded model: the checked file, and its matrices where they are used from.
 *
 * Packing and the pack cache (model_pack.c, packcache.c) change only where the
 * matrices of `file` point to.  An untied embedding is a table of lookups: it
 * stays in the file and is not one of the matrices here.
 * SPDX-License-Identifier: MIT */
#ifndef KR_MODEL_H
#define KR_MODEL_H

#include "arena.h"
#include "mlb.h"
#include "progress.h"

/* A matrix of `file`, and what to call it. */
struct kr_model_matrix {
    struct kern_matrix *w;
    const char *name; /* "wq", or of the whole model: "classifier" */
    int32_t layer;    /* -1: of the whole model */
};

struct krafla_model {
    struct kr_mlb file;
    struct kr_model_matrix *matrix; /* in the order of use: layer by layer, then the classifier */
    size_t matrices;
    struct kr_arena vectors; /* copies of all f32 tensors, so that their pages can go */
    void *weights;           /* packed copy, or NULL */
    size_t weights_bytes;
    struct kr_envelope cache; /* the pack cache that is used instead, or zero */
    int32_t packed;           /* rows per panel; 0: the matrices are used as they lie in the file */
};

/* Make the list of the matrices. */
krafla_status kr_model_list(struct krafla_model *m, const char *path, krafla_error *err);
/* Their bytes as they lie in memory now. */
uint64_t kr_model_weight_bytes(const struct krafla_model *m);

/* Bytes of all matrices in this build's layout, one after the other; 0 if that does not fit. */
size_t kr_model_packed_bytes(const struct krafla_model *m);
/* From now on the matrices are the packed ones at base, which has room for all. */
void kr_model_use_packed(struct krafla_model *m, const void *base);

/* Pack every matrix into fresh memory with `threads` threads, giving the file's pages back as
 * it goes.  A damaged matrix is refused by name.  Progress counts the file's bytes. */
krafla_status kr_model_pack(struct krafla_model *m, const char *path, size_t threads,
                            struct kr_progress *progress, krafla_error *err);
/* The checks of packing alone, for a model that is used as it lies in the file. */
krafla_status kr_model_check(struct krafla_model *m, const char *path, size_t threads,
                             struct kr_progress *progress, krafla_error *err);

/* Use the pack cache beside the model file.  False if there is none for exactly this file and
 * build; the model is unchanged then.  Progress counts the cache's bytes once. */
bool kr_packcache_load(struct krafla_model *m, const char *path, struct kr_progress *progress);
/* Write it from the packed copy, atomically.  That it cannot be written is no error: the model
 * works without.  Progress counts its bytes twice: hashed and written. */
void kr_packcache_save(const struct krafla_model *m, const char *path,
                       struct kr_progress *progress);
/* Write head and data to path in one step (temporary file, flush to disk, rename).  Progress
 * counts the data. */
bool kr_packcache_write(const char *path, const void *head, size_t head_bytes, const void *data,
                        size_t data_bytes, struct kr_progress *progress);

#endif
