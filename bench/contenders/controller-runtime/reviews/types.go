package main

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Part is one of many.
type Part struct {
	Name  string `json:"name"`
	Image string `json:"image"`
	Port  int32  `json:"port"`
}

// BenchSpec is what is wanted.
type BenchSpec struct {
	N     int64  `json:"n"`
	Parts []Part `json:"parts"`
}

// BenchObj is a number with parts.
type BenchObj struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              BenchSpec `json:"spec"`
}

// DeepCopyObject makes it a runtime.Object.
func (it *BenchObj) DeepCopyObject() runtime.Object {
	out := &BenchObj{TypeMeta: it.TypeMeta, Spec: it.Spec}
	it.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Spec.Parts = slices.Clone(it.Spec.Parts)
	return out
}

func addBenchObjs(scheme *runtime.Scheme) error {
	version := schema.GroupVersion{Group: "bench.kopf.rs", Version: "v1"}
	scheme.AddKnownTypes(version, &BenchObj{})
	metav1.AddToGroupVersion(scheme, version)
	return nil
}
