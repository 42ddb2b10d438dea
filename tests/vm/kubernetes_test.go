// SPDX-License-Identifier: MIT

//go:build vm

package vm

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestKubernetes is a cluster's life with isolio, in the order of its parts. Each part makes
// what it begins with, unless the one before has left it, so one that fails hides no other,
// and -run may choose some.
func TestKubernetes(t *testing.T) {
	k := newKube(t)
	for _, part := range []struct {
		name string
		does func(k *kube)
		bare bool // it begins without isolio
	}{
		{"no-module", (*kube).lacksModule, true},
		{"install", (*kube).installs, true},
		{"classes", (*kube).classes, false},
		{"annotations", (*kube).refuses, false},
		{"claims", (*kube).claims, false},
		{"disks", (*kube).disks, false},
		{"new-disk", (*kube).followsDisks, false},
		{"kubelet", (*kube).kubeletRestarts, false},
		{"containerd", (*kube).containerdRestarts, false},
		{"plugin", (*kube).pluginRestarts, false},
		{"away", (*kube).deletesWhileAway, false},
		{"csi", (*kube).unstages, false},
		{"attack", (*kube).attacked, false},
		{"drain", (*kube).drains, false},
		{"upgrade", (*kube).upgrades, false},
		{"uninstall", (*kube).uninstalls, false},
	} {
		t.Run(part.name, func(t *testing.T) {
			began := time.Now()
			k := k.on(t)
			defer func() {
				t.Logf("%.0f s", time.Since(began).Seconds())
				if t.Failed() {
					*k.installed = false
				}
			}()
			if !part.bare {
				k.begins()
			}
			part.does(k)
		})
	}
}

// begins makes it so that isolio is there, and that two pods read all they can, and no other.
func (k *kube) begins() {
	k.t.Helper()
	// A fast disk would take all of the CPU.
	write(k.t, filepath.Join(k.disk.config, "scale"), "256")
	if *k.installed {
		k.readers()
		return
	}
	k.helm("upgrade --install --create-namespace --reset-values")
	k.isolioReady()
	shell(k.t, "kubectl delete pods --all --wait=false")
	k.until("all pods are gone", func() (bool, string) {
		var list struct{ Items []any }
		return k.get("/api/v1/namespaces/default/pods", &list) && len(list.Items) == 0, fmt.Sprint(list)
	})
	k.apply(template("half", kubeletClass, "", 600))
	web, batch := k.readers()
	k.weighs("web", web.group(), "default 300")
	k.weighs("batch", batch.group(), "default 100")
	*k.installed = true
}

// readers are two pods, of two QoS classes, that share a disk by their annotations alone.
func (k *kube) readers() (web, batch *kubePod) {
	k.t.Helper()
	pods := k.run(
		&podSpec{name: "web", annotations: weightOf("300"), requests: "10m"},
		&podSpec{name: "batch", annotations: weightOf("100")},
	)
	return pods[0], pods[1]
}

// helm runs it with the chart, this image and more values.
func (k *kube) helm(command string, more ...string) {
	k.t.Helper()
	shell(k.t, "helm "+command+" -n "+system+" shares "+runtimes+"/chart.tgz --set image.tag=$(cat "+runtimes+"/version) "+strings.Join(more, " "))
}

// Two pods that are older than isolio.
var (
	earlyPod     = &podSpec{name: "early", annotations: weightOf("300"), requests: "10m", idle: true}
	meanwhilePod = &podSpec{name: "meanwhile", annotations: weightOf("300"), idle: true}
)

// lacksModule: an image without a module for this kernel. Pods run as they do without isolio, and the reason
// is where docs/kubernetes-operate.md says. One of them is there before isolio.
func (k *kube) lacksModule() {
	k.run(earlyPod)
	k.helm("install --create-namespace", "--set modules.directory=/opt/lib")
	const reason = "/opt/lib: has no kyber-fairness-iosched.ko for kernel "
	k.until("the node has an event with the reason", func() (bool, string) {
		var list struct {
			Items []struct{ Reason, Message string }
		}
		if !k.get("/api/v1/namespaces/default/events?fieldSelector=involvedObject.kind=Node", &list) {
			return false, "no events"
		}
		for _, e := range list.Items {
			if e.Reason == "DiskNotEnabled" {
				k.t.Log(e.Message)
				return strings.Contains(e.Message, reason), e.Message
			}
		}
		return false, fmt.Sprint(list)
	})
	// Claims of pods could not be taken back by a program that does not run.
	k.isolioReady()
	if text, err := tried(k.t, "kubectl isolio status"); err != nil || !strings.Contains(text, reason) {
		k.t.Errorf("kubectl isolio status: %v: %s", err, text)
	}
	k.run(meanwhilePod)
	if _, active := k.disk.schedulers(k.t); active == elevator {
		k.t.Errorf("%s has the scheduler %s without a module", k.disk.name, active)
	}
}

