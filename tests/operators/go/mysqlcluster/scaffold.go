package main

import (
	"context"
	"os"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// What kubebuilder makes by itself is not counted: copies of the types, and the program.

// DeepCopy makes a copy.
func (in *MySQLCluster) DeepCopy() *MySQLCluster {
	out := *in
	out.ObjectMeta = *in.ObjectMeta.DeepCopy()
	if in.Status.ReadyReplicas != nil {
		ready := *in.Status.ReadyReplicas
		out.Status.ReadyReplicas = &ready
	}
	out.Status.Conditions = append([]metav1.Condition(nil), in.Status.Conditions...)
	return &out
}

// DeepCopyObject makes a copy.
func (in *MySQLCluster) DeepCopyObject() runtime.Object {
	return in.DeepCopy()
}

// DeepCopyObject makes a copy.
func (in *MySQLClusterList) DeepCopyObject() runtime.Object {
	out := *in
	out.Items = nil
	for _, item := range in.Items {
		out.Items = append(out.Items, *item.DeepCopy())
	}
	return &out
}

func must(err error) {
	if err != nil {
		ctrl.Log.Error(err, "cannot go on")
		os.Exit(1)
	}
}

func main() {
	scheme := runtime.NewScheme()
	must(clientgoscheme.AddToScheme(scheme))
	must(apiextensionsv1.AddToScheme(scheme))
	must(schemeBuilder.AddToScheme(scheme))
	config := ctrl.GetConfigOrDie()
	definition, err := os.ReadFile("crd.yaml")
	must(err)
	direct, err := client.New(config, client.Options{Scheme: scheme})
	must(err)
	must(Register(context.Background(), direct, definition))
	mgr, err := ctrl.NewManager(config, ctrl.Options{Scheme: scheme})
	must(err)
	must((&MySQLClusterReconciler{mgr.GetClient(), scheme}).SetupWithManager(mgr))
	must(mgr.Start(ctrl.SetupSignalHandler()))
}
