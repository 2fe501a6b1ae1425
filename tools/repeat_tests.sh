#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Run `make test` several times in a row and print the last line of each part. Logs go to .tests/.
#   tools/repeat_tests.sh 10
cd "$(dirname "$0")/.." || exit 1
mkdir -p .tests
code=0
for run in $(seq "${1:-10}"); do
  started=$SECONDS
  make --no-print-directory test >".tests/$run.log" 2>&1 || code=1
  printf 'run %d: %d s\n' "$run" $((SECONDS - started))
  grep -E '^=+ .* in [0-9.]+s' ".tests/$run.log" | tr -d '='
  grep -E '^(FAILED|ERROR)' ".tests/$run.log"
done
exit $code
