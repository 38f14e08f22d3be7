package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/scheme"
)

var (
	groupVersion  = schema.GroupVersion{Group: "voting.schoolofdevops.com", Version: "v1"}
	schemeBuilder = &scheme.Builder{GroupVersion: groupVersion}
)

// VoteConfigSpec is what an object asks for.
type VoteConfigSpec struct {
	// What the vote is about.
	Title string `json:"title"`
	// What can be voted for.
	//
	// +kubebuilder:validation:MinItems=2
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=100
	Options []string `json:"options"`
}

// VoteConfigStatus is what has become of it.
type VoteConfigStatus struct {
	ConfigMap          string       `json:"configMap,omitempty"`
	Updated            *metav1.Time `json:"updated,omitempty"`
	ObservedGeneration int64        `json:"observedGeneration,omitempty"`
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// VoteConfig is the options of a vote.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=vc
// +kubebuilder:storageversion
// +kubebuilder:printcolumn:name="ConfigMap",type=string,JSONPath=`.status.configMap`
// +kubebuilder:printcolumn:name="Updated",type=date,JSONPath=`.status.updated`
type VoteConfig struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              VoteConfigSpec   `json:"spec"`
	Status            VoteConfigStatus `json:"status,omitempty"`
}

// VoteConfigList is a list of them.
//
// +kubebuilder:object:root=true
type VoteConfigList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []VoteConfig `json:"items"`
}

func init() {
	schemeBuilder.Register(&VoteConfig{}, &VoteConfigList{})
}
