/* bench_report.c - what ml_bench has found out, for people and as JSON.
 *
 * Rates are in decimal units: 1 GB is 10^9 bytes.
 * SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench.h"
#include "console.h"
#include "cpu.h"

enum { CPU_CAP = 128 };

static const char *const limits[] = {
    [BENCH_NO_LIMIT] = "", [BENCH_MEMORY] = "memory", [BENCH_PEAK] = "peak"};

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The value at the fraction `at` of the way through sorted[n]. */
static double quantile(const double *sorted, size_t n, double at)
{
    const double place = at * (double)(n - 1);
    const size_t i = (size_t)place, next = i + 1 < n ? i + 1 : i;
    return sorted[i] + (sorted[next] - sorted[i]) * (place - (double)i);
}

struct bench_stat bench_stat(double *values, size_t n)
{
    qsort(values, n, sizeof *values, by_size);
    return (struct bench_stat){values[0], quantile(values, n, 0.25), quantile(values, n, 0.5),
                               quantile(values, n, 0.75), values[n - 1]};
}

void bench_heed_interrupt(void)
{
    if (console_interrupted()) {
        console_progress("%s", "");
        console_die_interrupted();
    }
}

/* ---- JSON ---------------------------------------------------------------------------------- */

static void json_string(const char *text)
{
    putchar('"');
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (*c == '"' || *c == '\\')
            printf("\\%c", *c);
        else if (*c < 0x20)
            printf("\\u%04x", *c);
        else
            putchar(*c);
    }
    putchar('"');
}

/* The middle of an object.  Six digits, wherever the point is: kernels differ by 10^6. */
static void json_stat(const struct bench_stat *s, double unit)
{
    printf("\"median\": %.6g, \"min\": %.6g, \"low\": %.6g, \"high\": %.6g, \"max\": %.6g",
           s->median * unit, s->min * unit, s->low * unit, s->high * unit, s->max * unit);
}

/* The beginning of both kinds of object. */
static void json_head(const char *kind)
{
    char cpu[CPU_CAP], date[32] = "";
    const time_t now = time(NULL);
    const struct tm *utc = gmtime(&now);
    kr_cpu_name(cpu, sizeof cpu);
    if (utc)
        strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", utc);
    printf("{\"kind\": \"%s\", \"version\": \"%s\", \"isa\": \"%s\", \"date\": \"%s\", \"cpu\": ",
           kind, krafla_version(), krafla_isa(), date);
    json_string(cpu);
}

static void json_cell(const struct bench_cell *c, const struct bench_plan *plan)
{
    printf("{\"threads\": %d, \"depth\": %d,\n   \"prefill\": {\"tokens\": %zu, ", (int)c->threads,
           (int)c->depth, plan->prompt);
    json_stat(&c->prefill, 1.0);
    printf(", \"gmac_per_s\": %.6g, \"peak_gmac_per_s\": %.6g, \"percent_of_peak\": %.4g},\n",
           c->prefill_macs * 1e-9, c->peak_macs * 1e-9, c->prefill_percent);
    printf("   \"decode\": {\"tokens\": %zu, ", plan->decode);
    json_stat(&c->decode, 1.0);
    printf(", \"gb_per_s\": %.6g, \"read_gb_per_s\": %.6g, \"percent_of_read\": %.4g}}",
           c->decode_bytes * 1e-9, c->read_bytes * 1e-9, c->decode_percent);
}

static void json_model(const struct bench_model_result *r, const struct bench_plan *plan)
{
    json_head("model");
    fputs(", \"model\": ", stdout);
    json_string(r->name);
    printf(", \"file_bytes\": %llu, \"weight_bytes\": %llu, \"packed\": %d, \"kv\": \"%s\", "
           "\"kv_bytes_per_position\": %llu, \"batch\": %d, \"reps\": %zu, \"load_seconds\": %.3f, "
           "\"peak\": ",
           (unsigned long long)r->info.file_bytes, (unsigned long long)r->info.weight_bytes,
           (int)r->info.packed, args_kv_types[plan->kv], (unsigned long long)r->position_bytes,
           (int)plan->batch, plan->reps, r->load_seconds);
    json_string(r->peak_name);
    fputs(", \"results\": [\n  ", stdout);
    for (size_t i = 0; i < r->n_cells; i++) {
        if (i > 0)
            fputs(",\n  ", stdout);
        json_cell(&r->cells[i], plan);
    }
    puts("]}");
}

static void json_row(const struct bench_kernel_row *k)
{
    const double seconds = k->seconds.median;
    printf("{\"case\": \"%s\", \"ns\": {", k->name);
    json_stat(&k->seconds, 1e9);
    printf("}, \"gb_per_s\": %.6g", k->bytes / seconds * 1e-9);
    if (k->macs > 0.0)
        printf(", \"gmac_per_s\": %.6g", k->macs / seconds * 1e-9);
    if (k->limit != BENCH_NO_LIMIT)
        printf(", \"limit\": \"%s\", \"percent_of_limit\": %.4g", limits[k->limit], k->percent);
    putchar('}');
}

