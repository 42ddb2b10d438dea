# SPDX-License-Identifier: MIT

# Kernel lines of internal/kernels/kernels.txt, or all; the first row by default.
KERNEL ?=

GOLANGCI := v2.15.0
export GOVULNCHECK := v1.9.0

# Of the programs; in VMs they have none. A package's build says its own. A tree that
# git refuses to read builds, and does not know its version.
VERSION ?= $(or $(shell scripts/version),devel)
set_version := -X isolio/internal/cli.Version=$(VERSION)

# The programs serve metrics in plain text, and have no use for HTTP/2. debian/rules has the same.
small := -tags nethttpomithttp2

# The toolchain that go.mod names: any go from 1.21 on fetches it. Debian's
# backports have a go of their own, outside of PATH.
export GOTOOLCHAIN := $(lastword $(shell grep '^toolchain ' go.mod))
export GOFLAGS := -trimpath -buildvcs=false
export CGO_ENABLED := 0
export PATH := $(PATH):/usr/lib/go-1.23/bin:/usr/sbin:/sbin
# MODULE_VERSION is of the modules for the lab's kernels: by default without the commit.
export MIRROR PREFIX DESTDIR RELEASE KEY CERT MODULE_VERSION KERNEL CPUS CUTS SEED SHORT
export DURATION := $(SECONDS)

.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

##@ Build and try

help: ## show this
	@awk -F ':.*## ' '/^##@/ { printf "\n%s\n", substr($$0, 5) } /^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@printf '\nKERNEL= takes one or more of: all, stable,%s\n' "$$(awk '!/^#/ { printf " %s", $$1 }' internal/kernels/kernels.txt)"
	@for script in test vm; do printf '\nmake %s T=\n' $$script; sed -n 's/^#\([a-z][a-z-]* \)/  \1/p' scripts/$$script | tail -n +2; done

setup: ## get packages and the guest kernels KERNEL=6.1, and build all for them; WITH='qemu libaps programs' for more (root)
	@scripts/setup-host
	@$(MAKE) programs-here
	@scripts/setup "$(KERNEL)" $(WITH)

build: programs-here ## build the programs, build/isolio and build/isolio-lab; with KERNEL=6.12 the modules for that kernel as well
	@$(if $(KERNEL),scripts/setup "$(KERNEL)" $(WITH))

demo: ## set up, build, and show a noisy neighbour, and four containers sharing a disk by weight
	@$(MAKE) setup KERNEL=
	build/isolio lab experiments/kyber-fairness/noisy-neighbour.toml --report build/noisy-neighbour.html
	build/isolio lab experiments/reports/report-rand-read.toml --report build/report-rand-read.html
	@echo "The pages with the plots: build/noisy-neighbour.html build/report-rand-read.html"

##@ Test

test: programs-here ## run the tests: C, Go and command line, all on a booted kernel KERNEL=6.1; T='c go' for some parts
	@scripts/test $(or $(T),c go vm)

check: ## run every test there is on every kernel; a day
	@$(MAKE) test T=check

vm: programs-here ## run a suite T=pods of tests on booted kernels KERNEL='6.12 7.2'
	@scripts/vm "$(or $(T),all)" $(KERNEL)

suite: programs-here ## run a test suite of others S=stress-ng under each scheduler on booted kernels KERNEL=6.1
	@scripts/suite "$(S)" $(KERNEL)

lint: build/tools/golangci-lint-$(GOLANGCI) ## check formatting and style of Go, C and shell
	scripts/lint $<
	scripts/lint-kernel

##@ Results and documents

results: programs-here ## measure anew what is older than the code: ONLY='kf-*' for some; after an interruption it goes on
	@scripts/setup "default $$({ sed -n 's/^kernel = "\(.*\)".*/\1/p' experiments/*/*.toml; ls results | sed -n 's/.*@\(.*\)\.jsonl/\1/p'; } | sort -u | xargs)" libaps programs qemu
	go run ./cmd/isolio-results run --only '$(ONLY)'

