package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var version = schema.GroupVersion{Group: "bench.kopf.rs", Version: "v1"}

// WebAppSpec is what is wanted.
type WebAppSpec struct {
	Image    string `json:"image"`
	Replicas int32  `json:"replicas"`
	Port     int32  `json:"port"`
}

// WebAppStatus is what is there.
type WebAppStatus struct {
	AvailableReplicas  *int32             `json:"availableReplicas,omitempty"`
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
}

// WebApp is a Deployment and a Service.
type WebApp struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              WebAppSpec   `json:"spec"`
	Status            WebAppStatus `json:"status,omitempty"`
}

// WebAppList is many of them.
type WebAppList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []WebApp `json:"items"`
}

// DeepCopyInto copies all that is not a value.
func (it *WebApp) DeepCopyInto(out *WebApp) {
	*out = *it
	it.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	if it.Status.AvailableReplicas != nil {
		available := *it.Status.AvailableReplicas
		out.Status.AvailableReplicas = &available
	}
	if it.Status.Conditions != nil {
		out.Status.Conditions = make([]metav1.Condition, len(it.Status.Conditions))
		for at := range it.Status.Conditions {
			it.Status.Conditions[at].DeepCopyInto(&out.Status.Conditions[at])
		}
	}
}

// DeepCopy makes another one.
func (it *WebApp) DeepCopy() *WebApp {
	out := new(WebApp)
	it.DeepCopyInto(out)
	return out
}

// DeepCopyObject makes it a runtime.Object.
func (it *WebApp) DeepCopyObject() runtime.Object {
	return it.DeepCopy()
}

// DeepCopyObject makes it a runtime.Object.
func (it *WebAppList) DeepCopyObject() runtime.Object {
	out := &WebAppList{TypeMeta: it.TypeMeta, ListMeta: *it.ListMeta.DeepCopy(), Items: make([]WebApp, len(it.Items))}
	for at := range it.Items {
		it.Items[at].DeepCopyInto(&out.Items[at])
	}
	return out
}

func addWebApps(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(version, &WebApp{}, &WebAppList{})
	metav1.AddToGroupVersion(scheme, version)
	return nil
}
