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

# Measures on the local cluster how long it takes until an added container runs, and
# until a removed one is gone, next to the floor: the container runtime alone.
# Starts the cluster if it does not run, and ends it then. Its components log at level 2, as in
# production: what the local cluster logs at its level 3 takes as long as the kubelet's part of an addition.
# A cluster that runs already is measured as it is.
#
# Usage: hack/bench.sh [flag of test/dynamic_perf...]
#
# The report goes to _output/bench: dynamic_perf.txt, .json (PerfData) and .svg.

set -o errexit -o nounset -o pipefail

# shellcheck source=hack/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

GO_OUT=${GO_OUT:-${REPO_ROOT}/_output/bin}
CLUSTER=${REPO_ROOT}/_output/cluster
OUT=${REPO_ROOT}/_output/bench

if [[ ! -x ${GO_OUT}/dynamic_perf ]]; then
  log::die "there is no dynamic_perf in ${GO_OUT}; run: hack/build.sh dynamic_perf"
fi
if ! "${REPO_ROOT}/hack/local-up-cluster.sh" status >/dev/null 2>&1; then
  LOG_LEVEL=${LOG_LEVEL:-2} "${REPO_ROOT}/hack/local-up-cluster.sh" up
  trap '"${REPO_ROOT}/hack/local-up-cluster.sh" down' EXIT
  # In their first minute, its components are busy with themselves.
  sleep 60
fi

pids=()
for component in kubelet kube-apiserver etcd; do
  pids+=("--pid=${component}=$(<"${CLUSTER}/run/${component}.pid")")
done
mkdir -p "${OUT}"
"${GO_OUT}/dynamic_perf" --kubeconfig="${CLUSTER}/kubeconfig" --output-dir="${OUT}" \
  --runtime-endpoint="unix://${CLUSTER}/containerd.sock" --cgroup-parent=/dynamic-containers/bench \
  --kubelet-dir="${CLUSTER}/kubelet" "${pids[@]}" "$@"
log::step "the report is in ${OUT#"${REPO_ROOT}/"}/dynamic_perf.{txt,json,svg}"
