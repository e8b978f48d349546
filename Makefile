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

##@ Checks

.PHONY: verify
verify: ## Check patches, headers, the round trip and our own tools; print the line budget
	@hack/verify.sh

##@ Other

.PHONY: help
help: ## Print this list
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@ / { printf "\n\033[1m%s\033[0m\n", substr($$0, 5) } \
		/^[a-z-]+:.*## / { printf "  \033[36mmake %-18s\033[0m %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