static void json_kernels(const struct bench_kernel_result *r)
{
    static const char *const types[] = {[KERN_Q8] = "q8", [KERN_Q4] = "q4"};
    json_head("kernels");
    printf(", \"reps\": %zu, \"read_gb_per_s\": %.6g, \"peak\": {", r->reps, r->read_bytes * 1e-9);
    for (size_t w = 0; w < 2; w++) {
        printf("%s\"%s\": {\"gmac_per_s\": %.6g, \"instructions\": ", w > 0 ? ", " : "", types[w],
               r->peak_macs[w] * 1e-9);
        json_string(r->peak_name[w] ? r->peak_name[w] : "");
        putchar('}');
    }
    fputs("}, \"results\": [\n  ", stdout);
    for (size_t i = 0; i < r->n_rows; i++) {
        if (i > 0)
            fputs(",\n  ", stdout);
        json_row(&r->rows[i]);
    }
    puts("]}");
}

/* ---- text ---------------------------------------------------------------------------------- */

static void text_cell(const struct bench_cell *c, const struct bench_plan *plan,
                      const char *peak_name)
{
    const struct bench_stat *p = &c->prefill, *d = &c->decode;
    printf("%7d %6d  prefill %-6zu %9.2f %9.2f %9.2f  %8.2f GMAC/s %4.0f%% of %.1f (%s)\n",
           (int)c->threads, (int)c->depth, plan->prompt, p->median, p->min, p->max,
           c->prefill_macs * 1e-9, c->prefill_percent, c->peak_macs * 1e-9, peak_name);
    printf("%7d %6d  decode  %-6zu %9.2f %9.2f %9.2f  %8.2f GB/s   %4.0f%% of %.1f (memory)\n",
           (int)c->threads, (int)c->depth, plan->decode, d->median, d->min, d->max,
           c->decode_bytes * 1e-9, c->decode_percent, c->read_bytes * 1e-9);
}

static void text_model(const struct bench_model_result *r, const struct bench_plan *plan)
{
    char cpu[CPU_CAP];
    kr_cpu_name(cpu, sizeof cpu);
    struct console_text name = console_text(); /* it is the file's: no controls to the terminal */
    console_write(&name, r->name, strlen(r->name));
    printf(": %.1f MiB, packed: %d, loaded in %.2f s\n", (double)r->info.file_bytes / (1 << 20),
           (int)r->info.packed, r->load_seconds);
    printf("%s, isa: %s, kv: %s, batch: %d, medians of %zu\n", cpu, krafla_isa(),
           args_kv_types[plan->kv], (int)plan->batch, plan->reps);
    printf("\n%7s %6s  %-14s %9s %9s %9s  %s\n", "threads", "depth", "test", "tok/s", "min", "max",
           "of what this machine gives now");
    for (size_t i = 0; i < r->n_cells; i++)
        text_cell(&r->cells[i], plan, r->peak_name);
}

static void text_kernels(const struct bench_kernel_result *r)
{
    char cpu[CPU_CAP];
    kr_cpu_name(cpu, sizeof cpu);
    printf("%s, isa: %s, one thread, medians of %zu\n", cpu, krafla_isa(), r->reps);
    printf("hot: as many rows as %d KiB hold, again and again; cold: through %d MiB\n",
           BENCH_HOT_BYTES >> 10, BENCH_COLD_BYTES >> 20);
    if (r->read_bytes > 0.0)
        printf("memory: %.1f GB/s\n", r->read_bytes * 1e-9);
    if (r->peak_macs[KERN_Q4] > 0.0)
        printf("peak q4: %.1f GMAC/s (%s)\n", r->peak_macs[KERN_Q4] * 1e-9, r->peak_name[KERN_Q4]);
    if (r->peak_macs[KERN_Q8] > 0.0)
        printf("peak q8: %.1f GMAC/s (%s)\n", r->peak_macs[KERN_Q8] * 1e-9, r->peak_name[KERN_Q8]);
    printf("\n%-52s %12s %12s %8s %8s\n", "kernel", "ns", "min", "GB/s", "GMAC/s");
    for (size_t i = 0; i < r->n_rows; i++) {
        const struct bench_kernel_row *k = &r->rows[i];
        const double seconds = k->seconds.median;
        printf("%-52s %12.0f %12.0f %8.2f ", k->name, seconds * 1e9, k->seconds.min * 1e9,
               k->bytes / seconds * 1e-9);
        if (k->macs > 0.0)
            printf("%8.2f", k->macs / seconds * 1e-9);
        else
            printf("%8s", "");
        if (k->limit != BENCH_NO_LIMIT)
            printf("  %3.0f%% of %s", k->percent, limits[k->limit]);
        putchar('\n');
    }
}

void bench_print_model(const struct bench_model_result *r, const struct bench_plan *plan, bool json)
{
    if (json)
        json_model(r, plan);
    else
        text_model(r, plan);
}

void bench_print_kernels(const struct bench_kernel_result *r, bool json)
{
    if (json)
        json_kernels(r);
    else
        text_kernels(r);
}
