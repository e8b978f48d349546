# Each target calls one tool or script; what it does and which variables it reads is documented there.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

TREE := go run ./hack/tree

##@ Sources

.PHONY: tree
tree: ## Compose _output/tree: upstream with our changes, as a git repository
	@$(TREE) compose

.PHONY: save
save: ## Write edits made in _output/tree back into this repository
	@$(TREE) save

##@ Binaries and cluster

.PHONY: build
build: tree ## Build all binaries into _output/bin and the images into _output/images
	@hack/build.sh

.PHONY: up
up: build ## Start a real single-node cluster; kubeconfig in _output/cluster/kubeconfig
	@hack/local-up-cluster.sh up

.PHONY: down
down: ## End the cluster and remove all that it put on this machine
	@hack/local-up-cluster.sh down

.PHONY: demo
demo: up ## Add a container to a running pod, see it run, remove it, see what is kept
	@hack/demo.sh

##@ Tests

.PHONY: test
test: verify build ## All tests, the quick ones first; ends with a table of what ran
	@hack/test.sh

.PHONY: test-unit
test-unit: tree ## Unit tests, upstream's and ours, of every package that we change
	@hack/build.sh gotestsum
	@hack/test-unit.sh

.PHONY: test-integration
test-integration: tree ## Integration tests with a real etcd and kube-apiserver
	@hack/build.sh gotestsum etcd
	@hack/test-integration.sh

.PHONY: test-e2e
test-e2e: build ## E2e specs on the local cluster; FOCUS=<regexp> selects them
	@hack/test-e2e.sh $(if $(FOCUS),'$(FOCUS)')

.PHONY: bench
bench: build ## Measure additions and removals of containers next to the runtime alone; FLAGS=<flags>
	@hack/bench.sh $(FLAGS)

.PHONY: verify-codegen
verify-codegen: build ## Check that generated files are what upstream's generators write
	@hack/verify-codegen.sh

.PHONY: verify
verify: ## Check patches, headers, the round trip and our own tools; print the line budget
	@hack/verify.sh

##@ Other

.PHONY: help
help: ## Print this list
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@ / { printf "\n\033[1m%s\033[0m\n", substr($$0, 5) } \
		/^[a-z-]+:.*## / { printf "  \033[36mmake %-18s\033[0m %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
