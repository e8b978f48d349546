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

# Runs upstream's generators on a copy of the composed tree, and fails if they
# write anything else than what is there. Takes about three minutes on 2 cores.
#
# Not run, because it needs protoc, which is not to be had as a package in
# upstream's version: the protobuf generator. No message has changed, only the
# comments in generated.proto.

set -o errexit -o nounset -o pipefail

# shellcheck source=hack/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

TREE=${TREE:-${REPO_ROOT}/_output/tree}
GO_OUT=${GO_OUT:-${REPO_ROOT}/_output/bin}
COPY=${REPO_ROOT}/_output/codegen

if [[ -n $(git -C "${TREE}" status --porcelain) ]]; then
  log::die "the composed tree has edits; run: make save"
fi
deps::require jq curl openssl

rm -rf "${COPY}"
git clone --quiet "${TREE}" "${COPY}"
cd "${COPY}"

# What upstream's scripts expect and a composed tree does not have: the module
# of goimports (ours is as good), binaries built in place, and a network.
mkdir -p hack/tools
sed -i '/kube::protoc::install/d' hack/update-codegen.sh
sed -i '/^make -C/d; /kube::etcd::install/d' hack/update-openapi-spec.sh
git update-index --assume-unchanged hack/update-codegen.sh hack/update-openapi-spec.sh
export FORCE_HOST_GO=1 GOTOOLCHAIN=local
GOMODCACHE=$(go env GOMODCACHE) GOCACHE=$(go env GOCACHE)
export GOMODCACHE GOCACHE

codegen::run() {
  log::step "$*"
  if ! "$@" >"${COPY}.log" 2>&1; then
    tail -n 20 "${COPY}.log" >&2
    log::die "$* failed; see ${COPY}.log"
  fi
}

# Upstream's generators are built with GOPROXY=off.
codegen::run go list -deps k8s.io/code-generator/... k8s.io/kube-openapi/cmd/... ./cmd/...
codegen::run hack/update-codegen.sh validation swagger client applyconfigs openapi
codegen::run hack/update-featuregates.sh
ETCD_PORT=23790 PATH=${GO_OUT}:${PATH} codegen::run hack/update-openapi-spec.sh

if [[ -n $(git status --porcelain) ]]; then
  git --no-pager diff | head -n 100
  git status --short
  log::die "generated files are not what the generators write; run them in _output/tree (see 'Generated-by:' in the patches), then 'make save'"
fi
log::step "generated files are what the generators write"
rm -rf "${COPY}" "${COPY}.log"