// installs installs the chart over the one that had no module.
func (k *kube) installs() {
	pods := k.run(earlyPod, meanwhilePod)
	k.helm("upgrade --install --create-namespace", "--set modules.directory=/opt/lib/modules")
	k.isolioReady()
	for _, d := range []*disk{k.disk, k.other} {
		if _, active := d.schedulers(k.t); active != elevator {
			k.t.Errorf("%s has the scheduler %s", d.name, active)
		}
	}
	for _, slice := range []string{"kubepods.slice", "kubepods.slice/kubepods-burstable.slice", "kubepods.slice/kubepods-besteffort.slice"} {
		k.weighs(slice, filepath.Join(cgroupRoot, slice), "default sum")
	}
	for _, p := range pods {
		k.weighs(p.Metadata.Name, p.group(), "default 300")
	}
	shell(k.t, "kubectl isolio status; isolio status")
	k.removes("early", "meanwhile")
}

// removes deletes pods, and waits until they are gone.
func (k *kube) removes(names ...string) {
	k.t.Helper()
	shell(k.t, "kubectl delete pod --wait=false "+strings.Join(names, " "))
	for _, name := range names {
		k.until(name+" is gone", func() (bool, string) {
			text, err := k.ask(http.MethodGet, "/api/v1/namespaces/default/pods/"+name, "", nil)
			return err != nil && strings.Contains(err.Error(), "404"), text
		})
	}
}

// classes: pods of three QoS classes share a disk by their annotations alone.
func (k *kube) classes() {
	web, batch := k.readers()
	pods := []*kubePod{web, batch}
	k.shares("Burstable 300, BestEffort 100", k.disk, pods, []float64{300, 100})
	bank := k.run(&podSpec{name: "bank", annotations: weightOf("200"), limits: "{cpu: 200m, memory: 100Mi}"})
	k.weighs("bank", bank[0].group(), "default 200")
	k.shares("and Guaranteed 200", k.disk, append(pods, bank...), []float64{300, 100, 200})
	k.removes("bank")
}

// event waits for one about a pod.
func (k *kube) event(pod, reason string, wants ...string) {
	k.t.Helper()
	k.until("an event "+reason+" of "+pod, func() (bool, string) {
		var list struct {
			Items []struct{ Reason, Message string }
		}
		if !k.get("/api/v1/namespaces/default/events?fieldSelector=involvedObject.name="+pod, &list) {
			return false, "no events"
		}
		for _, e := range list.Items {
			has := e.Reason == reason
			for _, want := range wants {
				has = has && strings.Contains(e.Message, want)
			}
			if has {
				k.t.Logf("%s: %s: %s", pod, e.Reason, e.Message)
				return true, ""
			}
		}
		return false, fmt.Sprint(list)
	})
}

// refuses: an annotation that is no weight. The pod runs, the default holds, and it has an event.
func (k *kube) refuses() {
	bad := k.run(&podSpec{name: "bad", annotations: weightOf("lots"), idle: true})
	k.event("bad", "BadDiskWeight", "lots", "1..10000")
	k.weighs("bad", bad[0].group(), "default 100")
	k.removes("bad")
}

// template is a ResourceClaimTemplate for shares of a class's disk; where is a CEL expression.
func template(name, class, where string, n int) string {
	selectors := ""
	if where != "" {
		selectors = fmt.Sprintf("selectors: [{cel: {expression: '%s'}}], ", where)
	}
	return fmt.Sprintf(`apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: %s, namespace: default}
spec: {spec: {devices: {requests: [{name: disk, exactly: {deviceClassName: %s, %scapacity: {requests: {share: "%d"}}}}]}}}
---
`, name, class, selectors, n)
}

const (
	kubeletClass = "kubelet.disk.isolio.dev"
	anyClass     = "disk.isolio.dev"
	onOther      = `device.attributes["disk.isolio.dev"].name == "disk2"`
	onThird      = `device.attributes["disk.isolio.dev"].name == "disk3"`
)

