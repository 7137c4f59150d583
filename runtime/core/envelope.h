/* envelope.h - the common frame of .mlb, .mlt and pack-cache files (docs/format-mlb.md):
 * magic, version, JSON header, padding to 64, data.
 *
 * kr_envelope_open maps the file and validates the frame; what the header says
 * about the data is the caller's business.  A file that is something else
 * (HTML, Git LFS pointer, GGUF, safetensors, the original's MLB1, truncated,
 * empty) is named as such in the error.
 * SPDX-License-Identifier: MIT */
#ifndef KR_ENVELOPE_H
#define KR_ENVELOPE_H

#include "error.h"
#include "json.h"
#include "map.h"
#include "progress.h"

struct kr_envelope {
    struct kr_map map;    /* the whole file, read-only; zero after kr_envelope_parse */
    struct kr_json json;  /* the parsed header; the five common keys are checked */
    const uint8_t *data;  /* first data byte, 64-byte aligned in the file */
    size_t data_bytes;    /* equals the header's "data_bytes" and what the file holds */
    char data_sha256[65]; /* of the header */
};

/* kind is "mlb", "mlt" or "pk": it chooses the magic and must equal the header's "format".
 * path is borrowed until close: it names the file in errors about the header. */
krafla_status kr_envelope_open(struct kr_envelope *e, const char *path, const char *kind,
                               krafla_error *err);
/* The same over a file's bytes in memory, which stay the caller's until close; path names them. */
krafla_status kr_envelope_parse(struct kr_envelope *e, const void *memory, size_t size,
                                const char *path, const char *kind, krafla_error *err);
void kr_envelope_close(struct kr_envelope *e);

/* Compare the data with data_sha256 (reads everything).  progress may be NULL. */
krafla_status kr_envelope_verify(const struct kr_envelope *e, const char *path,
                                 struct kr_progress *progress, krafla_error *err);

#endif
