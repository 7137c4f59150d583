/* clock.h - seconds on a clock that never goes back (clock_posix.c, clock_win32.c).
 * SPDX-License-Identifier: MIT */
#ifndef KR_CLOCK_H
#define KR_CLOCK_H

double kr_clock_seconds(void);

#endif
