// SPDX-License-Identifier: MIT

//go:build vm

package vm

import (
	"fmt"
	"net/http"
	"os"
	"strings"
)

// attempt is a request that the API server refuses.
type attempt struct {
	name, request, body string // "POST /path"; YAML, or a JSON merge patch
	want                string // in the answer
}

// Where a tenant and isolio-node may try.
const (
	tenantSpace = "tenant"
	coreOf      = "/api/v1/namespaces/"
	claimsOf    = "/apis/resource.k8s.io/v1/namespaces/" + tenantSpace + "/resourceclaims"
	templatesOf = "/apis/resource.k8s.io/v1/namespaces/" + tenantSpace + "/resourceclaimtemplates"
	slicesAt    = "/apis/resource.k8s.io/v1/resourceslices"
	policiesAt  = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/"
)

// claimFor is a claim's specification: what the request says besides its class.
func claimFor(more string) string {
	return "{devices: {requests: [{name: disk, exactly: {deviceClassName: " + kubeletClass + ", " + more + "}}]}}"
}

func newClaim(more string) string {
	return "{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: more}, spec: " + claimFor(more) + "}"
}

func newSlice(driver, node, pool string) string {
	return fmt.Sprintf("{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: forged}, spec: {driver: %s, nodeName: %s, pool: {name: %s, generation: 99, resourceSliceCount: 1}, devices: [{name: disk1}]}}", driver, node, pool)
}

func newEvent(kind, name, component string) string {
	return fmt.Sprintf("{apiVersion: v1, kind: Event, metadata: {name: forged, namespace: default}, type: Warning, reason: Forged, message: forged, reportingInstance: %[1]s, "+
		"source: {component: %[2]s, host: %[1]s}, involvedObject: {kind: %[3]s, name: %[4]s, namespace: default}}", nodeName, component, kind, name)
}

// ofTenant is an object of the namespace default in the tenant's.
func ofTenant(text string) string {
	return strings.TrimSuffix(strings.ReplaceAll(text, "namespace: default", "namespace: "+tenantSpace), "---\n")
}

