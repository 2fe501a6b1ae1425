/* SPDX-License-Identifier: Apache-2.0 */
/* Functions for ctypes, since callgrind's client requests are C macros. */
#include <valgrind/callgrind.h>

void begin(void) { CALLGRIND_START_INSTRUMENTATION; }

void zero(void) { CALLGRIND_ZERO_STATS; }

void toggle(void) { CALLGRIND_TOGGLE_COLLECT; }

void dump(const char *name) { CALLGRIND_DUMP_STATS_AT(name); }
