# SPDX-License-Identifier: MIT

KERNEL ?= 6.1
# A kernel line, or all of them.
lines := $(if $(filter all,$(KERNEL)),6.1 6.12 7.2,$(KERNEL))

# Of the VMs of test-debug and test-hostile; more than one take QEMU 8.1.
CPUS ?= 2

# How long fuzz takes for each target, and test-hostile on the guest's clock.
fuzz: SECONDS ?= 60
test-hostile: SECONDS ?= 900
test-soak: SECONDS ?= 600

# Of test-powercut, which takes a SEED as well.
CUTS ?= 200

# Of results: a shell pattern of names.
ONLY ?=

# Of test-drivers.
drivers_run := TestZram|TestEnableOnRealDisks|TestNewFilesOnRealDisks|TestOperations$(if $(SHORT),/.*/alone/(kyber-fairness|rsd|sfq))

# What the loads of test-powercut and test-soak call.
cut_programs := sh,cat,rm,mkfs.ext4,mkfs.xfs,e2fsck,xfs_repair,sqlite3,postgres
soak_programs := sh,cat,find,grep,mkdir,mv,rm,sync,tar,wc,mkfs.ext4,e2fsck,db_bench,sqlite3,postgres

DEMO := experiments/reports/report-rand-read.toml
GOLANGCI := v2.15.0

# Of the programs; in VMs they have none. A package's build says its own. A tree that
# git refuses to read builds, and does not know its version.
VERSION ?= $(or $(shell scripts/version),devel)

# Of the modules for the lab's kernels: by default without the commit.
MODULE_VERSION ?=

# The programs serve metrics in plain text, and have no use for HTTP/2. debian/rules has the same.
small := -tags nethttpomithttp2

# The toolchain that go.mod names: any go from 1.21 on fetches it. Debian's
# backports have a go of their own, outside of PATH.
export GOTOOLCHAIN := $(lastword $(shell grep '^toolchain ' go.mod))
export GOFLAGS := -trimpath -buildvcs=false
export CGO_ENABLED := 0
export PATH := $(PATH):/usr/lib/go-1.23/bin:/usr/sbin:/sbin
export MIRROR PREFIX DESTDIR RELEASE MODULE_VERSION

.DEFAULT_GOAL := help

help: ## show this
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "make %-21s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@printf '%s\n' 'KERNEL=6.1 (the default), 6.12, 7.2 or all, as in: make modules KERNEL=7.2;' '7.3 (backports of Debian 13) and 6.12-rt (PREEMPT_RT) are not among all;' 'KERNEL=debug is one with KASAN and lockdep, kcsan one that looks for data races; each is built from source in half an hour'

setup: ## get packages and the guest kernel KERNEL from Debian (needs root)
	@scripts/setup-host
	@$(MAKE) --no-print-directory build
	@for line in $(lines); do scripts/setup-kernel $$line || exit 1; done

qemu: ## get a newer QEMU for machines with several CPUs, where this one's is older than 8.1 (needs root)
	@scripts/setup-qemu

build: build/qemu-clock.so ## build the programs, build/isolio and build/isolio-lab, and what runs in the lab's VMs
	go build $(small) -ldflags="-s -w -X isolio/internal/cli.Version=$(VERSION)" -o build/ ./cmd/isolio ./cmd/isolio-lab
	go build -o build/isolio-guest ./cmd/isolio-guest

build/qemu-clock.so: internal/lab/vm/clock/qemu-clock.c
	@mkdir -p build
	gcc -std=gnu11 -O2 -Wall -Wextra -Werror -shared -fPIC -o $@ $<

modules: build ## build the kernel modules for KERNEL, into build/modules/
	@for line in $(lines); do scripts/modules $$line || exit 1; done

modules-arm64: build ## compile the modules for arm64 as well, with Debian's cross compiler; nothing is booted
	scripts/setup-kernel 6.12-arm64
	scripts/modules 6.12-arm64

libaps: build ## build libaps, its tests and its engines for fio, for the lab and for KERNEL
	@for line in $(lines); do scripts/libaps $$line || exit 1; done

programs: ## get what containers of experiments run in place of fio (PostgreSQL, SQLite, RocksDB, tar), for the lab and KERNEL (needs root)
	@for line in $(lines); do scripts/programs $$line && scripts/libaps $$line programs || exit 1; done

demo: ## set up, build, and show four containers sharing a disk by weight
	@$(MAKE) --no-print-directory setup KERNEL=6.1
	@$(MAKE) --no-print-directory modules KERNEL=6.1
	build/isolio lab $(DEMO) --cases depth-32,reference --report build/report-rand-read.html
	@echo "The page with the plots: build/report-rand-read.html"

