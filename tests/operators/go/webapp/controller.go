// A Deployment and a Service for each WebApp, as kubebuilder's users write it.
package main

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
)

const finalizer = "apps.example.com/finalizer"

// WebAppReconciler keeps the children of WebApps in shape.
type WebAppReconciler struct {
	client.Client
	Scheme *runtime.Scheme
}

// Reconcile lets the children be as the object wants them.
func (r *WebAppReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var app WebApp
	if err := r.Get(ctx, req.NamespacedName, &app); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !app.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, r.finalize(ctx, &app)
	}
	if controllerutil.AddFinalizer(&app, finalizer) {
		return ctrl.Result{}, r.Update(ctx, &app)
	}
	if err := r.keepService(ctx, &app); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.keepPublished(ctx, &app); err != nil {
		return ctrl.Result{}, err
	}
	deployment, err := r.keepDeployment(ctx, &app)
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.keepStatus(ctx, &app, deployment.Status.AvailableReplicas)
}

func (r *WebAppReconciler) finalize(ctx context.Context, app *WebApp) error {
	if !controllerutil.ContainsFinalizer(app, finalizer) {
		return nil
	}
	if err := r.Delete(ctx, published(app)); client.IgnoreNotFound(err) != nil {
		return err
	}
	logf.FromContext(ctx).Info("withdrawn")
	controllerutil.RemoveFinalizer(app, finalizer)
	return r.Update(ctx, app)
}

func (r *WebAppReconciler) keepDeployment(ctx context.Context, app *WebApp) (*appsv1.Deployment, error) {
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: app.Name, Namespace: app.Namespace}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, deployment, func() error {
		deployment.Labels = labels(app)
		deployment.Spec.Replicas = &app.Spec.Replicas
		deployment.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": app.Name}}
		deployment.Spec.Template.Labels = labels(app)
		containers := &deployment.Spec.Template.Spec.Containers
		if len(*containers) == 0 {
			*containers = []corev1.Container{{Name: "web"}}
		}
		(*containers)[0].Image = app.Spec.Image
		(*containers)[0].Ports = []corev1.ContainerPort{{ContainerPort: app.Spec.Port, Protocol: corev1.ProtocolTCP}}
		return controllerutil.SetControllerReference(app, deployment, r.Scheme)
	})
	return deployment, err
}

func (r *WebAppReconciler) keepService(ctx context.Context, app *WebApp) error {
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: app.Name, Namespace: app.Namespace}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, service, func() error {
		service.Labels = labels(app)
		service.Spec.Selector = map[string]string{"app": app.Name}
		service.Spec.Ports = []corev1.ServicePort{{
			Port: app.Spec.Port, TargetPort: intstr.FromInt32(app.Spec.Port), Protocol: corev1.ProtocolTCP,
		}}
		return controllerutil.SetControllerReference(app, service, r.Scheme)
	})
	return err
}

func (r *WebAppReconciler) keepPublished(ctx context.Context, app *WebApp) error {
	service := published(app)
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, service, func() error {
		service.Spec.Type = corev1.ServiceTypeExternalName
		service.Spec.ExternalName = fmt.Sprintf("%s.%s.svc.cluster.local", app.Name, app.Namespace)
		return nil
	})
	return err
}

func (r *WebAppReconciler) keepStatus(ctx context.Context, app *WebApp, available int32) error {
	before := app.DeepCopy()
	condition := metav1.Condition{
		Type:               "Available",
		Status:             metav1.ConditionFalse,
		Reason:             "TooFewReplicas",
		Message:            fmt.Sprintf("%d of %d replicas are available", available, app.Spec.Replicas),
		ObservedGeneration: app.Generation,
	}
	if available >= app.Spec.Replicas {
		condition.Status = metav1.ConditionTrue
		condition.Reason = "AllReplicas"
	}
	meta.SetStatusCondition(&app.Status.Conditions, condition)
	app.Status.AvailableReplicas = &available
	app.Status.ObservedGeneration = app.Generation
	if equality.Semantic.DeepEqual(before.Status, app.Status) {
		return nil
	}
	return r.Status().Update(ctx, app)
}

func labels(app *WebApp) map[string]string {
	return map[string]string{"app": app.Name, "app.kubernetes.io/managed-by": "webapp-operator"}
}

func published(app *WebApp) *corev1.Service {
	name := fmt.Sprintf("%s-%s", app.Name, app.Namespace)
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "published"}}
}

// SetupWithManager says what calls Reconcile.
func (r *WebAppReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&WebApp{}).
		Owns(&appsv1.Deployment{}).
		Owns(&corev1.Service{}).
		Complete(r)
}
