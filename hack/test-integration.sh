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

# Runs our integration tests against a real etcd and kube-apiserver, with upstream's
# tests of the packages that they are in.
#
# Usage: hack/test-integration.sh [package...]
#
# The results go to _output/test/integration.xml (JUnit).

set -o errexit -o nounset -o pipefail

# shellcheck source=hack/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
# shellcheck source=hack/lib/gotest.sh
source "${REPO_ROOT}/hack/lib/gotest.sh"

if [[ ! -x ${GO_OUT}/etcd ]]; then
  log::die "there is no etcd in ${GO_OUT}; run: hack/build.sh etcd"
fi
export PATH="${GO_OUT}:${PATH}"

packages=("$@")
if (( ${#packages[@]} == 0 )); then
  packages=(./test/integration/pods)
fi
gotest::run integration "${packages[@]}"
