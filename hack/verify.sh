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

# Runs every quick check and lists all that failed, not just the first.

set -o errexit -o nounset -o pipefail

# shellcheck source=hack/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
cd "${REPO_ROOT}"

failed=()

check() {
  local name=$1
  shift
  echo "+++ ${name}"
  "$@" || failed+=("${name}")
}

scripts() {
  git ls-files -z --cached --others --exclude-standard -- .ci/run '*.sh' |
    while IFS= read -r -d '' script; do
      if [[ -f "${script}" ]]; then printf '%s\0' "${script}"; fi
    done
}

run_shellcheck() {
  deps::require shellcheck
  scripts | xargs -0 --no-run-if-empty shellcheck --shell=bash --external-sources
}

check "overlay" go run ./hack/tree verify
check "go vet" go vet ./...
check "go test ./hack/..." go test ./hack/...
check "shellcheck" run_shellcheck

if ((${#failed[@]})); then
  printf '!!! failed: %s\n' "${failed[@]}" >&2
  exit 1
fi
