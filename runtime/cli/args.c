/* args.c - option tables, strict numbers and the page of --help.
 *
 * Reads nothing but argv.  strtod is safe here: no program calls setlocale, so
 * the decimal point is a point.
 * SPDX-License-Identifier: MIT */
#include "args.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "console.h"

enum {
    HELP_COLUMN = 23, /* where the sentences of --help start */
    HELP_WIDTH = 96,
    NAME_CAP = 32,      /* longer than any option name */
    NUMBER_CAP = 64,    /* than any number that says something */
    MESSAGE_CAP = 1024, /* the words of the user in it are shortened */
};

const char *const args_kv_types[] = {"f32", "f16", "q8", NULL};

int args_failed(const krafla_error *err)
{
    console_progress("%s", "");
    console_error("%s", err->message);
    switch (err->status) {
    case KRAFLA_OK:
        return ARGS_OK;
    case KRAFLA_E_ARGUMENT:
        return ARGS_USAGE;
    case KRAFLA_E_CPU:
        return ARGS_CPU;
    default:
        return ARGS_RUNTIME;
    }
}

int args_usage_error(const struct args_program *p, const char *fmt, ...)
{
    char message[MESSAGE_CAP];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(message, sizeof message, fmt, ap);
    va_end(ap);
    console_error("%s (%s --help explains every option)", message, p->name);
    return ARGS_USAGE;
}

/* ---- values ---- */

bool args_int(const char *text, size_t bytes, int32_t min, int32_t max, int32_t *out)
{
    const bool negative = bytes > 0 && text[0] == '-';
    const size_t start = negative ? 1 : 0;
    if (bytes == start || bytes > 12)
        return false;
    int64_t v = 0; /* 12 digits cannot overflow it */
    for (size_t i = start; i < bytes; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        v = v * 10 + (text[i] - '0');
    }
    v = negative ? -v : v;
    if (v < min || v > max)
        return false;
    *out = (int32_t)v;
    return true;
}

static bool parse_seed(const char *text, uint64_t *out)
{
    const size_t n = strlen(text);
    if (n == 0 || n > 20 || strspn(text, "0123456789") != n)
        return false;
    errno = 0;
    const unsigned long long v = strtoull(text, NULL, 10);
    *out = v;
    return errno == 0;
}

/* Plain decimal: no hexadecimal, "inf", "nan" or white space, which strtod alone would take. */
bool args_float(const char *text, size_t bytes, double min, double max, float *out)
{
    char number[NUMBER_CAP], *end;
    if (bytes >= sizeof number || strspn(text, "0123456789+-.eE") < bytes)
        return false;
    memcpy(number, text, bytes);
    number[bytes] = '\0';
    const double v = strtod(number, &end);
    if (end == number || *end || !(v >= min && v <= max))
        return false;
    *out = (float)v;
    return true;
}

static bool parse_choice(const char *text, const char *const *choices, int32_t *out)
{
    for (int32_t i = 0; choices[i]; i++) {
        if (strcmp(choices[i], text) == 0) {
            *out = i;
            return true;
        }
    }
    return false;
}

static bool parse_value(const struct args_option *o, const char *text)
{
    switch (o->type) {
    case ARGS_FLAG:
        *(bool *)o->target = true;
        return true;
    case ARGS_INT:
        return args_int(text, strlen(text), (int32_t)o->min, (int32_t)o->max, o->target);
    case ARGS_SEED:
        return parse_seed(text, o->target);
    case ARGS_FLOAT:
        return args_float(text, strlen(text), o->min, o->max, o->target);
    case ARGS_TEXT:
        *(const char **)o->target = text;
        return true;
    case ARGS_CHOICE:
        return parse_choice(text, o->choices, o->target);
    }
    return false;
}

/* "expected ..." of an option, as a sentence's end. */
static void describe_values(const struct args_option *o, char *out, size_t cap)
{
    switch (o->type) {
    case ARGS_INT:
        snprintf(out, cap, "an integer from %.0f to %.0f", o->min, o->max);
        break;
    case ARGS_FLOAT:
        snprintf(out, cap, "a number from %g to %g", o->min, o->max);
        break;
    case ARGS_SEED:
        snprintf(out, cap, "an integer from 0 to 18446744073709551615");
        break;
    case ARGS_CHOICE:
        snprintf(out, cap, "one of");
        for (size_t i = 0; o->choices[i]; i++)
            snprintf(out + strlen(out), cap - strlen(out), "%s %s", i ? "," : "", o->choices[i]);
        break;
    case ARGS_FLAG:
    case ARGS_TEXT:
        *out = '\0';
    }
}

/* ---- the options ---- */

static const struct args_option *find_option(const struct args_program *p, const char *word,
                                             size_t bytes)
{
    for (size_t i = 0; i < p->n_options; i++) {
        const char *name = p->options[i].name;
        if (strlen(name) == bytes && memcmp(name, word, bytes) == 0)
            return &p->options[i];
    }
    return NULL;
}

/* Insertions, deletions and replacements from a[0..n) to b; SIZE_MAX if a is too long to say. */
static size_t edit_distance(const char *a, size_t n, const char *b)
{
    const size_t m = strlen(b);
    size_t row[NAME_CAP + 1];
    if (n > NAME_CAP || m > NAME_CAP)
        return SIZE_MAX;
    for (size_t j = 0; j <= m; j++)
        row[j] = j;
    for (size_t i = 0; i < n; i++) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < m; j++) {
            const size_t replaced = diagonal + (a[i] != b[j]);
            const size_t shorter = (row[j] < row[j + 1] ? row[j] : row[j + 1]) + 1;
            diagonal = row[j + 1];
            row[j + 1] = replaced < shorter ? replaced : shorter;
        }
    }
    return row[m];
}

