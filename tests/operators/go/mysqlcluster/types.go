package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/scheme"
)

var (
	groupVersion  = schema.GroupVersion{Group: "databases.example.com", Version: "v1"}
	schemeBuilder = &scheme.Builder{GroupVersion: groupVersion}
)

// MySQLClusterSpec is what an object asks for.
//
// +kubebuilder:validation:XValidation:rule="!has(self.fromBackup) || !has(oldSelf.fromBackup) || self.fromBackup == oldSelf.fromBackup",message="a backup is restored once"
type MySQLClusterSpec struct {
	// The Secret with the `password` of `root`. It is made if there is none.
	Secret string `json:"secret"`
	// Where the content comes from: the URL of a file of SQL.
	FromBackup string `json:"fromBackup,omitempty"`
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +kubebuilder:default=3306
	Port int32 `json:"port,omitempty"`
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:default=1
	Replicas int32 `json:"replicas,omitempty"`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="volumes keep their size"
	// +kubebuilder:default="1Gi"
	Storage string `json:"storage,omitempty"`
	// +kubebuilder:default="mysql:8.4"
	Image string `json:"image,omitempty"`
}

// MySQLClusterStatus is what has become of it.
type MySQLClusterStatus struct {
	ReadyReplicas      *int32             `json:"readyReplicas,omitempty"`
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
}

// MySQLCluster is database servers with their password, name and volumes.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=`.status.readyReplicas`
type MySQLCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              MySQLClusterSpec   `json:"spec,omitempty"`
	Status            MySQLClusterStatus `json:"status,omitempty"`
}

// MySQLClusterList is a list of them.
//
// +kubebuilder:object:root=true
type MySQLClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MySQLCluster `json:"items"`
}

func init() {
	schemeBuilder.Register(&MySQLCluster{}, &MySQLClusterList{})
}