// attacked: a tenant with the role edit in its namespace, the token of isolio's own pod, and a token of another
// node's kubelet gain no share, and read and write nothing of others.
func (k *kube) attacked() {
	k.apply(`apiVersion: v1
kind: Namespace
metadata: {name: tenant, labels: {pod-security.kubernetes.io/enforce: baseline}}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: tenant, namespace: tenant}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: tenant, namespace: tenant}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit}
subjects: [{kind: ServiceAccount, name: tenant, namespace: tenant}]
`)
	k.helm("upgrade", "--reset-values --set limits.maxShare=600 --set limits.maxWeight=500 --set quota."+tenantSpace+"=1")
	k.isolioReady()
	for path, want := range map[string]string{
		"/apis/rbac.authorization.k8s.io/v1/clusterroles/edit": `"resourceclaims"`,
		coreOf + tenantSpace + "/resourcequotas/isolio-disks":  `"used"`,
		coreOf + tenantSpace + "/serviceaccounts/default":      "",
	} {
		k.until(path+" has "+want, func() (bool, string) {
			text, err := k.ask(http.MethodGet, path, "", nil)
			return err == nil && strings.Contains(text, want), fmt.Sprint(text, err)
		})
	}
	by := func(command string) string { return strings.TrimSpace(shell(k.t, "kubectl create token "+command)) }
	tenants := by("-n tenant tenant")
	// What it may do: a claim of as many shares as are allowed, and a pod that runs on for two minutes once it is deleted.
	does := func(request, body string) {
		k.t.Helper()
		if err := k.tries(tenants, attempt{request: request, body: body}); err != nil {
			k.t.Fatalf("%s: %v", request, err)
		}
	}
	does("POST "+templatesOf, ofTenant(template("half", kubeletClass, "", 600)))
	old := &podSpec{name: "old", claims: map[string]string{"disk": "half"}, idle: true}
	does("POST "+coreOf+tenantSpace+"/pods", strings.NewReplacer(
		"terminationGracePeriodSeconds: 1", "terminationGracePeriodSeconds: 150",
		"command: [/bin/pause]", "command: [/bin/pause]\n      lifecycle: {preStop: {sleep: {seconds: 120}}}",
	).Replace(ofTenant(old.manifest())))
	pod := coreOf + tenantSpace + "/pods/old"
	k.until("old runs", func() (bool, string) { return k.ready(pod) })
	var running kubePod
	var claims struct {
		Status struct {
			ResourceClaimStatuses []struct{ ResourceClaimName string }
		}
	}
	if !k.get(pod, &running) || !k.get(pod, &claims) || len(claims.Status.ResourceClaimStatuses) != 1 {
		k.t.Fatalf("%+v", claims)
	}
	group, claim := running.group(), claimsOf+"/"+claims.Status.ResourceClaimStatuses[0].ResourceClaimName
	k.weighs("old", group, "default 100", k.disk.number+" 600")
	own := by("-n " + system + " isolio-node --bound-object-kind=Pod --bound-object-name=" + k.isolioPod())
	const patched = `{"metadata": {"labels": {"a": "b"}}}`
	k.refused("a tenant", tenants, []attempt{
		{"a claim of more shares", "POST " + claimsOf, newClaim("capacity: {requests: {share: 900}}"), "allowed: 1..600"},
		{"the same by the long name", "POST " + claimsOf, newClaim("capacity: {requests: {disk.isolio.dev/share: 900}}"), "allowed: 1..600"},
		{"a template of more shares", "POST " + templatesOf, "{apiVersion: resource.k8s.io/v1, kind: ResourceClaimTemplate, metadata: {name: more}, spec: {spec: " +
			claimFor("capacity: {requests: {share: 900}}") + "}}", "allowed: 1..600"},
		{"a claim beyond the quota", "POST " + claimsOf, newClaim("capacity: {requests: {share: 100}}"), "exceeded quota"},
		{"a claim of all disks", "POST " + claimsOf, newClaim("allocationMode: All"), "exceeded quota"},
		{"administrative access", "POST " + claimsOf, newClaim("adminAccess: true"), "admin access to devices requires"},
		{"a claim's finalizer", "PATCH " + claim, `{"metadata": {"finalizers": null}}`, "has shares of a disk, and keeps its finalizer"},
		{"a claim's status", "PATCH " + claim + "/status", `{"status": null}`, "cannot patch resource"},
		{"a claim's specification", "PATCH " + claim, `{"spec": {"devices": {"requests": null}}}`, "field is immutable"},
		{"a pod of a great weight", "POST " + coreOf + tenantSpace + "/pods", ofTenant((&podSpec{name: "heavy", annotations: weightOf("9000"), idle: true}).manifest()), "allowed: 1..500"},
		{"a great weight later", "PATCH " + pod, `{"metadata": {"annotations": {"isolio.dev/weight": "+9000"}}}`, "allowed: 1..500"},
		{"isolio's socket", "POST " + coreOf + tenantSpace + "/pods", ofTenant((&podSpec{name: "host", volumes: "hostPath: {path: /var/lib/kubelet/plugins}", idle: true}).manifest()), "violates PodSecurity"},
		{"a disk of its own", "POST " + slicesAt, newSlice(anyClass, nodeName, nodeName), "cannot create resource"},
		{"a class", "PATCH /apis/resource.k8s.io/v1/deviceclasses/" + anyClass, patched, "cannot patch resource"},
		{"its own quota", "DELETE " + coreOf + tenantSpace + "/resourcequotas/isolio-disks", "", "cannot delete resource"},
		{"its own namespace", "PATCH /api/v1/namespaces/" + tenantSpace, `{"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}`, "cannot patch resource"},
		{"a policy", "DELETE " + policiesAt + "isolio-shares", "", "cannot delete resource"},
		{"a node, without the scheduler", "POST " + pod + "/binding", "{apiVersion: v1, kind: Binding, metadata: {name: old}, target: {kind: Node, name: " + nodeName + "}}", "cannot create resource"},
		{"rules", "PATCH " + coreOf + system + "/configmaps/isolio-rules", patched, "cannot patch resource"},
		{"isolio's pods", "GET " + coreOf + system + "/pods", "", "cannot list resource"},
		{"claims of others", "GET /apis/resource.k8s.io/v1/namespaces/default/resourceclaims", "", "cannot list resource"},
		{"events of others", "POST " + coreOf + "default/events", newEvent("Pod", "web", "isolio-node"), "cannot create resource"},
	})
	k.refused("isolio-node's token", own, []attempt{
		{"a disk of another node", "POST " + slicesAt, newSlice(anyClass, "node2", "node2"), "may only change slices of its own disks"},
		{"a disk in another node's pool", "POST " + slicesAt, newSlice(anyClass, nodeName, "node2"), "may only change slices of its own disks"},
		{"a device of another driver", "POST " + slicesAt, newSlice("gpu.example.com", nodeName, nodeName), "may only change slices of its own disks"},
		{"an event as kubelet", "POST " + coreOf + "default/events", newEvent("Pod", "web", "kubelet"), "may only write its own events"},
		{"an event of another node", "POST " + coreOf + "default/events", newEvent("Node", "node2", "isolio-node"), "may only write its own events"},
		{"the node's status", "PATCH /api/v1/nodes/" + nodeName + "/status", patched, "cannot patch resource"},
		{"a claim's status", "PATCH " + claim + "/status", `{"status": null}`, "cannot patch resource"},
		{"a claim's finalizer", "PATCH " + claim, `{"metadata": {"finalizers": null}}`, "cannot patch resource"},
		{"all pods", "GET /api/v1/pods", "", "cannot list resource"},
		{"a pod", "DELETE " + pod, "", "cannot delete resource"},
		{"secrets", "GET " + coreOf + system + "/secrets", "", "cannot list resource"},
	})
	k.refused("the token of node2's kubelet", otherToken, []attempt{
		{"a disk in another node's pool", "POST " + slicesAt, newSlice(anyClass, "node2", nodeName), "may only change slices of its own disks"},
		{"a disk of another node", "POST " + slicesAt, newSlice(anyClass, nodeName, nodeName), "may only change slices of its own disks"},
	})
	k.weighs("old", group, "default 100", k.disk.number+" 600")

	// Deleted by force, the pod runs, and its shares are sold again: it has none of them any more.
	does("DELETE "+pod+"?gracePeriodSeconds=0", "")
	next := k.run(&podSpec{name: "next", claims: map[string]string{"disk": "half"}, idle: true})[0]
	k.until("what old had is taken back", func() (bool, string) {
		text, err := os.ReadFile("/run/isolio/claims.json")
		return err == nil && !strings.Contains(string(text), running.Metadata.UID), string(text)
	})
	if !exists(group) {
		k.t.Error("old runs no more: nothing is shown")
	}
	k.weighs("next", next.group(), "default 100", k.disk.number+" 600")
	k.until("old is gone", func() (bool, string) { return !exists(group), group })
	k.removes("next")
	shell(k.t, "kubectl delete namespace --wait=false "+tenantSpace)
	k.helm("upgrade", "--reset-values")
	k.isolioReady()
	k.holds("attacks")
}

// tries sends a request by the owner of a token.
func (k *kube) tries(token string, a attempt) error {
	method, path, _ := strings.Cut(a.request, " ")
	kind := map[string]string{http.MethodPost: "application/yaml", http.MethodPatch: "application/merge-patch+json"}[method]
	_, err := k.askBy(token, method, path, kind, []byte(a.body))
	return err
}

// refused tries all, and logs how many were refused with the reason that is wanted.
func (k *kube) refused(who, token string, all []attempt) {
	k.t.Helper()
	nr := 0
	for _, a := range all {
		switch err := k.tries(token, a); {
		case err == nil:
			k.t.Errorf("%s: %s: %s is not refused", who, a.name, a.request)
		case !strings.Contains(err.Error(), a.want):
			k.t.Errorf("%s: %s: %s: %v; want %q", who, a.name, a.request, err, a.want)
		default:
			nr++
		}
	}
	k.t.Logf("%s: %d of %d requests are refused", who, nr, len(all))
}
