/* SPDX-License-Identifier: MIT
 *
 * A build for test_launcher_cmd.py: <program>-<isa>.exe with no model behind it.  It answers --probe for the CPU that
 * the variable CPU describes as a list of features, notes each start in ../starts.txt, and otherwise prints its isa,
 * its words and, after the word "-", its standard input. */
#include <fcntl.h>
#include <io.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>
#include <windows.h>

#include <shellapi.h>

enum { CAP = 1024, PROBE_FIRST = 10, TOO_OLD = 3 };

static BOOL has(const wchar_t *needs)
{
    static wchar_t cpu[CAP], list[CAP];
    cpu[0] = L' ';
    cpu[1 + GetEnvironmentVariableW(L"CPU", cpu + 1, CAP - 2)] = 0;
    wcscat(cpu, L" ");
    wcscpy(list, needs);
    for (wchar_t *need = wcstok(list, L" "); need; need = wcstok(NULL, L" ")) {
        wchar_t word[CAP];
        swprintf(word, CAP, L" %ls ", need);
        if (!wcsstr(cpu, word))
            return FALSE;
    }
    return TRUE;
}

static void note_start(wchar_t *self, const wchar_t *isa, const wchar_t *word)
{
    wchar_t path[CAP];
    wchar_t *name = wcsrchr(self, L'\\');
    swprintf(path, CAP, L"%.*ls\\..\\starts.txt", (int)(name - self), self);
    FILE *log = _wfopen(path, L"ab");
    if (log)
        fprintf(log, "%ls %ls\n", isa, word);
    if (log)
        fclose(log);
}

static void print(const wchar_t *text)
{
    char bytes[4 * CAP];
    WideCharToMultiByte(CP_UTF8, 0, text, -1, bytes, sizeof bytes, NULL, NULL);
    fputs(bytes, stdout);
}

int main(void)
{
    static wchar_t self[CAP];
    int n;
    wchar_t **words = CommandLineToArgvW(GetCommandLineW(), &n);
    GetModuleFileNameW(NULL, self, CAP);
    wchar_t *isa = wcsrchr(self, L'-') + 1;
    *wcsrchr(isa, L'.') = 0;
    const BOOL probe = n > 1 && wcscmp(words[1], L"--probe") == 0;
    note_start(self, isa, probe ? L"--probe" : L"");

    if (getenv("CRASH"))
        TerminateProcess(GetCurrentProcess(), (UINT)STATUS_ILLEGAL_INSTRUCTION);
    if (!has(isa)) { /* a build needs the feature of its own name */
        if (!probe)
            fprintf(stderr, "error: CPU lacks %ls required by ISA=%ls\n", isa, isa);
        return TOO_OLD;
    }
    if (probe) {
        for (int i = 2; i < n; i++)
            if (has(words[i]))
                return PROBE_FIRST + i - 2;
        return TOO_OLD;
    }
    _setmode(_fileno(stdin), _O_BINARY);
    _setmode(_fileno(stdout), _O_BINARY);
    print(isa);
    for (int i = 1; i < n; i++) {
        print(L"|");
        print(words[i]);
    }
    putchar('\n');
    for (int c; n > 1 && wcscmp(words[1], L"-") == 0 && (c = getchar()) != EOF;)
        putchar(c);
    const char *code = getenv("EXIT");
    return code ? atoi(code) : 0;
}
