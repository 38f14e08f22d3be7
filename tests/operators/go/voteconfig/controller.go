// A ConfigMap for each VoteConfig, as kubebuilder's users write it.
package main

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// VoteConfigReconciler keeps ConfigMaps in sync.
type VoteConfigReconciler struct {
	client.Client
	Scheme *runtime.Scheme
}

// Reconcile lets the ConfigMap say what the object says.
func (r *VoteConfigReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var vote VoteConfig
	if err := r.Get(ctx, req.NamespacedName, &vote); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !vote.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	before := vote.DeepCopy()
	if option, ok := doubled(vote.Spec.Options); ok {
		r.setSynced(&vote, metav1.ConditionFalse, "DoubledOption", option)
		if err := r.keepStatus(ctx, before, &vote); err != nil {
			return ctrl.Result{}, err
		}
		return ctrl.Result{}, reconcile.TerminalError(fmt.Errorf("spec.options: %s stands there twice", option))
	}
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: vote.Name + "-config", Namespace: vote.Namespace}}
	result, err := controllerutil.CreateOrUpdate(ctx, r.Client, config, func() error {
		if config.Data == nil {
			config.Data = map[string]string{}
		}
		config.Data["title"] = vote.Spec.Title
		config.Data["options"] = strings.Join(vote.Spec.Options, "\n")
		return controllerutil.SetControllerReference(&vote, config, r.Scheme)
	})
	if err != nil {
		return ctrl.Result{}, err
	}
	if result != controllerutil.OperationResultNone || vote.Status.Updated == nil {
		now := metav1.Now()
		vote.Status.Updated = &now
	}
	vote.Status.ConfigMap = config.Name
	vote.Status.ObservedGeneration = vote.Generation
	r.setSynced(&vote, metav1.ConditionTrue, "Synced", "")
	return ctrl.Result{}, r.keepStatus(ctx, before, &vote)
}

func (r *VoteConfigReconciler) setSynced(vote *VoteConfig, status metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&vote.Status.Conditions, metav1.Condition{
		Type:               "Synced",
		Status:             status,
		Reason:             reason,
		Message:            message,
		ObservedGeneration: vote.Generation,
	})
}

func (r *VoteConfigReconciler) keepStatus(ctx context.Context, before, vote *VoteConfig) error {
	if equality.Semantic.DeepEqual(before.Status, vote.Status) {
		return nil
	}
	return r.Status().Update(ctx, vote)
}

func doubled(options []string) (string, bool) {
	seen := map[string]bool{}
	for _, option := range options {
		lower := strings.ToLower(option)
		if seen[lower] {
			return option, true
		}
		seen[lower] = true
	}
	return "", false
}

// SetupWithManager says what calls Reconcile.
func (r *VoteConfigReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&VoteConfig{}).
		Owns(&corev1.ConfigMap{}).
		Complete(r)
}
