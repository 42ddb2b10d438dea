// SPDX-License-Identifier: MIT

package kubernetes

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	admission "k8s.io/api/admissionregistration/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
)

func newLines(text string) *bufio.Reader { return bufio.NewReader(strings.NewReader(text)) }

// policy is one of the chart's, compiled by the API server's own environment.
type policy struct {
	t   *testing.T
	p   *admission.ValidatingAdmissionPolicy
	env *cel.Env
	// may says what RBAC allows the requester.
	may func(authorizer.Attributes) bool
}

// Authorize is RBAC's answer.
func (p *policy) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if p.may != nil && p.may(a) {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

func policyOf(t *testing.T, name string, v values) *policy {
	t.Helper()
	for _, o := range rendered(t, v) {
		if p, ok := o.(*admission.ValidatingAdmissionPolicy); ok && p.Name == name {
			set, err := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).Extend(environment.VersionedOptions{
				IntroducedVersion: environment.DefaultCompatibilityVersion(),
				EnvOptions: []cel.EnvOption{
					cel.Variable("object", cel.DynType), cel.Variable("oldObject", cel.DynType), cel.Variable("request", cel.DynType), cel.Variable("variables", cel.DynType),
					cel.Variable("params", cel.DynType), cel.Variable("authorizer", library.AuthorizerType),
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			return &policy{t: t, p: p, env: set.NewExpressionsEnv()}
		}
	}
	t.Fatalf("no policy %s", name)
	return nil
}

func (p *policy) eval(expression string, in map[string]any) (any, error) {
	p.t.Helper()
	ast, issues := p.env.Compile(expression)
	if issues.Err() != nil {
		p.t.Fatalf("%s: %v", expression, issues.Err())
	}
	program, err := p.env.Program(ast)
	if err != nil {
		p.t.Fatal(err)
	}
	value, _, err := program.Eval(in)
	if err != nil {
		return nil, err
	}
	return value.Value(), nil
}

// admit is what an API server says of a request: nil, or why not.
func (p *policy) admit(request, object, old map[string]any) error {
	p.t.Helper()
	return p.admitBy(nil, request, object, old)
}

// admitBy is the same with a parameter of the policy.
func (p *policy) admitBy(params, request, object, old map[string]any) error {
	p.t.Helper()
	in := map[string]any{"object": object, "oldObject": old, "request": request, "params": params, "authorizer": library.NewAuthorizerVal(&user.DefaultInfo{}, p)}
	for _, m := range p.p.Spec.MatchConditions {
		if matches, err := p.eval(m.Expression, in); err != nil || matches == false {
			return err
		}
	}
	variables := map[string]any{}
	in["variables"] = variables
	for _, v := range p.p.Spec.Variables {
		value, err := p.eval(v.Expression, in)
		if err != nil {
			return fmt.Errorf("variable %s: %w", v.Name, err)
		}
		variables[v.Name] = value
	}
	for _, v := range p.p.Spec.Validations {
		ok, err := p.eval(v.Expression, in)
		if err != nil {
			return err
		}
		if ok == true {
			continue
		}
		if v.MessageExpression == "" {
			return errors.New(v.Message)
		}
		text, err := p.eval(v.MessageExpression, in)
		if err != nil {
			return err
		}
		return fmt.Errorf("%v", text)
	}
	return nil
}

// A namespace's pods may not ask for more than it may have.
func TestLimits(t *testing.T) {
	p := policyOf(t, "isolio-weights", everything)
	for _, tt := range []struct {
		namespace, weight, want string
	}{
		{"shop", "500", ""},
		{"shop", "501", "annotation isolio.dev/weight: 501 is more than pods of namespace shop may have; allowed: 1..500"},
		{"batch", "51", "allowed: 1..50"},
		{"batch", "050", ""},
		{"other", "300", ""},
		{"other", "301", "allowed: 1..300"},
		{"other", "none", ""}, // an event tells what is allowed
		{"other", "999999999", "allowed: 1..300"},
		{"other", "99999999999999999999", ""}, // no weight
		{"other", "", ""},
		// The daemon reads these as numbers, too.
		{"other", "+301", "allowed: 1..300"},
		{"other", "0000000000000301", "allowed: 1..300"},
		{"other", "+0300", ""},
		{"other", "-301", ""},
	} {
		object := map[string]any{"metadata": map[string]any{"name": "web"}}
		if tt.weight != "" {
			object["metadata"].(map[string]any)["annotations"] = map[string]any{"isolio.dev/weight": tt.weight}
		}
		err := p.admit(map[string]any{"namespace": tt.namespace, "operation": "CREATE"}, object, nil)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s %q: %v, want %q", tt.namespace, tt.weight, err, tt.want)
		}
	}
	updates(t, p, "isolio.dev/weight", "300", "301", nil)
	alone := policyOf(t, "isolio-weights", values{"limits": values{"namespaces": values{"batch": 50}}})
	heavy := map[string]any{"metadata": map[string]any{"annotations": map[string]any{"isolio.dev/weight": "9000"}}}
	if err := alone.admit(map[string]any{"namespace": "shop", "operation": "CREATE"}, heavy, nil); err != nil {
		t.Errorf("a namespace without a limit: %v", err)
	}
	if err := alone.admit(map[string]any{"namespace": "batch", "operation": "CREATE"}, heavy, nil); err == nil {
		t.Error("a namespace with a limit has none")
	}
}

// Only pods of its namespaces may name a class.
func TestDiskShareClasses(t *testing.T) {
	p := policyOf(t, "isolio-disk-share-classes", everything)
	if k := p.p.Spec.ParamKind; k == nil || k.Kind != "DiskShareClass" || k.APIVersion != "isolio.dev/v1alpha1" {
		t.Fatalf("parameters: %+v", k)
	}
	class := func(namespaces ...any) map[string]any {
		spec := map[string]any{"weight": 400}
		if namespaces != nil {
			spec["namespaces"] = namespaces
		}
		return map[string]any{"metadata": map[string]any{"name": "gold"}, "spec": spec}
	}
	for _, tt := range []struct {
		what   string
		params map[string]any
		names  string
		want   string
	}{
		{"one of its namespaces", class("other", "shop"), "gold", ""},
		{"another namespace", class("other"), "gold", "DiskShareClass gold is not for pods of namespace shop"},
		{"a class for all", class(), "gold", ""},
		{"a pod of another class", class("other"), "silver", ""},
		{"a pod without a class", class("other"), "", ""},
	} {
		object := map[string]any{"metadata": map[string]any{"name": "web"}}
		if tt.names != "" {
			object["metadata"].(map[string]any)["annotations"] = map[string]any{"isolio.dev/class": tt.names}
		}
		err := p.admitBy(tt.params, map[string]any{"namespace": "shop", "operation": "CREATE"}, object, nil)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.what, err, tt.want)
		}
	}
	updates(t, p, "isolio.dev/class", "silver", "gold", class("other"))
}

