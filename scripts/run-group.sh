#!/usr/bin/env bash
# Run one group of checks, and record how it ended: `run-group.sh NAME COMMAND…`.
#
# build/test-results/NAME.log is the output, and NAME.txt has the exit status in its first line and
# then each failed test, as pytest names it. With KEEP_GOING=1 a failure is only recorded, so that
# `make` runs the groups that wait for this one; `sum-up-groups.sh` reports it.
set -uo pipefail

name=$1
shift
results=build/test-results
mkdir -p "$results"
rm -f "$results/$name.txt"
# With colours or other options of the user's, the lines below would not be found.
unset FORCE_COLOR PY_COLORS PYTEST_ADDOPTS

"$@" 2>&1 | tee "$results/$name.log"
status=${PIPESTATUS[0]}

{
    echo "$status"
    grep -aE '^(FAILED|ERROR) [^ ]+\.py' "$results/$name.log"
} >"$results/.$name.txt"
mv "$results/.$name.txt" "$results/$name.txt"

[[ ${KEEP_GOING:-} == 1 ]] || exit "$status"
