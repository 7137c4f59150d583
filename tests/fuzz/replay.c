/* replay.c - feed files to a fuzz target without a fuzzer: the committed corpus is a test
 * everywhere.
 *
 * make ISA=scalar fuzz builds <target> from fuzz_<target>.c and this file.  With libFuzzer in its
 * place (here for the model file; its sources are the core and one set of kernels):
 *
 *   clang -g -O1 -fsanitize=fuzzer,address,undefined -D_GNU_SOURCE \
 *       -Iruntime/include -Iruntime/core -Iruntime/kernels -o /tmp/fuzz_mlb tests/fuzz/fuzz_mlb.c \
 *       runtime/core/{mlb,envelope,json,sha256,error,map_posix,pack}.c
 *   /tmp/fuzz_mlb -max_len=8192 /tmp/corpus tests/fuzz/corpus/fuzz_mlb
 *
 * SPDX-License-Identifier: MIT */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Feed one file; false if it cannot be read. */
static int feed(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END) != 0) {
        perror(path);
        return 0;
    }
    const size_t size = (size_t)ftell(f);
    rewind(f);
    uint8_t *data = malloc(size ? size : 1); /* exact: a sanitizer sees a read past the end */
    const int ok = data && fread(data, 1, size, f) == size;
    fclose(f);
    if (ok)
        LLVMFuzzerTestOneInput(data, size);
    else
        fprintf(stderr, "%s: cannot be read\n", path);
    free(data);
    return ok;
}

int main(int argc, char **argv)
{
    int fed = 0;
    for (int i = 1; i < argc; i++)
        fed += feed(argv[i]);
    printf("%s: %d of %d inputs\n", argv[0], fed, argc - 1);
    return fed != argc - 1;
}