// updates tests an annotation that is changed. A pod that waits for a node, or for a new sandbox,
// has the annotation that it has then. Other changes of a pod that has what is not allowed now,
// such as of its finalizers, are none of the policy's.
func updates(t *testing.T, p *policy, key, good, bad string, params map[string]any) {
	t.Helper()
	rules := p.p.Spec.MatchConstraints.ResourceRules
	if len(rules) != 1 || !slices.Contains(rules[0].Operations, admission.Create) || !slices.Contains(rules[0].Operations, admission.Update) {
		t.Errorf("%s is for %v", p.p.Name, rules)
	}
	pod := func(value string) map[string]any {
		if value == "" {
			return map[string]any{"metadata": map[string]any{"name": "web"}}
		}
		return map[string]any{"metadata": map[string]any{"name": "web", "annotations": map[string]any{key: value}}}
	}
	for _, tt := range []struct {
		before, after string
		may           bool
	}{{"", bad, false}, {good, bad, false}, {bad, good, true}, {bad, bad, true}, {bad, "", true}, {"", good, true}} {
		err := p.admitBy(params, map[string]any{"namespace": "other-one", "operation": "UPDATE"}, pod(tt.after), pod(tt.before))
		if (err == nil) != tt.may {
			t.Errorf("%s: from %q to %q: %v", key, tt.before, tt.after, err)
		}
	}
}

