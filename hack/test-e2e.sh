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

# Runs e2e specs on the local cluster: ours, and upstream's of the features that ours
# builds on. Starts the cluster if it does not run, and ends it then.
#
# Usage: hack/test-e2e.sh [focus]
#
# The focus is a regular expression for the names of the specs; without one, slow specs
# are left out. Specs that also fail on unpatched binaries are in
# hack/e2e-known-failures.txt, with the reason; they are not run, and named at the end.
# The results go to _output/test/e2e.xml (JUnit).

set -o errexit -o nounset -o pipefail

# shellcheck source=hack/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

GO_OUT=${GO_OUT:-${REPO_ROOT}/_output/bin}
TEST_OUT=${TEST_OUT:-${REPO_ROOT}/_output/test}
# Not the KUBECONFIG of the user, who may work with another cluster.
KUBECONFIG=${REPO_ROOT}/_output/cluster/kubeconfig
KNOWN_FAILURES=${REPO_ROOT}/hack/e2e-known-failures.txt
FOCUS=${1:-'\[sig-node\] (Dynamic Containers|Pod InPlace Resize|Ephemeral Containers|Pod Allocated Endpoint)'}

for binary in e2e.test ginkgo kubectl; do
  if [[ ! -x ${GO_OUT}/${binary} ]]; then
    log::die "there is no ${binary} in ${GO_OUT}; run: make build"
  fi
done

if ! "${REPO_ROOT}/hack/local-up-cluster.sh" status >/dev/null 2>&1; then
  "${REPO_ROOT}/hack/local-up-cluster.sh" up
  trap '"${REPO_ROOT}/hack/local-up-cluster.sh" down' EXIT
fi

# For the specs that kill components.
export LOCAL_UP_CLUSTER=${REPO_ROOT}/hack/local-up-cluster.sh
mkdir -p "${TEST_OUT}"
skips=()
if (( $# == 0 )); then
  skips+=('--skip=\[Slow\]')
fi
while IFS=$'\t' read -r spec _; do
  skips+=("--skip=${spec}")
done < <(grep -Ev '^(#|$)' "${KNOWN_FAILURES}" || true)

log::step "e2e specs of: ${FOCUS}"
status=0
"${GO_OUT}/ginkgo" run --procs=4 --timeout=40m --no-color --silence-skips --focus="${FOCUS}" "${skips[@]}" \
  --output-dir="${TEST_OUT}" --junit-report=e2e.xml "${GO_OUT}/e2e.test" -- \
  --kubeconfig="${KUBECONFIG}" --provider=local --num-nodes=1 \
  --report-dir="${TEST_OUT}" --allowed-not-ready-nodes=0 --disable-log-dump >"${TEST_OUT}/e2e.log" 2>&1 || status=$?
grep -E '^(Ran |FAIL!|SUCCESS!|  \[FAIL\]|\[FAIL\])' "${TEST_OUT}/e2e.log" | sort -u || tail -n 50 "${TEST_OUT}/e2e.log"

if (( ${#skips[@]} > 0 )); then
  echo "Not run, because they fail on unpatched binaries too (${KNOWN_FAILURES#"${REPO_ROOT}/"}):"
  grep -Ev '^(#|$)' "${KNOWN_FAILURES}" | sed 's/\t/\n      /; s/^/  /'
fi
if (( status != 0 )); then
  # The messages of the failures; in the log each stands among the lines of its spec.
  sed -n '/^  \[FAILED\]/,/^  In \[/p' "${TEST_OUT}/e2e.log" | cut -c 1-300 | head -n 200
  log::die "e2e specs failed; see ${TEST_OUT}/e2e.log"
fi
