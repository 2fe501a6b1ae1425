#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Build and test the package in a temporary colcon workspace, as a ROS 2 user does.
# PYTEST_SELECT is a mark expression that selects tests, for example PYTEST_SELECT='not slow'.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
workspace=$(mktemp -d "${TMPDIR:-/tmp}/multipanda_ws.XXXXXX")
trap 'rm -rf "$workspace"' EXIT

# colcon is in the environment of the wheels, or on the PATH of an apt ROS 2. The environment's
# Python starts colcon, so that the tests run with this Python.
export PATH="$root/.venv/bin:$PATH"
colcon=$(command -v colcon) || { echo "no colcon: apt install python3-colcon-common-extensions" >&2; exit 1; }
colcon() { "$root/.venv/bin/python" "$colcon" "$@"; }

# Copy tracked files, and new files that git does not ignore.
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

# colcon overwrites PYTEST_ADDOPTS with these arguments.
selection=()
[ -z "${PYTEST_SELECT:-}" ] || selection=(--pytest-args " -m" "$PYTEST_SELECT" " --reruns=2")
colcon test --event-handlers console_direct+ --return-code-on-test-failure "${selection[@]}"
colcon test-result --verbose

# colcon also reports success without any tests.
count=$(sed -n 's/.* tests="\([0-9]*\)".*/\1/p' build/multipanda_py/pytest.xml | head -n 1)
[ "${count:-0}" -gt 0 ] || { echo "colcon test ran no tests" >&2; exit 1; }
echo "colcon test ran $count tests"