// claims: a pod's weight is what its claim was given, pods without one share the rest, and
// the scheduler sells no disk twice.
func (k *kube) claims() {
	k.apply(template("more", kubeletClass, "", 500))
	on := k.disk.number
	db := k.run(&podSpec{name: "db", requests: "10m", claims: map[string]string{"disk": "half"}})[0]
	k.weighs("db", db.group(), "default 100", on+" 600")
	// 600 shares leave 400 to weights of 300, 100, and the 100 of isolio's own pod.
	web, batch := k.runs("web"), k.runs("batch")
	k.weighs("web", web.group(), "default 300", on+" 240")
	k.weighs("batch", batch.group(), "default 100", on+" 80")
	k.shares("a claim on 600, and weights of 300 and 100", k.disk, []*kubePod{db, web, batch}, []float64{600, 240, 80})

	k.apply((&podSpec{name: "greedy", requests: "10m", claims: map[string]string{"disk": "more"}, idle: true}).manifest())
	k.event("greedy", "FailedScheduling", "cannot allocate all claims")
	if text := shell(k.t, "kubectl isolio explain greedy"); !strings.Contains(text, "waits: it asks for 500 shares") {
		k.t.Errorf("explain does not say how many it asks for")
	}
	k.removes("db")
	greedy := k.runs("greedy")
	k.weighs("greedy", greedy.group(), "default 100", on+" 500")
	k.weighs("web", web.group(), "default 300")
	shell(k.t, "kubectl isolio status --volumes; cat /run/isolio/claims.json")
	k.removes("greedy")
}

// disks: claims on the second disk, by pods with volumes there and elsewhere; and a claim on
// a disk that is not enabled.
func (k *kube) disks() {
	k.apply(template("other", anyClass, onOther, 400))
	there := map[string]string{"disk": "other"}
	logs := k.run(&podSpec{name: "logs", claims: there, volumes: "hostPath: {path: " + otherAt + "}", idle: true})[0]
	k.weighs("logs", logs.group(), "default 100", k.other.number+" 400")
	wrong := k.run(&podSpec{name: "wrong", claims: there, idle: true})[0]
	k.event("wrong", "VolumeOnOtherDisk", "is for a share of disk2", "data on disk1")
	k.weighs("wrong", wrong.group(), "default 100", k.other.number+" 400")
	if text := shell(k.t, "kubectl isolio status --volumes"); !strings.Contains(text, "logs") {
		k.t.Errorf("status does not name the pod")
	}
	k.removes("wrong", "logs")

	shell(k.t, "isolio disable disk2")
	k.offers("disk2", false)
	k.apply((&podSpec{name: "waits", claims: there, idle: true}).manifest())
	k.event("waits", "FailedScheduling", "cannot allocate all claims")
	if text := shell(k.t, "kubectl isolio explain waits"); !strings.Contains(text, "kubectl isolio enable") {
		k.t.Errorf("explain does not say what to do")
	}
	shell(k.t, "kubectl isolio enable "+nodeName+" disk2")
	waits := k.runs("waits")
	k.weighs("waits", waits.group(), "default 100", k.other.number+" 400")
	k.removes("waits")
}

// offers waits until the node's slices have a disk, or have it no more. They have disk1 all the time.
func (k *kube) offers(disk string, want bool) {
	k.t.Helper()
	k.until(fmt.Sprintf("%s is offered: %t", disk, want), func() (bool, string) {
		text, err := k.ask(http.MethodGet, "/apis/resource.k8s.io/v1/resourceslices", "", nil)
		return err == nil && strings.Contains(text, `"disk1"`) && strings.Contains(text, fmt.Sprintf("%q", disk)) == want, text
	})
}

