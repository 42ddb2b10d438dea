// SPDX-License-Identifier: MIT

package kubernetes

import (
	"context"
	"slices"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	extensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	custom "k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"sigs.k8s.io/yaml"
)

// definition is the chart's CustomResourceDefinition, read strictly and judged as an API server does.
func definition(t *testing.T) *apiextensions.CustomResourceDefinition {
	t.Helper()
	scheme := runtime.NewScheme()
	install.Install(scheme)
	strict := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{Yaml: true, Strict: true})
	docs, err := render(t, values{"diskShareClasses": true})
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(docs, func(doc string) bool { return strings.Contains(doc, "kind: CustomResourceDefinition") })
	if at < 0 {
		t.Fatal("no definition")
	}
	read, _, err := strict.Decode([]byte(docs[at]), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	crd := read.(*extensions.CustomResourceDefinition)
	scheme.Default(crd)
	in := &apiextensions.CustomResourceDefinition{}
	if err := scheme.Convert(crd, in, nil); err != nil {
		t.Fatal(err)
	}
	if wrong := validation.ValidateCustomResourceDefinition(context.Background(), in); len(wrong) > 0 {
		t.Fatal(wrong)
	}
	return in
}

// What is a DiskShareClass, and what is none.
func TestDefinition(t *testing.T) {
	props := definition(t).Spec.Validation
	if props == nil {
		t.Fatal("no schema")
	}
	structural, err := schema.NewStructural(props.OpenAPIV3Schema)
	if err != nil {
		t.Fatal(err)
	}
	validator, _, err := custom.NewSchemaValidator(props.OpenAPIV3Schema)
	if err != nil {
		t.Fatal(err)
	}
	for spec, want := range map[string]string{
		"{weight: 400}": "",
		"{weight: 1, namespaces: [shop, billing], description: for databases}": "",
		"{weight: 10000, namespaces: []}":                                      "",
		"{weight: 0}":                                                          "spec.weight",
		"{weight: 10001}":                                                      "spec.weight",
		"{weight: much}":                                                       "spec.weight",
		"{}":                                                                   "spec.weight",
		"{weight: 5, most: 7}":                                                 "most",
		"{weight: 5, namespaces: [shop, shop]}":                                "spec.namespaces[1]",
		"{weight: 5, namespaces: shop}":                                        "spec.namespaces",
		"{weight: 5, namespaces: ['']}":                                        "spec.namespaces[0]",
	} {
		object := map[string]any{}
		if err := yaml.Unmarshal([]byte("apiVersion: isolio.dev/v1alpha1\nkind: DiskShareClass\nmetadata: {name: gold}\nspec: "+spec), &object); err != nil {
			t.Fatal(err)
		}
		var wrong []string
		for _, e := range custom.ValidateCustomResource(nil, object, validator) {
			wrong = append(wrong, e.Error())
		}
		for _, e := range listtype.ValidateListSetsAndMaps(nil, structural, object) {
			wrong = append(wrong, e.Error())
		}
		wrong = append(wrong, pruning.PruneWithOptions(object, structural, true, schema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})...)
		text := strings.Join(wrong, "; ")
		if (text == "") != (want == "") || !strings.Contains(text, want) {
			t.Errorf("%s: %q, want %q", spec, text, want)
		}
	}
}

// The document's example is a class.
func TestDefinitionOfDocument(t *testing.T) {
	props := definition(t).Spec.Validation
	validator, _, err := custom.NewSchemaValidator(props.OpenAPIV3Schema)
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(read(t, "../../docs/kubernetes-claims.md"), "```yaml\napiVersion: isolio.dev/v1alpha1")
	if !found {
		t.Fatal("docs/kubernetes-claims.md has no DiskShareClass")
	}
	text, _, _ = strings.Cut(text, "```")
	object := map[string]any{}
	if err := yaml.Unmarshal([]byte("apiVersion: isolio.dev/v1alpha1"+text), &object); err != nil {
		t.Fatal(err)
	}
	if wrong := custom.ValidateCustomResource(nil, object, validator); len(wrong) > 0 {
		t.Error(wrong)
	}
}
