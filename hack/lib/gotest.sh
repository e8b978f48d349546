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

# Runs Go tests of the composed tree. To be sourced after common.sh.

TREE=${TREE:-${REPO_ROOT}/_output/tree}
GO_OUT=${GO_OUT:-${REPO_ROOT}/_output/bin}
TEST_OUT=${TEST_OUT:-${REPO_ROOT}/_output/test}

# The same flags as in hack/build.sh, so that the build cache serves both.
export CGO_ENABLED=0
export GOFLAGS="-trimpath -buildvcs=false"

# gotest::run runs the tests of the packages as group $1.
gotest::run() {
  local group=$1
  shift
  if [[ ! -x ${GO_OUT}/gotestsum ]]; then
    log::die "there is no gotestsum in ${GO_OUT}; run: hack/build.sh gotestsum"
  fi
  if [[ ! -f ${TREE}/go.work ]]; then
    log::die "there is no composed tree in ${TREE}; run: make tree"
  fi
  mkdir -p "${TEST_OUT}"
  # With -trimpath, upstream's test API server looks for its files below these, by import path.
  mkdir -p "${TEST_OUT}/src/k8s.io"
  ln -sfn "${TREE}" "${TEST_OUT}/src/k8s.io/kubernetes"
  export TEST_SRCDIR=${TEST_OUT} TEST_WORKSPACE=src
  log::step "${group} tests of $# packages"
  cd "${TREE}" || exit
  "${GO_OUT}/gotestsum" --format pkgname --format-hide-empty-pkg --junitfile "${TEST_OUT}/${group}.xml" -- \
    -timeout 20m "$@"
}
