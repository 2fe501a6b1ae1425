#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Run the tests: first those that only compute, one process a core; then those of nodes and processes
# that meet no deadline, in two workers; then those on the clock, one by one. Arguments go to pytest
# each time. The last ones run in a worker, too: a middleware that crashes takes the worker with it,
# whose test is run again, and not the run.
cd "$(dirname "$0")/.." || exit 1

# Reruns of all runs of pytest are counted together (test/helpers/reruns.py).
if [ -z "${MULTIPANDA_RERUNS:-}" ]; then
  MULTIPANDA_RERUNS=$(mktemp)
  export MULTIPANDA_RERUNS
  trap 'rm -f "$MULTIPANDA_RERUNS"' EXIT
fi

code=5 # pytest's word for "no tests": bad only if no part has any
part() { # its name, then options
  .venv/bin/python -m pytest --part "$@"
  local found=$?
  [ $found = 2 ] && exit 2 # interrupted
  # Nodes of one process share one connection to the middleware. Should that be what has failed them,
  # tests pass in a process of their own; on CI, where nobody is there to start it.
  if [ $found = 1 ] && [ -n "${CI:-}" ] && [ "$1" != inline ]; then
    echo "once more, in a process of its own, what has failed"
    .venv/bin/python -m pytest --part "$@" -n 1 --again --last-failed --last-failed-no-failures none
    found=$?
    [ $found = 5 ] && found=1
  fi
  if [ $code = 5 ] || { [ $found != 5 ] && [ $found -gt $code ]; }; then code=$found; fi
}

part inline -n auto --dist loadfile "$@"
part processes -n 2 --dist loadfile "$@"
part clock -n 1 "$@"
exit $code
