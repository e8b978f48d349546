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

# Runs the unit tests, upstream's and ours, of every package of the tree that the
# overlay changes, and upstream's check of the feature gate lists.
#
# Usage: hack/test-unit.sh [package...]
#
# The results go to _output/test/unit.xml (JUnit).

set -o errexit -o nounset -o pipefail

# shellcheck source=hack/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
# shellcheck source=hack/lib/gotest.sh
source "${REPO_ROOT}/hack/lib/gotest.sh"

# test::packages prints the packages with tests that the overlay changes.
test::packages() {
  local dir
  git -C "${REPO_ROOT}" ls-files --cached --others --exclude-standard -- cmd pkg plugin staging test/dynamic_perf |
    grep -E '\.go(\.patch)?$' | xargs -r dirname | sort -u |
    while IFS= read -r dir; do
      if compgen -G "${TREE}/${dir}/*_test.go" >/dev/null; then
        echo "./${dir}"
      fi
    done
}

packages=("$@")
if (( ${#packages[@]} == 0 )); then
  mapfile -t packages < <(test::packages)
fi
gotest::run unit "${packages[@]}"

log::step "checking the feature gate lists"
cd "${TREE}"
go run ./test/compatibility_lifecycle/main.go feature-gates verify
