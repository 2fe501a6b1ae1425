#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Build and test the package in a colcon workspace of its own, the road of a ROS 2 user.
# PYTEST_SELECT selects tests by their marks, for example PYTEST_SELECT='not slow'.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
workspace=$(mktemp -d "${TMPDIR:-/tmp}/multipanda_ws.XXXXXX")
trap 'rm -rf "$workspace"' EXIT

# With the wheels, colcon is in the environment; with an apt ROS 2, on the PATH. Either way it is
# started by the environment's Python, which is then the one that runs the tests.
export PATH="$root/.venv/bin:$PATH"
colcon=$(command -v colcon) || { echo "no colcon: apt install python3-colcon-common-extensions" >&2; exit 1; }
colcon() { "$root/.venv/bin/python" "$colcon" "$@"; }

# What git would give to somebody else: tracked files and new ones that are not ignored.
source="$workspace/src/multipanda_py"
mkdir -p "$source"
(cd "$root" && git ls-files -z --cached --others --exclude-standard |
  while IFS= read -r -d '' file; do if [ -e "$file" ]; then printf '%s\0' "$file"; fi; done |
  tar --null -T - -cf -) | tar -xf - -C "$source"

cd "$workspace"
colcon build
for program in multimode_controller multipanda; do
  test -x "install/multipanda_py/lib/multipanda_py/$program" ||
    { echo "colcon build did not install lib/multipanda_py/$program" >&2; exit 1; }
done

# colcon sets PYTEST_ADDOPTS itself, from this: what the caller has there would be lost.
selection=()
[ -z "${PYTEST_SELECT:-}" ] || selection=(--pytest-args " -m" "$PYTEST_SELECT" " --reruns=2")
colcon test --event-handlers console_direct+ --return-code-on-test-failure "${selection[@]}"
colcon test-result --verbose

# colcon reports success for zero tests too.
count=$(sed -n 's/.* tests="\([0-9]*\)".*/\1/p' build/multipanda_py/pytest.xml | head -n 1)
[ "${count:-0}" -gt 0 ] || { echo "colcon test ran no tests" >&2; exit 1; }
echo "colcon test ran $count tests"