// followsDisks: a disk comes to the node while isolio runs, as that of a volume does, and a pod has
// its share of it through a PersistentVolume; then the disk goes.
func (k *kube) followsDisks() {
	k.helm("upgrade", "--reset-values --set followDisks=true")
	k.isolioReady()
	third := k.modelDisk("disk3", "/srv/disk3")
	began := time.Now()
	k.until("disk3 has the scheduler", func() (bool, string) {
		_, active := third.schedulers(k.t)
		return active == elevator, active
	})
	k.t.Logf("disk3 has the scheduler %.1f s after it was mounted", time.Since(began).Seconds())
	k.offers("disk3", true)
	k.apply(template("third", anyClass, onThird, 400) + `apiVersion: v1
kind: PersistentVolume
metadata: {name: third}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  storageClassName: manual
  local: {path: /srv/disk3}
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [` + nodeName + `]}]}]}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: third, namespace: default}
spec: {accessModes: [ReadWriteOnce], storageClassName: manual, volumeName: third, resources: {requests: {storage: 1Gi}}}
`)
	write(k.t, filepath.Join(third.config, "scale"), "256")
	volume := "persistentVolumeClaim: {claimName: third}"
	pods := k.run(
		&podSpec{name: "new-db", requests: "10m", claims: map[string]string{"disk": "third"}, volumes: volume},
		&podSpec{name: "new-web", annotations: weightOf("300"), requests: "10m", volumes: volume},
		&podSpec{name: "new-batch", annotations: weightOf("100"), volumes: volume},
	)
	k.weighs("new-db", pods[0].group(), "default 100", third.number+" 400")
	if text := shell(k.t, "kubectl isolio status --volumes; kubectl isolio explain new-db"); !strings.Contains(text, "400 of 1000 shares of disk3") {
		k.t.Errorf("explain does not tell the claim")
	}
	// 600 shares are left to weights of 300 and 100 here, of 300 and 100 on the other disk, and the
	// 100 of isolio's own pod.
	k.weighs("new-web", pods[1].group(), "default 300", third.number+" 200")
	k.weighs("new-batch", pods[2].group(), "default 100", third.number+" 66")
	k.shares("on the new disk", third, pods, []float64{400, 200, 66})
	k.removes("new-db", "new-web", "new-batch")

	shell(k.t, "kubectl delete pvc,pv --wait=false third; umount /srv/disk3")
	must(k.t, os.Remove(third.config))
	k.offers("disk3", false)
	k.helm("upgrade", "--reset-values")
	k.isolioReady()
	k.holds("a disk came and went")
}

// restarts is how often a pod's container was started again.
func (p *kubePod) restarts() (n int) {
	for _, c := range p.Status.ContainerStatuses {
		n += c.RestartCount
	}
	return n
}

// holds: what web and batch have is as before, and they were not started again.
func (k *kube) holds(after string) {
	k.t.Helper()
	pods := []*kubePod{k.runs("web"), k.runs("batch")}
	k.weighs("web", pods[0].group(), "default 300")
	k.weighs("batch", pods[1].group(), "default 100")
	k.shares("after "+after, k.disk, pods, []float64{300, 100})
	for _, p := range pods {
		if n := p.restarts(); n != 0 {
			k.t.Errorf("%s was started again %d times", p.Metadata.Name, n)
		}
	}
}

// newcomer: a new pod with a claim has its weight.
func (k *kube) newcomer(name string) {
	k.t.Helper()
	p := k.run(&podSpec{name: name, claims: map[string]string{"disk": "half"}, idle: true})[0]
	k.weighs(name, p.group(), "default 100", k.disk.number+" 600")
	k.removes(name)
}

func (k *kube) kubeletRestarts() {
	shell(k.t, "systemctl kill -s KILL kubelet; sleep 1; systemctl reset-failed kubelet; systemctl start kubelet")
	k.newcomer("after-kubelet")
	k.holds("kubelet was killed")
}

func (k *kube) containerdRestarts() {
	shell(k.t, "systemctl kill -s KILL --kill-whom=main containerd; sleep 1; systemctl restart containerd")
	k.newcomer("after-containerd")
	k.holds("containerd was killed")
}

// isolioPod is the DaemonSet's.
func (k *kube) isolioPod() string {
	k.t.Helper()
	var list struct{ Items []kubePod }
	k.get("/api/v1/namespaces/"+system+"/pods", &list)
	for _, p := range list.Items {
		if strings.HasPrefix(p.Metadata.Name, "isolio-node-") {
			return p.Metadata.Name
		}
	}
	return ""
}

// killAll kills the processes whose command lines begin so; there must be one of each.
func (k *kube) killAll(commands ...string) {
	k.t.Helper()
	killed := map[string]int{}
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(k.t, err)
	for _, file := range files {
		text, _ := os.ReadFile(file) // the process may have ended
		line := strings.ReplaceAll(string(text), "\x00", " ")
		for _, command := range commands {
			if strings.HasPrefix(line, command+" ") {
				pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
				must(k.t, err)
				must(k.t, syscall.Kill(pid, syscall.SIGKILL))
				killed[command]++
			}
		}
	}
	if len(killed) != len(commands) {
		k.t.Fatalf("killed: %v", killed)
	}
}

