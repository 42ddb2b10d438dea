// SPDX-License-Identifier: MIT

package driver

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"isolio/internal/host/rule"
	"isolio/internal/host/weight"
)

// DefaultWeight is the annotation of a PriorityClass or a namespace: the weight of pods
// that say nothing themselves.
const DefaultWeight = "isolio.dev/default-weight"

// ShareClasses are the objects DiskShareClass, which the chart defines: a weight with a name,
// for pods that have the name in the annotation isolio.dev/class.
var ShareClasses = schema.GroupVersionResource{Group: "isolio.dev", Version: "v1alpha1", Resource: "diskshareclasses"}

// Defaults finds the weight of pods that ask for none. It asks for each object once, so it is
// made anew for each pass over pods. It is for one goroutine.
type Defaults struct {
	Client kubernetes.Interface
	// Objects has the cluster's ShareClasses; nil where it has none.
	Objects dynamic.Interface
	// Knows says of a class whether a rule or the configuration of nodes has it.
	Knows func(class string) bool

	spaces, priorities map[string]fallback
	classes            map[string]*unstructured.Unstructured
}

// fallback is the weight that an object gives pods that ask for none, 0 for none, and what is wrong
// with its annotation, "" for nothing. It is kept in place of the object, which may have a megabyte.
type fallback struct {
	weight int
	wrong  string
}

// once is what is used of the object with a name, which is asked for if it is not known yet; the zero
// value if there is no such object.
func once[T any](known *map[string]T, name string, get func() (T, error)) (T, error) {
	if object, ok := (*known)[name]; ok {
		return object, nil
	}
	object, err := get()
	if err != nil {
		var none T
		if object = none; !apierrors.IsNotFound(err) {
			return none, err
		}
	}
	if *known == nil {
		*known = map[string]T{}
	}
	(*known)[name] = object
	return object, nil
}

// Of is the weight of a pod by its DiskShareClass, or else its PriorityClass, or else its
// namespace, and why; 0 for none. refuse is told of what is no weight or no class, with the
// reason of the event.
func (d *Defaults) Of(ctx context.Context, pod *core.Pod, refuse func(reason, text string)) (n int, why string, err error) {
	if name := pod.Annotations[rule.ClassAnnotation]; name != "" && d.Objects != nil {
		if n, why, err = d.ofClass(ctx, name, pod.Namespace, refuse); n != 0 || err != nil {
			return n, why, err
		}
	}
	if name := pod.Spec.PriorityClassName; name != "" {
		from := "PriorityClass " + name
		f, err := once(&d.priorities, name, func() (fallback, error) {
			class, err := d.Client.SchedulingV1().PriorityClasses().Get(ctx, name, meta.GetOptions{})
			if err != nil {
				return fallback{}, err
			}
			return fallbackIn(class.Annotations, from), nil
		})
		if n, why := f.of(from, refuse); n != 0 || err != nil {
			return n, why, err
		}
	}
	from := "namespace " + pod.Namespace
	f, err := once(&d.spaces, pod.Namespace, func() (fallback, error) {
		space, err := d.Client.CoreV1().Namespaces().Get(ctx, pod.Namespace, meta.GetOptions{})
		if err != nil {
			return fallback{}, err
		}
		return fallbackIn(space.Annotations, from), nil
	})
	if err != nil {
		return 0, "", err
	}
	n, why = f.of(from, refuse)
	return n, why, nil
}

// ofClass is the weight of a DiskShareClass for pods of a namespace, 0 for none.
func (d *Defaults) ofClass(ctx context.Context, name, namespace string, refuse func(reason, text string)) (int, string, error) {
	bad := func(format string, args ...any) (int, string, error) {
		refuse(BadClass, fmt.Sprintf(format, args...))
		return 0, "", nil
	}
	var class *unstructured.Unstructured
	if len(validation.IsDNS1123Subdomain(name)) == 0 { // else no object has it
		var err error
		class, err = once(&d.classes, name, func() (*unstructured.Unstructured, error) {
			return d.Objects.Resource(ShareClasses).Get(ctx, name, meta.GetOptions{})
		})
		if err != nil {
			return 0, "", err
		}
	}
	if class == nil {
		if d.Knows(name) {
			return 0, "", nil
		}
		return bad("annotation %s: there is no DiskShareClass %.63q, and no rule for it; to do: kubectl get diskshareclasses", rule.ClassAnnotation, name)
	}
	// The definition of the objects has the same bounds. An object may be older than it.
	n, ok, err := unstructured.NestedInt64(class.Object, "spec", "weight")
	if err != nil || !ok || n < weight.Min || n > weight.Max {
		return bad("DiskShareClass %s: spec.weight is not a weight; allowed: an integer %d..%d", name, weight.Min, weight.Max)
	}
	only, _, err := unstructured.NestedStringSlice(class.Object, "spec", "namespaces")
	if err != nil || len(only) > 0 && !slices.Contains(only, namespace) {
		return bad("DiskShareClass %s is not for pods of namespace %s", name, namespace)
	}
	return int(n), fmt.Sprintf("DiskShareClass %s: %d", name, n), nil
}

func fallbackIn(annotations map[string]string, from string) fallback {
	text, ok := annotations[DefaultWeight]
	if !ok {
		return fallback{}
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < weight.Min || n > weight.Max {
		return fallback{wrong: fmt.Sprintf("%s: annotation %s: %.20q is not a weight; allowed: an integer %d..%d", from, DefaultWeight, text, weight.Min, weight.Max)}
	}
	return fallback{weight: n}
}

// of is the weight, 0 for none, and why. refuse is told of what is wrong.
func (f fallback) of(from string, refuse func(reason, text string)) (n int, why string) {
	if f.wrong != "" {
		refuse(BadDefault, f.wrong)
	}
	if f.weight == 0 {
		return 0, ""
	}
	return f.weight, fmt.Sprintf("%s: %d", from, f.weight)
}

// defaults are those of the driver's cluster.
func (d *Driver) defaults() *Defaults {
	return &Defaults{Client: d.Client, Objects: d.Objects, Knows: func(class string) bool {
		config, err := rule.Load(d.Root, d.Rules)
		return err != nil || config.Knows(class) // where the rules are wrong, the daemon says so
	}}
}
