/* clock_win32.c - the performance counter.
 * SPDX-License-Identifier: MIT */
#include "clock.h"

#include <windows.h>

double kr_clock_seconds(void)
{
    LARGE_INTEGER ticks, per_second;
    QueryPerformanceCounter(&ticks);
    QueryPerformanceFrequency(&per_second);
    return (double)ticks.QuadPart / (double)per_second.QuadPart;
}