// pluginRestarts: both programs are killed, and then their pod is made anew.
func (k *kube) pluginRestarts() {
	k.killAll("/usr/bin/isolio-node", "/usr/bin/isolio daemon")
	k.newcomer("after-kill")
	k.holds("the plugin was killed")
	old := k.isolioPod()
	shell(k.t, "kubectl -n "+system+" delete pod "+old)
	k.isolioReady()
	k.newcomer("after-delete")
	k.holds("the plugin's pod was deleted")
}

// deletesWhileAway: a pod with a claim goes, and one with an annotation comes, while there is no plugin.
func (k *kube) deletesWhileAway() {
	db := k.run(&podSpec{name: "db", requests: "10m", claims: map[string]string{"disk": "half"}, idle: true})[0]
	k.weighs("db", db.group(), "default 100", k.disk.number+" 600")
	k.helm("upgrade", "--reuse-values --set nodeSelector.nowhere=yes")
	k.until("isolio's pod is gone", func() (bool, string) { name := k.isolioPod(); return name == "", name })
	k.weighs("db", db.group(), "default 100", k.disk.number+" 600")
	shell(k.t, "kubectl delete pod --wait=false db")
	late := k.run(&podSpec{name: "late", annotations: weightOf("400"), idle: true})[0]
	shell(k.t, "sleep 30; kubectl get pods; cat /run/isolio/claims.json")
	k.helm("upgrade", "--reset-values") // a null beside --reuse-values leaves the selector's key
	k.isolioReady()
	k.until("db is gone", func() (bool, string) {
		text, err := k.ask(http.MethodGet, "/api/v1/namespaces/default/pods/db", "", nil)
		return err != nil && strings.Contains(err.Error(), "404"), text
	})
	k.weighs("late", late.group(), "default 400")
	k.until("what db had is taken back", func() (bool, string) {
		text, err := os.ReadFile("/run/isolio/claims.json")
		return err == nil && !strings.Contains(string(text), db.Metadata.UID), string(text)
	})
	k.newcomer("after-away") // 600 of 1000: there is room only if db's are free
	k.removes("late")
	k.holds("the plugin was away")
}

// unstages: isolio's pod goes, comes and is killed while the kubelet has a CSI driver's volume staged and
// published, with ext4. When the pod that uses it is gone, the volume is unmounted, nothing holds it in any
// mount namespace, and what was written last is on the disk, whose power then fails.
func (k *kube) unstages() {
	shell(k.t, "ln -sf "+kubernetes+" /usr/local/bin/csi; systemd-run --unit=csi /usr/local/bin/csi")
	d := k.modelDisk("disk4", "/srv/disk4", "power_loss", "write_cache")
	shell(k.t, "umount /srv/disk4; mkfs.ext4 -q -F /dev/disk4")
	k.apply(`apiVersion: storage.k8s.io/v1
kind: CSIDriver
metadata: {name: csi.isolio.test}
spec: {attachRequired: false}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: fourth}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  storageClassName: manual
  csi: {driver: csi.isolio.test, volumeHandle: disk4, fsType: ext4}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: fourth, namespace: default}
spec: {accessModes: [ReadWriteOnce], storageClassName: manual, volumeName: fourth, resources: {requests: {storage: 1Gi}}}
`)
	// With the container that gives new disks the scheduler, so with all that the chart has.
	k.helm("upgrade", "--reset-values --set followDisks=true")
	k.isolioReady()
	files := &podSpec{name: "files", volumes: "persistentVolumeClaim: {claimName: fourth}", idle: true}
	volume := k.staged(d, files)
	k.helm("upgrade", "--reuse-values --set nodeSelector.nowhere=yes")
	k.until("isolio's pod is gone", func() (bool, string) { name := k.isolioPod(); return name == "", name })
	k.helm("upgrade", "--reset-values --set followDisks=true")
	k.isolioReady()
	k.offers(d.name, true)
	k.killAll("/usr/bin/isolio-node", "/usr/bin/isolio daemon")
	k.newcomer("after-kill")
	shell(k.t, "head -c 4M /dev/urandom | tee /tmp/written >"+volume+"/written")
	k.removes("files")
	k.unstaged(d)
	write(k.t, filepath.Join(d.config, "power_cut"), "1")
	write(k.t, filepath.Join(d.config, "power_cut"), "0")
	shell(k.t, "mount -o ro /dev/disk4 /srv/disk4 && cmp /tmp/written /srv/disk4/written && umount /srv/disk4")

	// A container that began with all of kubelet's plugins, as isolio-node's once did: the node has
	// unmounted the volume, and its file system lives on.
	k.staged(d, files)
	k.run(&podSpec{name: "pins", volumes: "hostPath: {path: /var/lib/kubelet/plugins}", idle: true})
	k.removes("files")
	k.until("the node has no mount", func() (bool, string) {
		text := read(k.t, "/proc/1/mountinfo")
		return !mounts(text, d), text
	})
	free, held := unheld(k.t, d)
	if k.t.Log(held); free {
		k.t.Errorf("a container with kubelet's plugins holds nothing, so this would see nothing of isolio's")
	}
	k.removes("pins")
	k.unstaged(d)

	shell(k.t, "kubectl delete pvc,pv --wait=false fourth; kubectl delete csidriver csi.isolio.test; systemctl stop csi")
	must(k.t, os.Remove(d.config))
	k.offers(d.name, false)
	k.helm("upgrade", "--reset-values")
	k.isolioReady()
	k.holds("a volume was staged")
}

