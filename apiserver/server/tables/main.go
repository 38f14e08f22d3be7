// Command tables prints the table of the types that come with a Kubernetes API server: for each field its JSON name, its
// number in protobuf, its type, when it is left out, how server-side apply sees it, and how strategic merge patch does.
//
// The Go types of the published modules say the first half in their tags, the OpenAPI documents of the same release the
// second. Run ./make in this folder to write types.txt anew. See schemas.go for the other table.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sort"
	"strings"

	admissionregistration "k8s.io/api/admissionregistration/v1"
	apps "k8s.io/api/apps/v1"
	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	batch "k8s.io/api/batch/v1"
	certificates "k8s.io/api/certificates/v1"
	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	events "k8s.io/api/events/v1"
	flowcontrol "k8s.io/api/flowcontrol/v1"
	networking "k8s.io/api/networking/v1"
	node "k8s.io/api/node/v1"
	policy "k8s.io/api/policy/v1"
	rbac "k8s.io/api/rbac/v1"
	resource "k8s.io/api/resource/v1"
	scheduling "k8s.io/api/scheduling/v1"
	storage "k8s.io/api/storage/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// markers is what OpenAPI says of a field or a type beyond its shape.
type markers struct {
	ListType string          `json:"x-kubernetes-list-type"`
	ListKeys []string        `json:"x-kubernetes-list-map-keys"`
	MapType  string          `json:"x-kubernetes-map-type"`
	Default  json.RawMessage `json:"default"`
}

type definition struct {
	markers
	Properties map[string]property `json:"properties"`
}

type property struct {
	markers
}

// special are the types whose JSON is not their structure.
var special = map[string]string{
	"k8s.io/apimachinery/pkg/apis/meta/v1.Time":                                             "Time",
	"k8s.io/apimachinery/pkg/apis/meta/v1.MicroTime":                                        "MicroTime",
	"k8s.io/apimachinery/pkg/apis/meta/v1.Duration":                                         "Duration",
	"k8s.io/apimachinery/pkg/apis/meta/v1.FieldsV1":                                         "Raw",
	"k8s.io/apimachinery/pkg/api/resource.Quantity":                                         "Quantity",
	"k8s.io/apimachinery/pkg/util/intstr.IntOrString":                                       "IntOrString",
	"k8s.io/apimachinery/pkg/runtime.RawExtension":                                          "Raw",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSON":                         "Raw",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrBool":        "SchemaOrBool",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrArray":       "SchemaOrSchemas",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrStringArray": "SchemaOrStrings",
}

// extra are served as subresources or sent as options.
var extra = map[string]bool{"DeleteOptions": true, "Scale": true, "TokenRequest": true, "Eviction": true, "Binding": true}

type table struct {
	openapi map[string]definition
	names   map[reflect.Type]string
	todo    []reflect.Type
	out     *bufio.Writer
}

func main() {
	if os.Args[1] == "schemas" {
		schemas(os.Args[2])
		return
	}
	t := table{openapi: read[definition](os.Args[1], "*_openapi.json"), names: map[reflect.Type]string{}, out: bufio.NewWriter(os.Stdout)}
	defer t.out.Flush()
	fmt.Fprintln(t.out, "# Made by main.go in this folder; do not edit.")
	for _, line := range t.kinds() {
		fmt.Fprintln(t.out, line)
	}
	for len(t.todo) > 0 {
		next := t.todo[0]
		t.todo = t.todo[1:]
		t.print(next)
	}
}

// read returns the schemas of the OpenAPI v3 documents in a folder, by name.
func read[Schema any](folder, pattern string) map[string]Schema {
	all := map[string]Schema{}
	files, err := filepath.Glob(filepath.Join(folder, pattern))
	check(err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		check(err)
		var document struct {
			Components struct {
				Schemas map[string]Schema `json:"schemas"`
			} `json:"components"`
		}
		check(json.Unmarshal(text, &document))
		maps.Copy(all, document.Components.Schemas)
	}
	return all
}

