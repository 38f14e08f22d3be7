package main

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	extensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kopf-rs.test/clients/say"
)

var version = schema.GroupVersion{Group: "controller.example.com", Version: "v1"}

// WebsiteSpec is what is wanted.
type WebsiteSpec struct {
	Text     string `json:"text"`
	Replicas int32  `json:"replicas,omitempty"`
}

// WebsiteStatus is what is there.
type WebsiteStatus struct {
	Text       string             `json:"text,omitempty"`
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Website is a kind of one's own.
type Website struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              WebsiteSpec   `json:"spec"`
	Status            WebsiteStatus `json:"status,omitempty"`
}

// WebsiteList is many of them.
type WebsiteList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Website `json:"items"`
}

func (it *Website) copied() Website {
	copied := *it
	it.ObjectMeta.DeepCopyInto(&copied.ObjectMeta)
	copied.Status.Conditions = nil
	for at := range it.Status.Conditions {
		copied.Status.Conditions = append(copied.Status.Conditions, *it.Status.Conditions[at].DeepCopy())
	}
	return copied
}

// DeepCopyObject makes it a runtime.Object.
func (it *Website) DeepCopyObject() runtime.Object {
	copied := it.copied()
	return &copied
}

// DeepCopyObject makes it a runtime.Object.
func (it *WebsiteList) DeepCopyObject() runtime.Object {
	copied := &WebsiteList{TypeMeta: it.TypeMeta, ListMeta: *it.ListMeta.DeepCopy()}
	for at := range it.Items {
		copied.Items = append(copied.Items, it.Items[at].copied())
	}
	return copied
}

func addWebsites(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(version, &Website{}, &WebsiteList{})
	metav1.AddToGroupVersion(scheme, version)
	return nil
}

func websites() *extensionsv1.CustomResourceDefinition {
	yes, most := true, 10.0
	text := extensionsv1.JSONSchemaProps{Type: "string"}
	return &extensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "websites." + version.Group},
		Spec: extensionsv1.CustomResourceDefinitionSpec{
			Group: version.Group, Scope: extensionsv1.NamespaceScoped,
			Names: extensionsv1.CustomResourceDefinitionNames{Plural: "websites", Singular: "website", Kind: "Website", ListKind: "WebsiteList"},
			Versions: []extensionsv1.CustomResourceDefinitionVersion{{
				Name: version.Version, Served: true, Storage: true,
				Subresources: &extensionsv1.CustomResourceSubresources{Status: &extensionsv1.CustomResourceSubresourceStatus{}},
				Schema: &extensionsv1.CustomResourceValidation{OpenAPIV3Schema: &extensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]extensionsv1.JSONSchemaProps{
					"spec": {Type: "object", Required: []string{"text"}, Properties: map[string]extensionsv1.JSONSchemaProps{
						"text": text, "replicas": {Type: "integer", Maximum: &most, Default: &extensionsv1.JSON{Raw: []byte("1")}},
					}},
					"status": {Type: "object", XPreserveUnknownFields: &yes},
				}}},
			}},
		},
	}
}

// A subresource through the client.
func scaleOf(ctx context.Context, user client.Client, run *appsv1.Deployment) {
	scale := &autoscalingv1.Scale{}
	say.Must("reading a scale", user.SubResource("scale").Get(ctx, run, scale))
	say.Line("scale", scale.Spec.Replicas)
}