lab: modules libaps programs qemu ## run every experiment in experiments/ and check what it expects
	scripts/lab

results: ## measure anew what is older than its sources: ONLY='kf-*' for some; a VM that would be the same is not booted again, after an interruption or a change
	@for line in $$(sed -n 's/^kernel = "\(.*\)".*/\1/p' experiments/*/*.toml | sort -u) 6.1; do $(MAKE) --no-print-directory setup modules libaps programs qemu KERNEL=$$line || exit 1; done
	@for line in $$(ls results | sed -n 's/.*@\(.*\)\.json/\1/p' | sort -u); do $(MAKE) --no-print-directory setup modules qemu KERNEL=$$line && scripts/programs $$line || exit 1; done
	go run ./cmd/isolio-results run --only '$(ONLY)'

docs: ## fill the tables and plots of README and docs/ with results/; draw which package imports which
	go run ./cmd/isolio-results docs
	go run ./packaging/layout docs/plots/layout.svg

verify: modules ## list the results that are older than their sources; simulate the law and measure one small case again, and compare
	@go run ./cmd/isolio-results list
	@mkdir -p build/data
	scripts/law --json >build/data/law.jsonl || [ $$? = 1 ]
	go run ./cmd/isolio-results doc --check law build/data/law.jsonl
	go run ./cmd/isolio-results verify kf-nested nvme

test: test-c test-go test-vm ## run all tests: C, Go and command line, modules on a booted kernel
	@echo "== all tests passed"

test-c: ## unit tests of the kernel code, in userspace under ASan and UBSan
	scripts/test-c

test-race: ## Go unit tests of what runs on a host, under the race detector; wants gcc
	CGO_ENABLED=1 go test -race ./internal/host/...

law: ## compare laws of sharing on model disks in user space, into docs/results/law.md; ONLY='p4500' prints some cases
	@mkdir -p build/data
	$(if $(ONLY),scripts/law --only '$(ONLY)',{ scripts/law --json >build/data/law.jsonl || [ $$? = 1 ]; } && go run ./cmd/isolio-results doc law build/data/law.jsonl)

test-go: ## Go unit tests, and scripts that call the programs
	go vet ./...
	go vet -tags vm ./tests/vm ./tests/hostile
	go test ./...

# Two VMs at a time: of one kernel, with half of the tests each, or of two kernels. Two with the
# same tests must tell the same to the last byte: these have loads of all kinds.
alike := TestModelDiskKeepsData|TestThrottledCgroupHoldsUpNoJournal|TestGroupsComeAndGo|TestDataIntegrity|TestSwitchUnderLoad|TestSumOfPods|TestPowerCut|TestLibaps
several := $(if $(word 2,$(lines)),yes)
# These leave themselves out where tests before them made Linux 7 put off its timers
# (needsTimers() in tests/vm/disk_test.go): they have a boot of their own there.
fresh := TestTargetOutOfReach|TestRareRequestsCostNothing|TestReadsKeepNoWriteWaiting
test-vm: ## tests of the modules on a booted kernel KERNEL, in two VMs with half of them each; on each kernel of KERNEL='6.12 7.2', side by side
	@for line in $(lines); do scripts/setup-kernel $$line || exit 1; done
	@$(MAKE) --no-print-directory modules guest-tests
	@for line in $(lines); do scripts/libaps $$line tests || exit 1; done
	@$(MAKE) --no-print-directory $(if $(several),-j2 --output-sync=target) $(lines:%=boot-%)

boot-%:
	build/vm-run $(if $(several),,--split) --kernel $*
	$(if $(several),,build/vm-run --twice --kernel $* --run '^($(alike))$$')
	$(if $(filter 7.%,$*),build/vm-run --kernel $* --run '^($(fresh))$$')
	build/vm-run --hangs --kernel $*

guest-tests: build
	go build $(small) -ldflags="-s -w" -o build/guest/ ./cmd/isolio ./cmd/isolio-lab
	go test -c -tags vm -o build/vm.test ./tests/vm
	go build -o build/vm-run ./tests/vm/run

hostile-tests: guest-tests
	go test -c -tags vm -o build/hostile.test ./tests/hostile
	go build -o build/hostile-run ./tests/hostile/run

test-hostile: ## all that can happen to disks and schedulers at once, on Debian's generic kernel KERNEL: CPUS=2, SECONDS=900, SEED=
	@$(MAKE) --no-print-directory qemu
	@for line in $(lines); do scripts/setup-kernel $$line-generic || exit 1; done
	@$(MAKE) --no-print-directory modules KERNEL="$(lines:%=%-generic)"
	@$(MAKE) --no-print-directory hostile-tests
	@for line in $(lines); do build/hostile-run --kernel $$line-generic --cpus $(CPUS) --seconds $(SECONDS) --seed $(or $(SEED),0) || exit 1; done

test-hostile-short: ## the same for a minute in virtual time with a fixed seed, which repeats to the last byte
	@for line in $(lines); do scripts/setup-kernel $$line || exit 1; done
	@$(MAKE) --no-print-directory modules hostile-tests
	@for line in $(lines); do build/hostile-run --virtual --cpus 1 --kernel $$line --seconds 10 --seed 1 || exit 1; done

test-containers: ## test weights of real containers, of crun and runc, on a booted kernel KERNEL
	scripts/containers $(KERNEL)
	@$(MAKE) --no-print-directory modules guest-tests
	build/vm-run --kernel $(KERNEL) --run TestContainers --carry build/containers/$(KERNEL)

test-pods: ## test shares of pods of a real containerd, Debian 13's, with a kubelet's cgroups and the chart's rules, on a booted kernel KERNEL; needs root to get it
	scripts/pods
	@$(MAKE) --no-print-directory modules guest-tests
	build/vm-run --kernel $(KERNEL) --run '^TestPod(sOf|That)' --carry build/pods --work 1024

test-promises: ## test on KERNEL that the daemon attributes each violation of a promise to its cause, into docs/results/promises.md; ten minutes of virtual time
	@$(MAKE) --no-print-directory modules guest-tests
	build/vm-run --kernel $(KERNEL) --run '^TestViolationsAreAttributed$$' --env ISOLIO_VIOLATIONS=1 --timeout 1h --data build/data/promises-$(KERNEL).jsonl; rc=$$?; \
		go run ./cmd/isolio-results doc promises build/data/promises-$(KERNEL).jsonl && exit $$rc

test-prometheus: ## test the dashboard and the rules of packaging/ against Debian 13's Prometheus, which it gets; needs root to get it, half a minute
	scripts/prometheus
	PROMETHEUS=$(CURDIR)/build/prometheus go test -count=1 -v ./tests/prometheus

test-nri: build ## test the daemon against Debian 13's containerd in a chroot: pods before and after it, restarts of both; needs root, 15 s
	scripts/containerd
	cd tests/nri && go vet . ./pause && go test -count=1 -v .

node: ## build isolio-node and kubectl-isolio, for Kubernetes, into build/node/; a module of its own, the first build takes minutes
	cd deploy/node && go build -ldflags="-s -w -X isolio/internal/cli.Version=$(VERSION)" -o ../../build/node/ ./cmd/...

image: node ## make build/isolio-image.tar, an OCI archive of the programs and of the modules that are in build/modules; the same bytes each time
	@scripts/setup-host kmod
	scripts/image $(VERSION)

manifest: ## write deploy/kubernetes/isolio.yaml, as the chart makes it
	cd tests/kubernetes && go test -count=1 -run 'TestManifest|TestFilesOfPackaging' -update .

test-kubernetes-short: ## test isolio-node with a kubelet's calls, kubectl isolio, the image, the chart and its policies; no cluster; a minute, the first time 15
	cd deploy/node && go vet ./... && go test -count=1 ./...
	cd deploy/image && go vet ./... && go test -count=1 ./...
	cd tests/kubernetes && go vet . && go test -count=1 .

test-kubernetes: ## test a cluster: roles, policies and a fleet of FLEET=500 nodes and PODS=1600 pods with a real control plane; a node with kubelet and containerd on a booted kernel KERNEL, through installs, restarts and upgrades; builds Kubernetes first (a quarter of an hour)
	@$(MAKE) --no-print-directory modules guest-tests image
	scripts/kubernetes
	cd tests/kubernetes && KUBERNETES=$(CURDIR)/build/kubernetes go test -count=1 -v -timeout 4h -run TestCluster .
	scripts/cluster $(KERNEL) $(VERSION)
	build/vm-run --kernel $(KERNEL) --tree build/cluster/$(KERNEL) --carry build/cluster/$(KERNEL)/files --work 2048 --timeout 2h --run '^TestKubernetes$$'

test-user: ## what a new user does, on the Debian of KERNEL (6.1 is 12, 6.12 is 13): packages, DKMS, doctor, podman, shares; half an hour
	@$(MAKE) --no-print-directory setup deb guest-tests
	scripts/user-root $(KERNEL)
	scripts/user-modules $(KERNEL)
	build/vm-run --kernel $(KERNEL) --tree build/user/$(KERNEL) --run 'TestNewUser|TestDiskTables' --timeout 3h

first-hour: ## what a new user's first hour prints, on the Debian of KERNEL, into docs/results/first-hour.md; a quarter of an hour
	@$(MAKE) --no-print-directory setup deb guest-tests
	scripts/user-root $(KERNEL)
	scripts/user-modules $(KERNEL)
	build/vm-run --kernel $(KERNEL) --tree build/user/$(KERNEL) --run '^TestFirstHour$$' --timeout 2h --data build/data/first-hour.jsonl
	go run ./cmd/isolio-results doc first-hour build/data/first-hour.jsonl

promises-podman: ## promises to podman's containers, kept and missed, on the Debian of KERNEL, into docs/results/promises-podman.md; a quarter of an hour
	@$(MAKE) --no-print-directory setup deb guest-tests
	scripts/user-root $(KERNEL)
	scripts/user-modules $(KERNEL)
	build/vm-run --kernel $(KERNEL) --tree build/user/$(KERNEL) --run '^TestPromisesWithPodman$$' --timeout 2h --data build/data/promises-podman.jsonl
	go run ./cmd/isolio-results doc promises-podman build/data/promises-podman.jsonl

daemon-cost: ## measure the daemon with 200 and with 1000 containers, into docs/daemon.md
	@$(MAKE) --no-print-directory modules guest-tests
	for containers in 200 1000; do \
		build/vm-run --kernel $(KERNEL) --run '^TestDaemonIsCheap$$' --env ISOLIO_CONTAINERS=$$containers --data build/data/daemon-$$containers.jsonl || exit 1; done
	go run ./cmd/isolio-results doc daemon build/data/daemon-200.jsonl build/data/daemon-1000.jsonl

test-soak: programs ## PostgreSQL, SQLite, RocksDB, tar and others together on ext4 for SECONDS=600 of virtual time on KERNEL, the scheduler changing every 20 s; the better part of an hour
	@$(MAKE) --no-print-directory modules guest-tests
	build/vm-run --kernel $(KERNEL) --from-programs --programs $(soak_programs) --work 2560 --env ISOLIO_SOAK=$(SECONDS) --run '^TestSoak$$' --limit $$(($(SECONDS) / 60 + 20))m --timeout 4h

writeback: programs ## measure which container is charged for writeback on ext4, XFS and btrfs, into docs/filesystems.md, which has KERNEL='6.1 7.2'; two minutes
	@$(MAKE) --no-print-directory modules guest-tests
	for line in $(lines); do \
		build/vm-run --kernel $$line --from-programs --programs sh,mkfs.ext4,mkfs.xfs,mkfs.btrfs --run '^TestWritebackIsCharged$$' --data build/data/writeback-$$line.jsonl || exit 1; done
	go run ./cmd/isolio-results doc filesystems $(lines:%=build/data/writeback-%.jsonl)

test-attacks: ## what a tenant tries against neighbours and the daemon, with 1000 containers beside it, on KERNEL; a quarter of an hour
	@$(MAKE) --no-print-directory modules guest-tests
	build/vm-run --kernel $(KERNEL) --run '^TestAttacks$$' --env ISOLIO_CONTAINERS=1000 --timeout 2h

test-packages: ## install, upgrade and remove the packages on the Debian of KERNEL, with another kernel coming and going
	scripts/user-root $(KERNEL)
	@$(MAKE) --no-print-directory deb
	scripts/test-packages $(KERNEL)

test-powercut: programs ## CUTS=200 power cuts on each kernel of KERNEL, at moments of SEED, under each scheduler with ext4 and XFS: what fsync acknowledged is there; and a fifth as many beneath PostgreSQL and SQLite: what they committed is there. Into docs/results/reliability.md, which has KERNEL='6.1 6.12 7.2'; a quarter of an hour a kernel
	@for line in $(lines); do scripts/setup-kernel $$line || exit 1; done
	@$(MAKE) --no-print-directory modules guest-tests
	for line in $(lines); do \
		build/vm-run --kernel $$line --run '^TestPowerCut(WithoutBarriers)?$$' --cuts $(CUTS) --seed $(or $(SEED),1) --timeout 4h --data build/data/powercut-$$line.jsonl && \
		build/vm-run --kernel $$line --from-programs --programs $(cut_programs) --work 1536 --run '^TestPowerCutDatabases' \
			--cuts $$(($(CUTS) / 5)) --seed $(or $(SEED),1) --timeout 4h --data build/data/powercut-databases-$$line.jsonl || exit 1; done
	go run ./cmd/isolio-results doc reliability $(lines:%=build/data/powercut-%.jsonl) $(lines:%=build/data/powercut-databases-%.jsonl)

test-drivers: ## every operation on every kind of disk, of real drivers too, under every scheduler, on Debian's generic kernel KERNEL; SHORT=1 for the project's schedulers alone
	@$(MAKE) --no-print-directory qemu
	@for line in $(lines); do scripts/setup-kernel $$line-generic || exit 1; done
	@$(MAKE) --no-print-directory modules KERNEL="$(lines:%=%-generic)"
	@$(MAKE) --no-print-directory guest-tests
	@for line in $(lines); do \
		build/vm-run --kernel $$line-generic --disks all --limit 3h --timeout 4h --run '$(drivers_run)' --data build/data/drivers-$$line.jsonl || exit 1; done

matrix: ## write what test-drivers measured, build/data/drivers-*.jsonl, into docs/results/reliability.md
	go run ./cmd/isolio-results doc reliability build/data/drivers-*.jsonl

bench-smp: ## measure sharing between CPUs into docs/results/scaling.md: in userspace with a thread for each CPU, by counting, and on KERNEL with CPUS=2; wants an idle machine, a quarter of an hour
	@$(MAKE) --no-print-directory qemu
	@$(MAKE) --no-print-directory modules guest-tests KERNEL=$(KERNEL)
	KERNEL=$(KERNEL) CPUS=$(CPUS) scripts/bench-smp

test-debug: ## tests of the modules on a kernel with KASAN and lockdep, CPUS=2; builds it first (half an hour)
	scripts/setup-kernel debug
	@$(MAKE) --no-print-directory modules guest-tests KERNEL=debug
	build/vm-run --kernel debug --cpus $(CPUS) --timeout 90m

test-kcsan: ## tests of the modules on a kernel that looks for data races, on two parallel CPUs; builds it first (half an hour)
	scripts/setup-qemu
	scripts/setup-kernel kcsan
	@$(MAKE) --no-print-directory modules guest-tests KERNEL=kcsan
	build/vm-run --kernel kcsan --cpus 2 --parallel --timeout 60m --run '^TestRaces$$'

fuzz: ## fuzz what reads untrusted bytes, C and Go, SECONDS=60 for each target; needs clang, which it gets (as root)
	scripts/fuzz $(SECONDS); rc=$$?; go run ./cmd/isolio-results doc reliability build/data/fuzz.jsonl && exit $$rc

lint: build/tools/golangci-lint-$(GOLANGCI) ## check formatting and style of Go, C and shell
	scripts/lint $<
	scripts/lint-kernel

build/tools/golangci-lint-%:
	GOBIN=$(CURDIR)/build/tools/$* go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$*
	@mv build/tools/$*/golangci-lint $@ && rmdir build/tools/$*

install: build ## build for the kernel that runs here; install modules and programs
	@scripts/install

man: ## write the manual pages, of each subcommand and of /etc/isolio.toml, into build/man/
	@rm -rf build/man
	go run -ldflags="-X isolio/internal/cli.Version=$(VERSION)" ./packaging/man build/man

site: man ## write the documents as a site, with search and manual pages, into build/site/; gets mandoc and python3-venv (as root)
	@scripts/setup-host mandoc python3-venv
	@scripts/site

deb: ## make Debian packages: isolio, isolio-lab, isolio-dkms, libaps0, libaps-dev, libaps-rocksdb, libsqlite3-mod-aps; in build/deb/
	@scripts/setup-host cpio debhelper dh-dkms dpkg-dev librocksdb-dev libsqlite3-dev liburing-dev lintian
	@scripts/deb

clean: ## remove what was built, but not the kernels that setup got
	rm -rf build/isolio build/isolio-lab build/isolio-guest build/guest build/qemu-clock.so build/vm.test build/vm-run build/hostile.test build/hostile-run build/obj build/modules build/test-c build/libaps build/man build/site build/site-src build/deb build/deb-src build/roots/*/isolio/obj build/roots/*/isolio/obj-* build/roots/*/isolio/libaps/out

.PHONY: test-race node image manifest test-kubernetes-short test-kubernetes law results docs verify help setup qemu build modules modules-arm64 libaps programs demo lab test test-c test-go test-vm guest-tests test-containers test-pods test-nri test-prometheus test-promises test-powercut test-user first-hour promises-podman daemon-cost test-packages test-drivers matrix test-debug test-kcsan test-hostile test-hostile-short hostile-tests bench-smp fuzz lint install man site deb clean test-attacks writeback test-soak
