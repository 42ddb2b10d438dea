// SPDX-License-Identifier: MIT

package kubernetes

import (
	"bufio"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	admission "k8s.io/api/admissionregistration/v1"
	"k8s.io/apiserver/pkg/cel/environment"
)

func newLines(text string) *bufio.Reader { return bufio.NewReader(strings.NewReader(text)) }

// policy is one of the chart's, compiled by the API server's own environment.
type policy struct {
	t   *testing.T
	p   *admission.ValidatingAdmissionPolicy
	env *cel.Env
}

func policyOf(t *testing.T, name string, v values) *policy {
	t.Helper()
	for _, o := range rendered(t, v) {
		if p, ok := o.(*admission.ValidatingAdmissionPolicy); ok && p.Name == name {
			set, err := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).Extend(environment.VersionedOptions{
				IntroducedVersion: environment.DefaultCompatibilityVersion(),
				EnvOptions: []cel.EnvOption{
					cel.Variable("object", cel.DynType), cel.Variable("oldObject", cel.DynType), cel.Variable("request", cel.DynType), cel.Variable("variables", cel.DynType),
					cel.Variable("params", cel.DynType),
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			return &policy{t, p, set.NewExpressionsEnv()}
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
	in := map[string]any{"object": object, "oldObject": old, "request": request, "params": params}
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
