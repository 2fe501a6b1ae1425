/* SPDX-License-Identifier: Apache-2.0 */
/* The floor: a 1 kHz loop that does nothing but wake up on time.
 *
 * usage: floor SECONDS CPU PRIORITY
 * Prints, per line, the lateness of a cycle in nanoseconds; then "missed N".
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

static long long now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

int main(int argc, char **argv) {
  if (argc != 4) {
    fprintf(stderr, "usage: floor SECONDS CPU PRIORITY\n");
    return 2;
  }
  const long long period = 1000000LL;
  const long cycles = (long)(atof(argv[1]) * 1000);
  const int cpu = atoi(argv[2]);
  if (cpu >= 0) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof set, &set);
  }
  struct sched_param param = {.sched_priority = atoi(argv[3])};
  if (param.sched_priority > 0 && sched_setscheduler(0, SCHED_FIFO, &param) != 0)
    fprintf(stderr, "floor: no real-time priority\n");
  mlockall(MCL_CURRENT | MCL_FUTURE);
  long long *late = calloc((size_t)cycles, sizeof *late);
  long missed = 0, count = 0;
  long long deadline = now_ns() + period;
  const long long end = deadline + cycles * period;
  while (deadline < end && count < cycles) {
    struct timespec t = {deadline / 1000000000LL, deadline % 1000000000LL};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
    late[count++] = now_ns() - deadline;
    deadline += period;
    const long long over = now_ns() - deadline;
    if (over > 0) {
      const long long skipped = over / period + 1;
      missed += skipped;
      deadline += skipped * period;
    }
  }
  for (long i = 0; i < count; i++) printf("%lld\n", late[i]);
  printf("missed %ld\n", missed);
  free(late);
  return 0;
}