func (t *table) kinds() []string {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		admissionregistration.AddToScheme, apps.AddToScheme, authentication.AddToScheme, authorization.AddToScheme,
		autoscalingv1.AddToScheme, autoscaling.AddToScheme, batch.AddToScheme, certificates.AddToScheme,
		coordination.AddToScheme, core.AddToScheme, discovery.AddToScheme, events.AddToScheme, networking.AddToScheme,
		node.AddToScheme, policy.AddToScheme, rbac.AddToScheme, scheduling.AddToScheme, storage.AddToScheme,
		apiextensions.AddToScheme, apiregistration.AddToScheme, flowcontrol.AddToScheme, resource.AddToScheme,
	} {
		check(add(scheme))
	}
	var lines []string
	types := scheme.AllKnownTypes()
	var order []schema.GroupVersionKind
	for gvk := range types {
		order = append(order, gvk)
	}
	sort.Slice(order, func(i, j int) bool { return order[i].String() < order[j].String() })
	for _, gvk := range order {
		of := types[gvk]
		_, hasMeta := of.FieldByName("ObjectMeta")
		if gvk.Version == "__internal" || !(hasMeta || extra[gvk.Kind]) || (gvk.Kind == "DeleteOptions" && gvk.String() != "/v1, Kind=DeleteOptions") {
			continue
		}
		version, _ := gvk.ToAPIVersionAndKind()
		lines = append(lines, fmt.Sprintf("kind %s %s %s", version, gvk.Kind, t.name(of)))
	}
	return lines
}

// name gives a struct its short name, and remembers to print it.
func (t *table) name(of reflect.Type) string {
	if known, ok := t.names[of]; ok {
		return known
	}
	parts := strings.Split(of.PkgPath(), "/")
	name := strings.Join(parts[max(0, len(parts)-2):], "/") + "." + of.Name()
	t.names[of] = name
	t.todo = append(t.todo, of)
	return name
}

func (t *table) definition(of reflect.Type) definition {
	parts := strings.Split(of.PkgPath(), "/")
	host := strings.Split(parts[0], ".")
	for i, j := 0, len(host)-1; i < j; i, j = i+1, j-1 {
		host[i], host[j] = host[j], host[i]
	}
	return t.openapi[strings.Join(append(host, parts[1:]...), ".")+"."+of.Name()]
}

func (t *table) print(of reflect.Type) {
	known := t.definition(of)
	head := "type " + t.names[of]
	if known.MapType == "atomic" {
		head += " atomic"
	}
	fmt.Fprintln(t.out, head)
	for i := range of.NumField() {
		field := of.Field(i)
		tag := strings.Split(field.Tag.Get("json"), ",")
		if field.Name == "TypeMeta" || tag[0] == "-" {
			continue
		}
		name := tag[0]
		if name == "" && len(tag) > 1 && tag[1] == "inline" {
			name = "-"
		} else if name == "" && field.Anonymous {
			name = "-"
		}
		number := "0"
		if proto := strings.Split(field.Tag.Get("protobuf"), ","); len(proto) > 1 {
			number = proto[1]
		}
		words := []string{"", name, number, t.typeOf(field.Type)}
		for _, option := range tag[1:] {
			switch option {
			case "omitempty":
				words = append(words, "o")
			case "omitzero":
				words = append(words, "z")
			}
		}
		words = append(words, marks(known.Properties[name].markers)...)
		// Where nothing is written for it, only the mark says that it counts as a key.
		if slices.Contains(tag[1:], "omitempty") && string(known.Properties[name].markers.Default) == `""` {
			words = append(words, `default=""`)
		}
		if strategy := field.Tag.Get("patchStrategy"); strategy != "" {
			words = append(words, "patch="+strategy)
		}
		if key := field.Tag.Get("patchMergeKey"); key != "" {
			words = append(words, "key="+key)
		}
		fmt.Fprintln(t.out, strings.Join(words, " "))
	}
}

func marks(found markers) []string {
	var words []string
	switch {
	case found.ListType == "map":
		words = append(words, "map="+strings.Join(found.ListKeys, ","))
	case found.ListType == "set":
		words = append(words, "set")
	case found.MapType == "atomic":
		words = append(words, "atomic")
	}
	switch text := string(found.Default); text {
	case "", "{}", `""`, "0", "null":
	default:
		words = append(words, "default="+strings.ReplaceAll(text, " ", ""))
	}
	return words
}

func (t *table) typeOf(of reflect.Type) string {
	if word, ok := special[of.PkgPath()+"."+of.Name()]; ok {
		// Schemas inside are structs like any other.
		if strings.HasPrefix(word, "Schema") {
			t.name(reflect.TypeOf(apiextensions.JSONSchemaProps{}))
		}
		return word
	}
	switch of.Kind() {
	case reflect.Pointer:
		return "*" + t.typeOf(of.Elem())
	case reflect.Struct:
		return "@" + t.name(of)
	case reflect.Map:
		return "{}" + t.typeOf(of.Elem())
	case reflect.Slice:
		if of.Elem().Kind() == reflect.Uint8 {
			return "bytes"
		}
		if _, wrapped := reflect.PointerTo(of).MethodByName("Marshal"); wrapped {
			return "w[]" + t.typeOf(of.Elem())
		}
		return "[]" + t.typeOf(of.Elem())
	}
	if of.Name() != of.Kind().String() {
		return of.Kind().String() + "=" + of.String()
	}
	return of.Kind().String()
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
