# SPDX-License-Identifier: MIT

KERNEL ?= 6.1
LINES := 6.1 6.12 7.2
lines := $(if $(filter all,$(KERNEL)),$(LINES),$(KERNEL))

# The toolchain that go.mod names; any go from 1.21 on fetches it.
export GOTOOLCHAIN := $(lastword $(shell grep '^toolchain ' go.mod))
export GOFLAGS := -trimpath -buildvcs=false
export CGO_ENABLED := 0
export PATH := $(PATH):/usr/lib/go-1.23/bin
export MIRROR

.DEFAULT_GOAL := help

help: ## show this
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo 'KERNEL=6.1 (the default), 6.12, 7.2 or all'

setup: ## get packages and the guest kernel KERNEL (needs root)
	@scripts/setup-host
	@$(MAKE) --no-print-directory build
	@for line in $(lines); do scripts/setup-kernel $$line || exit 1; done

build: ## build/isolio, the command
	@mkdir -p build
	go build -o build/isolio ./cmd/isolio

modules: build ## the kernel modules for KERNEL, into build/modules/
	@for line in $(lines); do scripts/modules $$line || exit 1; done

test-vm: ## the modules' tests on the booted kernel KERNEL
	go test -c -tags vm -o build/vm.test ./tests/vm
	go build -o build/vm-run ./tests/vm/run
	@for line in $(lines); do build/vm-run --kernel $$line || exit 1; done

.PHONY: help setup build modules test-vm
