#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Run the tests: first those that only compute, one process a core, then the others one by one,
# because they meet deadlines or start nodes. Arguments go to pytest both times. Those run in a worker,
# too: a middleware that crashes takes the worker with it, whose test is run again, and not the run.
cd "$(dirname "$0")/.." || exit 1

pytest() { .venv/bin/python -m pytest "$@"; }
pytest --part inline -n auto --dist loadfile "$@"
inline=$?
[ $inline = 2 ] && exit 2 # interrupted
pytest --part rest -n 1 "$@"
rest=$?
# Nodes of one process share one connection to the middleware. Should that be what has failed them,
# tests pass in a process of their own; on CI, where nobody is there to start it.
if [ $rest = 1 ] && [ -n "${CI:-}" ]; then
  echo "once more, in a process of its own, what has failed"
  pytest --part rest -n 1 "$@" --last-failed --last-failed-no-failures none
  rest=$?
  [ $rest = 5 ] && rest=1
fi

# 5 is pytest's word for "no tests": bad only if neither had any.
[ $inline = 5 ] && exit $rest
[ $rest = 5 ] && exit $inline
exit $((inline > rest ? inline : rest))