doc: ## fill documents with results/; P=reliability fills that page with what make vm measured, build/data/reliability.*.jsonl
	go run ./cmd/isolio-results doc $(P) $(and $(P),$(wildcard build/data/$(P).*jsonl))
	$(if $(P),,cd tests/kubernetes && go test -count=1 -run TestManifest -update .)

site: ## write the documents as a site, with search and manual pages, into build/site/, with V=0.2.0 into build/sites/0.2.0/ as well (root, to get mandoc and python3-venv)
	@$(MAKE) manuals-here
	@scripts/setup-host mandoc python3-venv
	@scripts/site $(V)

##@ Package and install

deb: ## make Debian packages of isolio, isolio-lab and the modules in build/deb/; WITH=libaps for the library's as well
	@scripts/setup-host cpio debhelper dh-dkms dpkg-dev lintian $(and $(filter libaps,$(WITH)),librocksdb-dev libsqlite3-dev liburing-dev)
	@scripts/deb $(filter libaps,$(WITH))

image: ## make build/isolio-image.tar, an OCI archive of the programs and of the modules in build/modules, and isolio-node in build/node/
	cd deploy/node && go build -ldflags="-s -w $(set_version)" -o ../../build/node/ ./cmd/...
	@scripts/setup-host kmod
	scripts/image $(VERSION)

release: ## make release V=0.2.0: every test, results measured anew, a tag, packages, checksums, SBOM in build/release; STEP= for some
	@scripts/release "$(V)" $(STEP)

rpm: ## make RPM packages of isolio and of the modules for DKMS, and their source, in build/rpm/
	@! command -v apt-get >/dev/null || scripts/setup-host rpm
	@scripts/rpm

install: programs-here manuals-here ## build and install all, with DKMS where it is; DESTDIR= PREFIX= KEY= CERT=
	@scripts/install

uninstall: ## give disks back, and remove what make install put
	@scripts/uninstall

clean: ## remove what was built, but not the kernels that setup got
	rm -rf $(addprefix build/,isolio isolio-lab isolio-guest isolio-image.tar guest qemu-clock.so *.test vm-run hostile-run obj modules test-c libaps man site site-src sites deb deb-src rpm rpm-build rpm-root arch release install installed test-install node image)
	rm -rf build/roots/*/isolio/obj build/roots/*/isolio/obj-* build/roots/*/isolio/libaps/out

# What runs on a host, and what runs in the lab's VMs.
programs-here: build/qemu-clock.so
	go build $(small) -ldflags="-s -w $(set_version)" -o build/ ./cmd/isolio ./cmd/isolio-lab
	go build -o build/isolio-guest ./cmd/isolio-guest

manuals-here:
	@rm -rf build/man
	go run -ldflags="$(set_version)" ./packaging/man build/man

# The tests that VMs boot, and what boots them. scripts/vm calls it.
guest-tests:
	go build $(small) -ldflags="-s -w" -o build/guest/ ./cmd/isolio ./cmd/isolio-lab
	for tests in vm hostile; do go test -c -tags vm -o build/$$tests.test ./tests/$$tests && go build -o build/$$tests-run ./tests/$$tests/run || exit 1; done

build/qemu-clock.so: internal/lab/vm/clock/qemu-clock.c
	@mkdir -p build
	gcc -std=gnu11 -O2 -Wall -Wextra -Werror -shared -fPIC -o $@ $<

build/tools/golangci-lint-%:
	GOBIN=$(CURDIR)/build/tools/$* go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$*
	@mv build/tools/$*/golangci-lint $@ && rmdir build/tools/$*

build/tools/govulncheck-%:
	GOBIN=$(CURDIR)/build/tools/$* go install golang.org/x/vuln/cmd/govulncheck@$*
	@mv build/tools/$*/govulncheck $@ && rmdir build/tools/$*

.PHONY: help setup build demo test check vm suite lint results doc site deb rpm image release install uninstall clean programs-here manuals-here guest-tests