static int unknown_option(const struct args_program *p, const char *word, size_t bytes)
{
    const char *nearest = NULL;
    size_t least = bytes / 3 + 1; /* farther than that is no misspelling */
    for (size_t i = 0; i < p->n_options; i++) {
        const size_t d = edit_distance(word, bytes, p->options[i].name);
        if (d <= least && (!nearest || d < least)) {
            least = d;
            nearest = p->options[i].name;
        }
    }
    const int shown = bytes < 256 ? (int)bytes : 256;
    if (nearest)
        return args_usage_error(p, "there is no option %.*s; did you mean %s?", shown, word,
                                nearest);
    return args_usage_error(p, "there is no option %.*s", shown, word);
}

/* argv[*at] is an option; *at moves on to the last word it uses. */
static int take_option(const struct args_program *p, int argc, char **argv, int *at)
{
    const char *word = argv[*at];
    const char *equals = strncmp(word, "--", 2) == 0 ? strchr(word, '=') : NULL;
    const size_t bytes = equals ? (size_t)(equals - word) : strlen(word);
    const struct args_option *o = find_option(p, word, bytes);
    if (!o)
        return unknown_option(p, word, bytes);
    if (o->type == ARGS_FLAG && equals)
        return args_usage_error(p, "option %s takes no value", o->name);

    char expected[256];
    describe_values(o, expected, sizeof expected);
    const char *text = equals ? equals + 1 : NULL;
    if (o->type != ARGS_FLAG && !equals) {
        if (*at + 1 == argc)
            return args_usage_error(p, "option %s needs a value: %s%s%s", o->name, o->value,
                                    *expected ? ", " : "", expected);
        text = argv[++*at];
    }
    if (!parse_value(o, text))
        return args_usage_error(p, "option %s is \"%.200s\", expected %s", o->name, text, expected);
    if (o->given)
        *o->given = true;
    return ARGS_OK;
}

/* ---- --help ---- */

/* Words of text from the current column on, broken before HELP_WIDTH. */
static void print_wrapped(const char *text, int column, int indent)
{
    while (*text) {
        const int n = (int)strcspn(text, " ");
        if (column > indent && column + 1 + n > HELP_WIDTH) {
            printf("\n%*s", indent, "");
            column = indent;
        } else if (column > indent) {
            putchar(' ');
            column++;
        }
        printf("%.*s", n, text);
        column += n;
        text += n;
        text += strspn(text, " ");
    }
    putchar('\n');
}

static void print_option(const char *name, const char *value, const char *help)
{
    const int n = printf("  %s%s%s", name, value ? " " : "", value ? value : "");
    if (n + 1 >= HELP_COLUMN)
        putchar('\n');
    printf("%*s", n + 1 >= HELP_COLUMN ? HELP_COLUMN : HELP_COLUMN - n, "");
    print_wrapped(help, HELP_COLUMN, HELP_COLUMN);
}

static void print_help(const struct args_program *p)
{
    print_wrapped(p->about, printf("%s -", p->name), 0);
    printf("\nusage: %s %s [options]\n\n%s\noptions:\n", p->name, p->operands, p->examples);
    for (size_t i = 0; i < p->n_options; i++)
        print_option(p->options[i].name, p->options[i].value, p->options[i].help);
    print_option("--help", NULL, "Print this page.");
    print_option("--version", NULL, "Print the version and the instruction set of this build.");
    puts("\nexit codes: 0 success, 1 load or runtime error, 2 usage error, 3 this CPU lacks the "
         "build's\ninstruction set");
}

/* ---- threads ---- */

void args_print_threads(int32_t asked, int32_t used)
{
    const char *reason;
    const int32_t suitable = krafla_default_threads(&reason);
    if (asked == 0)
        fprintf(stderr, "threads: %d (%s)\n", (int)used, reason);
    else if (asked > suitable)
        fprintf(stderr,
                "warning: -t %d is above %d (%s): more threads than that do not help and can slow "
                "it down; use -t %d or leave -t out\n",
                (int)asked, (int)suitable, reason, (int)suitable);
}

/* ---- the line ---- */

static int printed(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return ARGS_OK;
    console_error("cannot write to stdout: %s", strerror(errno));
    return ARGS_RUNTIME;
}

bool args_parse(const struct args_program *p, int argc, char **argv, const char **operands,
                int *exit_code)
{
    size_t n = 0;
    bool options_end = false;
    *exit_code = ARGS_OK;
    for (size_t i = 0; i < p->max_operands; i++)
        operands[i] = NULL;
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        if (!options_end && strcmp(word, "--") == 0) {
            options_end = true;
        } else if (!options_end && strcmp(word, "--help") == 0) {
            print_help(p);
            *exit_code = printed();
            return false;
        } else if (!options_end && strcmp(word, "--version") == 0) {
            printf("%s %s, isa: %s\n", p->name, krafla_version(), krafla_isa());
            *exit_code = printed();
            return false;
        } else if (!options_end && word[0] == '-' && word[1]) {
            *exit_code = take_option(p, argc, argv, &i);
            if (*exit_code != ARGS_OK)
                return false;
        } else if (n < p->max_operands) {
            operands[n++] = word;
        } else {
            *exit_code = args_usage_error(p,
                                          "\"%.200s\" is one word too many: %s takes %s; a text "
                                          "with spaces needs quotes",
                                          word, p->name, p->operands);
            return false;
        }
    }
    if (n < p->min_operands) {
        *exit_code = args_usage_error(p, "usage: %s %s [options]: %s is missing", p->name,
                                      p->operands, p->operands);
        return false;
    }
    return true;
}
