#!/usr/bin/env bash
# Say how these groups ended, from what `run-group.sh` recorded: `sum-up-groups.sh NAME…`.
#
# Names every failed test, and every group that ended otherwise or did not run. The last line is
# "N groups, all green" or names the groups that failed; then the exit status is 1.
set -euo pipefail

results=build/test-results
failed=()
for name in "$@"; do
    record=$results/$name.txt
    if [[ ! -f $record ]]; then
        failed+=("$name")
        echo "$name did not run: what it needs could not be installed, or it was interrupted"
        continue
    fi
    status='' tests=()
    { read -r status; mapfile -t tests; } <"$record" || true # it may be empty: the disk is full
    [[ $status != 0 ]] || continue
    failed+=("$name")
    if ((${#tests[@]})); then
        printf "%s\n" "${tests[@]/#/$name: }"
    else
        echo "$name ended with exit status ${status:-unknown} without naming a test; its last lines:"
        tail -n 10 "$results/$name.log" 2>&1 | sed 's/^/    /' || true
    fi
done

if ((${#failed[@]})); then
    echo "${#failed[@]} of $# groups failed: ${failed[*]}"
    exit 1
fi
echo "$# groups, all green"
