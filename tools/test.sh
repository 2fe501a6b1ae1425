#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Run the tests: first those that only compute, one process a core, then the others one by one,
# because they meet deadlines or start nodes. Arguments go to pytest both times.
cd "$(dirname "$0")/.." || exit 1

pytest() { .venv/bin/python -m pytest "$@"; }
pytest --part inline -n auto --dist loadfile "$@"
inline=$?
[ $inline = 2 ] && exit 2 # interrupted
pytest --part rest "$@"
rest=$?

# 5 is pytest's word for "no tests": bad only if neither had any.
[ $inline = 5 ] && exit $rest
[ $rest = 5 ] && exit $inline
exit $((inline > rest ? inline : rest))