// staged runs a pod with a CSI volume on the disk, and returns where the kubelet has the volume for it.
func (k *kube) staged(d *disk, with *podSpec) string {
	k.t.Helper()
	p := k.run(with)[0]
	if text := read(k.t, "/proc/1/mountinfo"); !strings.Contains(text, "/globalmount ") || !mounts(text, d) {
		k.t.Fatalf("%s is not staged:\n%s", d.name, text)
	}
	return "/var/lib/kubelet/pods/" + p.Metadata.UID + "/volumes/kubernetes.io~csi/fourth/mount"
}

// unstaged waits until the kubelet is done with the volume on the disk, and nothing holds it.
func (k *kube) unstaged(d *disk) {
	k.t.Helper()
	k.until("the volume is unstaged, and nothing holds it", func() (bool, string) {
		left, err := filepath.Glob("/var/lib/kubelet/plugins/kubernetes.io/csi/csi.isolio.test/*")
		must(k.t, err)
		free, held := unheld(k.t, d)
		return free && len(left) == 0, fmt.Sprint(held, left)
	})
}

func mounts(mountinfo string, d *disk) bool { return strings.Contains(mountinfo, " "+d.number+" ") }

// unheld is whether a disk can be had exclusively, which none can that has a file system mounted, and
// whether no process has it mounted; and what is in the way.
func unheld(t *testing.T, d *disk) (bool, string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/mountinfo")
	must(t, err)
	var who []string
	for _, file := range files {
		if text, _ := os.ReadFile(file); mounts(string(text), d) { // the process may have ended
			name, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
			who = append(who, strings.ReplaceAll(string(name), "\x00", " "))
		}
	}
	device, err := os.OpenFile("/dev/"+d.name, os.O_RDONLY|os.O_EXCL, 0)
	if err == nil {
		must(t, device.Close())
	}
	return err == nil && len(who) == 0, fmt.Sprint(err, who)
}

// drains: the node is drained and comes back. isolio's pod stays, pods' shares are taken back, and one that
// waits for as many has them then.
func (k *kube) drains() {
	db := k.run(&podSpec{name: "db", requests: "10m", claims: map[string]string{"disk": "half"}, idle: true})[0]
	k.weighs("db", db.group(), "default 100", k.disk.number+" 600")
	own := k.isolioPod()
	shell(k.t, "kubectl drain "+nodeName+" --ignore-daemonsets --delete-emptydir-data --force --timeout=120s")
	if now := k.isolioPod(); now != own {
		k.t.Errorf("isolio's pod is %q, and %q before", now, own)
	}
	k.isolioReady()
	k.until("what db had is taken back", func() (bool, string) {
		text, err := os.ReadFile("/run/isolio/claims.json")
		return err == nil && !strings.Contains(string(text), db.Metadata.UID), string(text)
	})
	k.offers(k.disk.name, true) // to those that wait for the node
	k.apply((&podSpec{name: "next", requests: "10m", claims: map[string]string{"disk": "half"}, idle: true}).manifest())
	k.event("next", "FailedScheduling", "unschedulable")
	shell(k.t, "kubectl isolio status; kubectl uncordon "+nodeName)
	next := k.runs("next")
	k.weighs("next", next.group(), "default 100", k.disk.number+" 600")
	k.removes("next")
	k.readers()
	k.holds("the node was drained")
}

