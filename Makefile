# SPDX-License-Identifier: MIT

KERNEL ?= 6.1
# A kernel line, or all of them.
lines := $(if $(filter all,$(KERNEL)),6.1 6.12 7.2,$(KERNEL))

# Of fuzz, for each target.
SECONDS ?= 60

# Of the machine of test-debug; more than one take QEMU 8.1.
CPUS ?= 2

# Of test-powercut, which takes a SEED as well.
CUTS ?= 200

DEMO := experiments/report-rand-read.toml
GOLANGCI := v2.15.0

# The toolchain that go.mod names: any go from 1.21 on fetches it. Debian's
# backports have a go of their own, outside of PATH.
export GOTOOLCHAIN := $(lastword $(shell grep '^toolchain ' go.mod))
export GOFLAGS := -trimpath -buildvcs=false
export CGO_ENABLED := 0
export PATH := $(PATH):/usr/lib/go-1.23/bin:/usr/sbin:/sbin
export MIRROR PREFIX DESTDIR RELEASE

.DEFAULT_GOAL := help

help: ## show this
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@printf '%s\n' 'KERNEL=6.1 (the default), 6.12, 7.2 or all, as in: make modules KERNEL=7.2;' '7.3 (backports of Debian 13) and 6.12-rt (PREEMPT_RT) are not among all;' 'KERNEL=debug is one with KASAN and lockdep, built from source in half an hour'

setup: ## get packages and the guest kernel KERNEL from Debian (needs root)
	@scripts/setup-host
	@$(MAKE) --no-print-directory build
	@for line in $(lines); do scripts/setup-kernel $$line || exit 1; done

qemu: ## get a newer QEMU for machines with several CPUs, where this one's is older than 8.1 (needs root)
	@scripts/setup-qemu

build: build/qemu-clock.so ## build the command, build/isolio
	go build -o build/isolio ./cmd/isolio

build/qemu-clock.so: internal/lab/clock/qemu-clock.c
	@mkdir -p build
	gcc -std=gnu11 -O2 -Wall -Wextra -Werror -shared -fPIC -o $@ $<

modules: build ## build the kernel modules for KERNEL, into build/modules/
	@for line in $(lines); do scripts/modules $$line || exit 1; done

modules-arm64: build ## compile the modules for arm64 as well, with Debian's cross compiler; nothing is booted
	scripts/setup-kernel 6.12-arm64
	scripts/modules 6.12-arm64

libaps: build ## build libaps, its tests and its engines for fio, for the lab and for KERNEL
	@for line in $(lines); do scripts/libaps $$line || exit 1; done

demo: ## set up, build, and show four containers sharing a disk by weight
	@$(MAKE) --no-print-directory setup KERNEL=6.1
	@$(MAKE) --no-print-directory modules KERNEL=6.1
	build/isolio lab $(DEMO) --cases depth-32,reference --report build/report-rand-read.html
	@echo "The page with the plots: build/report-rand-read.html"

lab: modules libaps qemu ## run every experiment in experiments/ and check what it expects
	scripts/lab

test: test-c test-go test-vm ## run all tests: C, Go and command line, modules on a booted kernel
	@echo "== all tests passed"

test-c: ## unit tests of the kernel code, in userspace under ASan and UBSan
	scripts/test-c

test-go: ## Go unit tests, and scripts that call the command
	go vet ./...
	go vet -tags vm ./tests/vm
	go test ./...

test-vm: ## tests of the modules on a booted kernel KERNEL
	@for line in $(lines); do scripts/setup-kernel $$line || exit 1; done
	@$(MAKE) --no-print-directory modules guest-tests
	@for line in $(lines); do scripts/libaps $$line tests || exit 1; done
	@for line in $(lines); do build/vm-run --twice --kernel $$line || exit 1; done

guest-tests: build
	go test -c -tags vm -o build/vm.test ./tests/vm
	go build -o build/vm-run ./tests/vm/run

test-containers: ## test weights of real containers, of crun and runc, on a booted kernel KERNEL
	scripts/containers $(KERNEL)
	@$(MAKE) --no-print-directory modules guest-tests
	build/vm-run --kernel $(KERNEL) --run TestContainers --carry build/containers/$(KERNEL)

test-user: ## what a new user does, on the Debian of KERNEL (6.1 is 12, 6.12 is 13): packages, DKMS, doctor, podman, shares; half an hour
	@$(MAKE) --no-print-directory setup deb guest-tests
	scripts/user-root $(KERNEL)
	scripts/user-modules $(KERNEL)
	build/vm-run --kernel $(KERNEL) --tree build/user/$(KERNEL) --run TestNewUser --timeout 3h

test-packages: ## install, upgrade and remove the packages on the Debian of KERNEL, with another kernel coming and going
	scripts/user-root $(KERNEL)
	@$(MAKE) --no-print-directory deb
	scripts/test-packages $(KERNEL)

test-powercut: ## CUTS=200 power cuts on kernel KERNEL, at moments of SEED, under each scheduler with ext4 and XFS: what fsync acknowledged is there
	scripts/setup-kernel $(KERNEL)
	@$(MAKE) --no-print-directory modules guest-tests
	build/vm-run --kernel $(KERNEL) --run TestPowerCut --cuts $(CUTS) --seed $(or $(SEED),1) --timeout 4h

test-debug: ## tests of the modules on a kernel with KASAN and lockdep, CPUS=2; builds it first (half an hour)
	scripts/setup-kernel debug
	@$(MAKE) --no-print-directory modules guest-tests KERNEL=debug
	build/vm-run --kernel debug --cpus $(CPUS) --timeout 90m

fuzz: ## fuzz what reads untrusted bytes, C and Go, SECONDS=60 for each target; needs clang, which it gets (as root)
	scripts/fuzz $(SECONDS)

lint: build/tools/golangci-lint-$(GOLANGCI) ## check formatting and style of Go, C and shell
	scripts/lint $<
	scripts/lint-kernel

build/tools/golangci-lint-%:
	GOBIN=$(CURDIR)/build/tools/$* go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$*
	@mv build/tools/$*/golangci-lint $@ && rmdir build/tools/$*

install: build ## build for the kernel that runs here; install modules and command
	@scripts/install

man: ## write the manual pages, of each subcommand and of /etc/isolio.toml, into build/man/
	@rm -rf build/man
	go run ./packaging/man build/man

deb: build ## make Debian packages: isolio, isolio-dkms, libaps; in build/deb/
	@scripts/deb

clean: ## remove what was built, but not the kernels that setup got
	rm -rf build/isolio build/qemu-clock.so build/vm.test build/vm-run build/obj build/modules build/test-c build/man build/deb build/roots/*/isolio/obj build/roots/*/isolio/libaps/out

.PHONY: help setup qemu build modules modules-arm64 libaps demo lab test test-c test-go test-vm guest-tests test-containers test-powercut test-user test-packages test-debug fuzz lint install man deb clean
