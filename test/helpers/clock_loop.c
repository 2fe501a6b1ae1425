/* SPDX-License-Identifier: Apache-2.0 */
/* 1 kHz loop without computations, which measures the delays of the machine.
 *
 * Prints "ready", runs until the end of its standard input, and then prints the number of missed cycles, the number of
 * cycles and the maximum delay in microseconds. It inherits its scheduling policy.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <stdio.h>
#include <time.h>

static long long now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

int main(void) {
  const long long period = 1000000LL;
  long missed = 0, cycles = 0;
  long long worst = 0, deadline = now_ns() + period;
  struct pollfd input = {.fd = 0, .events = POLLIN};
  puts("ready");
  fflush(stdout);
  while (poll(&input, 1, 0) == 0) {
    struct timespec t = {deadline / 1000000000LL, deadline % 1000000000LL};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
    const long long late = now_ns() - deadline, skipped = late / period;
    if (late > worst) worst = late;
    missed += skipped;
    cycles += 1 + skipped;
    deadline += (1 + skipped) * period;
  }
  const long long late = now_ns() - deadline; /* delay of the pending wake-up */
  if (late > worst) worst = late;
  if (late > 0) missed += late / period, cycles += late / period;
  printf("%ld %ld %lld\n", missed, cycles, worst / 1000);
  return 0;
}