// upgrades: no weight changes while the DaemonSet's pods are made anew, and the new rules hold.
func (k *kube) upgrades() {
	db := k.run(&podSpec{name: "db", requests: "10m", claims: map[string]string{"disk": "half"}, idle: true})[0]
	want := "default 100\n" + k.disk.number + " 600"
	k.weighs("db", db.group(), "default 100", k.disk.number+" 600")
	web := k.runs("web")
	stop, seen := make(chan bool), make(chan map[string]int)
	go func() {
		other := map[string]int{}
		for {
			select {
			case <-stop:
				seen <- other
				return
			case <-time.After(100 * time.Millisecond):
				text, err := os.ReadFile(filepath.Join(db.group(), weightFile))
				if got := strings.TrimSpace(string(text)); err != nil || got != want {
					other[got]++
				}
			}
		}
	}()
	k.file("/tmp/values.yaml", `daemon:
  rules: |
    [[rule]]
    unit = "kubepods.slice"
    weight = "sum"

    [[rule]]
    unit = "kubepods-burstable.slice"
    weight = "sum"

    [[rule]]
    unit = "kubepods-besteffort.slice"
    weight = "sum"

    [[rule]]
    pod = "default/web"
    weight = 700
`)
	old := k.isolioPod()
	k.helm("upgrade", "--reuse-values -f /tmp/values.yaml")
	k.isolioReady()
	if now := k.isolioPod(); now == old {
		k.t.Errorf("the pod is %s as before", now)
	}
	k.until("web has the rule's weight", func() (bool, string) {
		text := read(k.t, filepath.Join(web.group(), weightFile))
		return strings.HasPrefix(text, "default 700\n"), text
	})
	close(stop)
	if other := <-seen; len(other) > 0 {
		k.t.Errorf("db weighed otherwise meanwhile: %v", other)
	}
	k.removes("db")
	k.weighs("web", web.group(), "default 700")
}

// uninstalls: pods go on with their weights, and nothing of the chart stays in the cluster.
func (k *kube) uninstalls() {
	web, batch := k.runs("web"), k.runs("batch")
	was := []string{read(k.t, filepath.Join(web.group(), weightFile)), read(k.t, filepath.Join(batch.group(), weightFile))}
	shell(k.t, "helm uninstall -n "+system+" shares")
	k.until("isolio's pod is gone", func() (bool, string) { name := k.isolioPod(); return name == "", name })
	k.until("no slice is left", func() (bool, string) {
		var list struct{ Items []any }
		return k.get("/apis/resource.k8s.io/v1/resourceslices", &list) && len(list.Items) == 0, fmt.Sprint(list)
	})
	if left := shell(k.t, "kubectl get daemonsets,configmaps,serviceaccounts,clusterroles,clusterrolebindings,deviceclasses,validatingadmissionpolicies,validatingadmissionpolicybindings -A -l app.kubernetes.io/name=isolio -o name"); strings.TrimSpace(left) != "" {
		k.t.Errorf("left: %s", left)
	}
	for i, p := range []*kubePod{web, batch} {
		if is := read(k.t, filepath.Join(p.group(), weightFile)); is != was[i] {
			k.t.Errorf("%s weighs %q, and %q before", p.Metadata.Name, is, was[i])
		}
	}
	if _, active := k.disk.schedulers(k.t); active != elevator {
		k.t.Errorf("%s has the scheduler %s", k.disk.name, active)
	}
	k.shares("after the chart is gone", k.disk, []*kubePod{web, batch}, []float64{weighed(k.t, was[0]), weighed(k.t, was[1])})
	shell(k.t, "isolio disable disk1; isolio disable disk2")
	k.removes("web", "batch")
}

// weighed is the weight in a file's text, of a cgroup without weights by disk.
func weighed(t *testing.T, text string) (weight float64) {
	t.Helper()
	if _, err := fmt.Sscanf(text, "default %g\n", &weight); err != nil || strings.Count(text, "\n") > 1 {
		t.Fatalf("%q: %v", text, err)
	}
	return weight
}
