#!/usr/bin/env bash

# Copyright The Kubernetes Authors.
#
# Licensed under the Apache License, Version 2.0 (the "License");
# you may not use this file except in compliance with the License.
# You may obtain a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS,
# WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
# See the License for the specific language governing permissions and
# limitations under the License.

# Runs the unit, integration and e2e tests one group after the other, all of them even
# if one fails, and prints a table of what ran.

set -o errexit -o nounset -o pipefail

# shellcheck source=hack/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

TEST_OUT=${TEST_OUT:-${REPO_ROOT}/_output/test}
rm -rf "${TEST_OUT}"
mkdir -p "${TEST_OUT}"

failed=()
table=$(printf '%-12s %7s %7s %8s %8s %7s' group tests passed failed skipped seconds)
passed_total=0 failed_total=0 skipped_total=0

# test::count prints the sum of attribute $2 of the suites in the JUnit file $1.
test::count() {
  [[ -f $1 ]] || { echo 0; return; }
  # A suite that has none of them may not have the attribute.
  { grep -o '<testsuite [^>]*' "$1" | grep -o " $2=\"[0-9]*\"" || true; } | tr -dc '0-9\n' | awk '{ n += $1 } END { print n + 0 }'
}

for group in unit integration e2e; do
  started=${SECONDS}
  "${REPO_ROOT}/hack/test-${group}.sh" || failed+=("${group}")
  report=${TEST_OUT}/${group}.xml
  # The e2e suite lists the specs that were not selected, too, as skipped in no time.
  unselected=$(grep -cs '<testcase [^>]* status="skipped" time="0">' "${report}" || true)
  unselected=${unselected:-0}
  all=$(( $(test::count "${report}" tests) - unselected ))
  skip=$(( $(test::count "${report}" skipped) - unselected ))
  fail=$(( $(test::count "${report}" failures) + $(test::count "${report}" errors) ))
  table+=$'\n'$(printf '%-12s %7d %7d %8d %8d %7d' "${group}" "${all}" $((all - fail - skip)) "${fail}" "${skip}" $((SECONDS - started)))
  passed_total=$((passed_total + all - fail - skip)) failed_total=$((failed_total + fail)) skipped_total=$((skipped_total + skip))
done

echo
echo "${table}"
if (( ${#failed[@]} > 0 )); then
  log::die "failed: ${failed[*]}; the results are in ${TEST_OUT}"
fi
echo "${passed_total} passed, ${failed_total} failed, ${skipped_total} skipped"
