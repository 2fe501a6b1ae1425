#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Run the tests in three parts: computations with one worker per core; nodes and processes without
# deadlines in two workers; tests with deadlines one by one. Arguments are passed to pytest in each
# part. The last part also uses a worker process: if the middleware crashes, only the worker ends,
# and pytest repeats its test.
cd "$(dirname "$0")/.." || exit 1

# The limit of reruns applies to all three parts together (test/helpers/reruns.py).
if [ -z "${MULTIPANDA_RERUNS:-}" ]; then
  MULTIPANDA_RERUNS=$(mktemp)
  export MULTIPANDA_RERUNS
  trap 'rm -f "$MULTIPANDA_RERUNS"' EXIT
fi

code=5 # pytest's exit code without tests; an error only if all parts are empty
part() { # arguments: name of the part, options of pytest
  .venv/bin/python -m pytest --part "$@"
  local found=$?
  [ $found = 2 ] && exit 2 # interrupted
  # Nodes of one process share one connection to the middleware. If this connection has failed, the
  # tests pass in a new process. CI starts it automatically.
  if [ $found = 1 ] && [ -n "${CI:-}" ] && [ "$1" != inline ]; then
    echo "failed tests again, in a new process"
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