// A node's program may change slices of its own disks alone.
func TestOwnSlices(t *testing.T) {
	p := policyOf(t, "isolio-own-slices", nil)
	sliceIn := func(driver, node, pool string) map[string]any {
		spec := map[string]any{"driver": driver, "pool": map[string]any{"name": pool}}
		if node != "" {
			spec["nodeName"] = node
		}
		return map[string]any{"spec": spec}
	}
	slice := func(driver, node string) map[string]any { return sliceIn(driver, node, "n1") }
	user := func(name, node string) map[string]any {
		extra := map[string]any{}
		if node != "" {
			extra["authentication.kubernetes.io/node-name"] = []any{node}
		}
		return map[string]any{"username": name, "extra": extra}
	}
	const ours = "system:serviceaccount:isolio-system:isolio-node"
	for _, tt := range []struct {
		name      string
		user      map[string]any
		operation string
		slice     map[string]any
		want      string
	}{
		{"its own", user(ours, "n1"), "CREATE", slice("disk.isolio.dev", "n1"), ""},
		{"its own, removed", user(ours, "n1"), "DELETE", slice("disk.isolio.dev", "n1"), ""},
		{"another node's", user(ours, "n1"), "UPDATE", slice("disk.isolio.dev", "n2"), "isolio-node of n1 may only change slices of its own disks"},
		{"another node's, removed", user(ours, "n1"), "DELETE", slice("disk.isolio.dev", "n2"), "of its own disks"},
		{"another node's pool", user(ours, "n1"), "CREATE", sliceIn("disk.isolio.dev", "n1", "n2"), "of its own disks"},
		{"another node's pool, changed", user(ours, "n1"), "UPDATE", sliceIn("disk.isolio.dev", "n1", "n2"), "of its own disks"},
		{"another node's pool, removed", user(ours, "n1"), "DELETE", sliceIn("disk.isolio.dev", "n1", "n2"), ""},
		{"another driver's", user(ours, "n1"), "UPDATE", slice("gpu.example.com", "n1"), "of its own disks"},
		{"one for all nodes", user(ours, "n1"), "CREATE", slice("disk.isolio.dev", ""), "of its own disks"},
		{"without a node", user(ours, ""), "CREATE", slice("disk.isolio.dev", "n1"), "names no node"},
		{"a kubelet's own", user("system:node:n1", ""), "CREATE", slice("disk.isolio.dev", "n1"), ""},
		{"another node's pool, by a kubelet", user("system:node:n2", ""), "CREATE", sliceIn("disk.isolio.dev", "n2", "n1"), "of its own disks"},
		{"another driver's, by a kubelet", user("system:node:n2", ""), "CREATE", sliceIn("gpu.example.com", "n2", "gpus"), ""},
		{"another driver's account", user("system:serviceaccount:gpu:driver", ""), "CREATE", slice("gpu.example.com", "n2"), ""},
	} {
		object, old := tt.slice, map[string]any(nil)
		if tt.operation == "DELETE" {
			object, old = nil, tt.slice
		}
		err := p.admit(map[string]any{"userInfo": tt.user, "operation": tt.operation}, object, old)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

// Before claims, a node's program may write the status of its own node alone.
func TestOwnStatus(t *testing.T) {
	p := policyOf(t, "isolio-own-status", values{"extendedResource": true})
	if r := p.p.Spec.MatchConstraints.ResourceRules; len(r) != 1 || r[0].Resources[0] != "nodes/status" || r[0].Operations[0] != admission.Update {
		t.Errorf("it is for %+v", r)
	}
	const ours = "system:serviceaccount:isolio-system:isolio-node"
	for _, tt := range []struct {
		name, user, of, node, want string
	}{
		{"its own", ours, "n1", "n1", ""},
		{"another node's", ours, "n1", "n2", "isolio-node of n1 may only write the status of its own node"},
		{"without a node", ours, "", "n1", "names no node"},
		{"kubelet's", "system:node:n2", "", "n2", ""},
	} {
		extra := map[string]any{}
		if tt.of != "" {
			extra["authentication.kubernetes.io/node-name"] = []any{tt.of}
		}
		object := map[string]any{"metadata": map[string]any{"name": tt.node}}
		err := p.admit(map[string]any{"userInfo": map[string]any{"username": tt.user, "extra": extra}, "operation": "UPDATE"}, object, object)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
	for _, o := range rendered(t, nil) {
		if p, ok := o.(*admission.ValidatingAdmissionPolicy); ok && p.Name == "isolio-own-status" {
			t.Error("it is there also where nothing writes a node's status")
		}
	}
}

// A claim, or a template of claims, may ask for as many shares as its namespace may have, whichever way it
// asks.
func TestShareLimits(t *testing.T) {
	p := policyOf(t, "isolio-shares", everything)
	one := func(class string, capacity map[string]any) map[string]any {
		r := map[string]any{"deviceClassName": class}
		if capacity != nil {
			r["capacity"] = map[string]any{"requests": capacity}
		}
		return r
	}
	exactly := func(of map[string]any) map[string]any { return map[string]any{"name": "r", "exactly": of} }
	first := func(of ...any) map[string]any { return map[string]any{"name": "r", "firstAvailable": of} }
	share := func(n any) map[string]any { return map[string]any{"share": n} }
	const ours, kubelets = "disk.isolio.dev", "kubelet.disk.isolio.dev"
	for _, tt := range []struct {
		name, namespace string
		requests        []any
		want            string
	}{
		{"as many as all may", "batch", []any{exactly(one(ours, share("200")))}, ""},
		{"one more", "batch", []any{exactly(one(ours, share("201")))}, "asks for more shares of a disk than those of namespace batch may have; allowed: 1..200"},
		{"as a number", "batch", []any{exactly(one(ours, share(201)))}, "1..200"},
		{"in thousandths", "batch", []any{exactly(one(ours, share("200001m")))}, "1..200"},
		{"in thousands", "batch", []any{exactly(one(ours, share("1k")))}, "1..200"},
		{"by the long name", "batch", []any{exactly(one(ours, map[string]any{"disk.isolio.dev/share": "900"}))}, "1..200"},
		{"its own limit", "shop", []any{exactly(one(kubelets, share("600")))}, ""},
		{"beyond its own limit", "shop", []any{exactly(one(kubelets, share("900")))}, "1..600"},
		{"the second of two", "batch", []any{exactly(one(ours, share("10"))), exactly(one(kubelets, share("900")))}, "1..200"},
		{"an alternative", "batch", []any{first(one("gpu.example.com", nil), one(ours, share("900")))}, "1..200"},
		{"a class of a cluster's own", "batch", []any{exactly(one("fast-disks", share("900")))}, "1..200"},
		{"none said", "batch", []any{exactly(one(ours, nil))}, ""},
		{"another driver's", "batch", []any{exactly(one("gpu.example.com", map[string]any{"memory": "80Gi"}))}, ""},
		{"nothing", "batch", nil, ""},
	} {
		spec := map[string]any{"devices": map[string]any{"requests": tt.requests}}
		if tt.requests == nil {
			spec = map[string]any{}
		}
		for kind, object := range map[string]map[string]any{"claim": {"spec": spec}, "template": {"spec": map[string]any{"spec": spec}}} {
			err := p.admit(map[string]any{"namespace": tt.namespace, "operation": "CREATE"}, object, nil)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s, %s: %v, want %q", tt.name, kind, err, tt.want)
			}
		}
	}
	few := policyOf(t, "isolio-shares", values{"limits": values{"shares": values{"small": 50}}})
	for namespace, want := range map[string]bool{"small": false, "other": true} {
		object := map[string]any{"spec": map[string]any{"devices": map[string]any{"requests": []any{exactly(one(ours, nil))}}}}
		if err := few.admit(map[string]any{"namespace": namespace}, object, nil); (err == nil) != want {
			t.Errorf("a claim without a number, which has 100, in %s: %v", namespace, err)
		}
	}
	for _, v := range []values{nil, {"limits": values{"maxShare": 100}, "extendedResource": true}} {
		for _, o := range rendered(t, v) {
			if p, ok := o.(*admission.ValidatingAdmissionPolicy); ok && p.Name == "isolio-shares" {
				t.Errorf("%v: there is a policy", v)
			}
		}
	}
}

// A stolen token of a node writes no events of another node, of another component, or about other objects.
func TestOwnEvents(t *testing.T) {
	const ours = "system:serviceaccount:isolio-system:isolio-node"
	for _, v := range []values{nil, {"extendedResource": true}} {
		p := policyOf(t, "isolio-own-events", v)
		for _, tt := range []struct {
			name, user, of string
			change         func(event map[string]any)
			ok             bool
		}{
			{"about a pod", ours, "n1", func(map[string]any) {}, true},
			{"about its node", ours, "n1", func(e map[string]any) { e["involvedObject"] = map[string]any{"kind": "Node", "name": "n1"} }, true},
			{"about another node", ours, "n1", func(e map[string]any) { e["involvedObject"] = map[string]any{"kind": "Node", "name": "n2"} }, false},
			{"about a Deployment", ours, "n1", func(e map[string]any) { e["involvedObject"] = map[string]any{"kind": "Deployment", "name": "x"} }, false},
			{"as kubelet", ours, "n1", func(e map[string]any) { e["source"] = map[string]any{"component": "kubelet", "host": "n1"} }, false},
			{"as another node", ours, "n1", func(e map[string]any) { e["source"] = map[string]any{"component": "isolio-node", "host": "n2"} }, false},
			{"as another instance", ours, "n1", func(e map[string]any) { e["reportingInstance"] = "n2" }, false},
			{"as good news", ours, "n1", func(e map[string]any) { e["type"] = "Normal" }, false},
			{"without a source", ours, "n1", func(e map[string]any) { delete(e, "source") }, false},
			{"by a token of no pod", ours, "", func(map[string]any) {}, false},
			{"kubelet's", "system:node:n1", "", func(e map[string]any) { e["source"] = map[string]any{"component": "kubelet"} }, true},
		} {
			extra := map[string]any{}
			if tt.of != "" {
				extra["authentication.kubernetes.io/node-name"] = []any{tt.of}
			}
			event := map[string]any{
				"involvedObject": map[string]any{"kind": "Pod", "name": "web"}, "source": map[string]any{"component": "isolio-node", "host": "n1"},
				"reportingInstance": "n1", "type": "Warning",
			}
			tt.change(event)
			err := p.admit(map[string]any{"userInfo": map[string]any{"username": tt.user, "extra": extra}, "operation": "CREATE"}, event, nil)
			if (err == nil) != tt.ok {
				t.Errorf("%s: %v, want admitted: %t", tt.name, err, tt.ok)
			}
		}
	}
}

// A claim with a share of a disk is protected from deletion until the cluster takes the share back: else the
// share is sold again while the claim's pods run. A client that may write the claim's status may take the share back.
func TestClaimsInUse(t *testing.T) {
	p := policyOf(t, "isolio-claims-in-use", nil)
	if r := p.p.Spec.MatchConstraints.ResourceRules; len(r) != 1 || !slices.Equal(r[0].Resources, []string{"resourceclaims"}) || !slices.Equal(r[0].Operations, []admission.OperationType{admission.Update}) {
		t.Errorf("it is for %+v", r)
	}
	const protection = "resource.kubernetes.io/delete-protection"
	claim := func(finalizers []any, drivers ...any) map[string]any {
		c := map[string]any{"metadata": map[string]any{"name": "c1"}, "status": map[string]any{}}
		if finalizers != nil {
			c["metadata"].(map[string]any)["finalizers"] = finalizers
		}
		if drivers != nil {
			var results []any
			for _, d := range drivers {
				results = append(results, map[string]any{"driver": d, "pool": "n1", "device": "d"})
			}
			c["status"] = map[string]any{"allocation": map[string]any{"devices": map[string]any{"results": results}}}
		}
		return c
	}
	const ours, gpu = "disk.isolio.dev", "gpu.example.com"
	kept, removed, others := []any{protection}, []any(nil), []any{"example.com/backup"}
	status := func(a authorizer.Attributes) bool {
		return a.GetAPIGroup() == "resource.k8s.io" && a.GetResource() == "resourceclaims" && a.GetSubresource() == "status" && a.GetNamespace() == "shop" && a.GetVerb() == "update"
	}
	edit := func(a authorizer.Attributes) bool { return a.GetSubresource() == "" }
	for _, tt := range []struct {
		name       string
		may        func(authorizer.Attributes) bool
		old, after map[string]any
		ok         bool
	}{
		{"a tenant removes it", edit, claim(kept, ours), claim(removed, ours), false},
		{"a tenant removes it from one with a GPU as well", edit, claim(kept, gpu, ours), claim(removed, gpu, ours), false},
		{"a tenant has another one in its place", edit, claim(kept, ours), claim(others, ours), false},
		{"a tenant adds another one", edit, claim(kept, ours), claim(append(slices.Clone(others), kept...), ours), true},
		{"a tenant removes another one", edit, claim(append(slices.Clone(others), kept...), ours), claim(kept, ours), true},
		{"a tenant removes it from one without a share", edit, claim(kept), claim(removed), true},
		{"another driver's", edit, claim(kept, gpu), claim(removed, gpu), true},
		{"it had none", edit, claim(removed, ours), claim(others, ours), true},
		{"the controller, after it took the share back", status, claim(kept), claim(removed), true},
		// kube-scheduler makes a claim for a pod's extended resource, and removes it with its share where it
		// cannot bind the pod.
		{"kube-scheduler", status, claim(kept, ours), claim(removed, ours), true},
	} {
		p.may = tt.may
		err := p.admit(map[string]any{"namespace": "shop", "operation": "UPDATE"}, tt.after, tt.old)
		if (err == nil) != tt.ok || err != nil && !strings.Contains(err.Error(), "claim c1 has shares of a disk") {
			t.Errorf("%s: %v, want admitted: %t", tt.name, err, tt.ok)
		}
	}
}
