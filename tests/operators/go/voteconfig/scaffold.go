package main

import (
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
)

// What kubebuilder makes by itself is not counted: copies of the types, and the program.

// DeepCopy makes a copy.
func (in *VoteConfig) DeepCopy() *VoteConfig {
	out := *in
	out.ObjectMeta = *in.ObjectMeta.DeepCopy()
	out.Spec.Options = append([]string(nil), in.Spec.Options...)
	out.Status.Updated = in.Status.Updated.DeepCopy()
	out.Status.Conditions = append([]metav1.Condition(nil), in.Status.Conditions...)
	return &out
}

// DeepCopyObject makes a copy.
func (in *VoteConfig) DeepCopyObject() runtime.Object {
	return in.DeepCopy()
}

// DeepCopyObject makes a copy.
func (in *VoteConfigList) DeepCopyObject() runtime.Object {
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
	must(schemeBuilder.AddToScheme(scheme))
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{Scheme: scheme})
	must(err)
	must((&VoteConfigReconciler{mgr.GetClient(), scheme}).SetupWithManager(mgr))
	must(mgr.Start(ctrl.SetupSignalHandler()))
}
