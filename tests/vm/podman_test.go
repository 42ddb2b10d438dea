// SPDX-License-Identifier: MIT

//go:build vm

package vm

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"isolio/internal/host/slo"
)

// promisedFile is what a user writes down for two containers.
const promisedFile = `[sla]
best_effort = 1

[[promise]]
name = "shop"
device = "nvme0n1"
read = "1000 IOPS"

[[promise]]
name = "ledger"
device = "nvme0n1"
read = "600 IOPS"
`

// promisedLoad is fio's job: as many threads as the container is told, each of which has a
// request outstanding all the time.
const promisedLoad = `[load]
filename=/dev/nvme0n1
ioengine=psync
direct=1
invalidate=0
bs=4k
rw=randread
norandommap
thread
numjobs=${DEPTH}
time_based
runtime=36000
`

// kept is what the account has of a promise so far.
func kept(t *testing.T, container string) slo.PromiseReport {
	t.Helper()
	out, err := exec.Command("isolio", "sla", "report", "--json").Output()
	must(t, err)
	var r slo.Report
	must(t, json.Unmarshal(out, &r))
	for _, line := range r.Promises {
		if line.Promise == "name "+container {
			return line
		}
	}
	t.Fatalf("no promise to %s: %s", container, out)
	return slo.PromiseReport{}
}

// A user with podman makes promises to two containers, beside one without: measures the
// disk, plans, is refused what the disk does not have, and reads that both promises are
// kept. Then the user takes away a weight, and reads why one of them is missed.
func TestPromisesWithPodman(t *testing.T) {
	if !exists(packages) {
		t.Skip("no packages and no podman here: make vm T=podman")
	}
	must(t, os.Setenv("DEBIAN_FRONTEND", "noninteractive"))
	takesBuiltModules(t)
	quiet(t, "cd "+packages+" && apt-get install -qq ./isolio_*.deb ./isolio-dkms_*.deb")
	modelDiskOf(t, spare, 128)
	quiet(t, "mkdir -p /var/tmp/promised/tmp && cd /var/tmp/promised && cat >load <<'END'\n"+promisedLoad+"END\n"+`
for file in $(command -v fio) $(ldd $(command -v fio) | grep -o '/[^ )]*'); do cp -L --parents $file .; done
tar -c . | podman import - load`)
	must(t, os.WriteFile("/etc/isolio.toml", []byte(promisedFile), 0o644))
	t.Cleanup(func() {
		_, _ = tried(t, "podman rm -f -t 0 --all; rm -f /etc/isolio.toml; isolio disable "+spare+"; apt-get purge -qq isolio isolio-dkms")
	})

	h := &hour{t}
	h.step("machine", "head -n 1 /etc/os-release; uname -r; podman --version; isolio --version")
	h.says("measure", h.step("measure", "sudo isolio measure "+spare+" --scheduler none --loads randread-4k --depths 1,16,64,128"), "run 2 of 2: randread-4k")
	h.step("promises", "cat /etc/isolio.toml")
	h.says("plan", h.step("plan", "sudo isolio sla plan"), "promise to", "shop", "ledger", "in reserve")
	h.says("oversell", h.refused("oversell", "sudo isolio sla plan --what-if 'name=more,device="+spare+",read=2500 IOPS'", 1), "too much: ", "drop: name ")
	h.says("alone", h.refused("alone", "sudo isolio sla plan --what-if 'name=more,device="+spare+",read=4500 IOPS'", 2), "is more than "+spare+" has; allowed: up to ")

	var doc slo.PlanDocument
	must(t, json.Unmarshal([]byte(quiet(t, "isolio sla plan --json")), &doc))
	tenants := doc.Plans[0].Tenants
	h.step("apply", "sudo isolio sla plan | sed -n '/^# for/,$p' | sudo tee -a /etc/isolio.toml")
	h.says("enable", h.step("enable", "sudo isolio enable "+spare+" && sudo systemctl reload isolio"), spare+": scheduler kyber-fairness")
	run := func(name string, depth int) string {
		return fmt.Sprintf("sudo podman run -d --name %s --env DEPTH=%d --network none --device /dev/%s load fio /load", name, depth, spare)
	}
	h.step("shop", run("shop", tenants[0].Depth))
	h.step("ledger", run("ledger", tenants[1].Depth))
	h.step("batch", run("batch", 64))
	const watched, violated, written = 20, 15, 12 // what was counted is written every ten seconds
	until(t, "isolio top --json --count 1 --interval 500ms", `"batch"`)
	time.Sleep((watched + written) * time.Second)
	h.says("top", h.step("top", "isolio top --count 1 --interval 2s"), "shop", "ledger", "batch")
	h.says("kept", h.step("kept", "sudo isolio sla report --since 1h"), "name shop", "name ledger", "100.000 %")
	before := map[string]slo.PromiseReport{"shop": kept(t, "shop"), "ledger": kept(t, "ledger")}
	for name, line := range before {
		t.Logf("%s: %d s demanded, %d kept, missed %v", name, line.Demanded, line.Kept, line.Missed)
		if line.Demanded < watched*9/10 || line.Kept != line.Demanded {
			t.Errorf("%s: %d s demanded, %d kept: %v", name, line.Demanded, line.Kept, line.Missed)
		}
	}

	h.step("violate", "sudo isolio weight shop 10 --device "+spare)
	time.Sleep(violated * time.Second)
	h.step("restore", fmt.Sprintf("sudo isolio weight shop %d --device %s", tenants[0].Weight, spare))
	time.Sleep(written * time.Second)
	h.says("missed", h.step("missed", "sudo isolio sla report --since 1h"), "oversold ")
	shop, ledger := kept(t, "shop"), kept(t, "ledger")
	t.Logf("shop: %d s demanded, %d kept, missed %v; ledger: %d, %d, %v", shop.Demanded, shop.Kept, shop.Missed, ledger.Demanded, ledger.Kept, ledger.Missed)
	missed := 0
	for cause, n := range shop.Missed {
		missed += n - before["shop"].Missed[cause]
	}
	oversold := shop.Missed["oversold"] - before["shop"].Missed["oversold"]
	if missed < violated*9/10 || oversold*100 < missed*95 {
		t.Errorf("of %d s without its weight shop missed %d, of which %d are oversold: %v", violated, missed, oversold, shop.Missed)
	}
	if ledger.Kept != ledger.Demanded {
		t.Errorf("ledger: %d s demanded, %d kept: %v", ledger.Demanded, ledger.Kept, ledger.Missed)
	}
	h.says("explain", h.step("explain", "isolio explain shop"), "shop")
}
