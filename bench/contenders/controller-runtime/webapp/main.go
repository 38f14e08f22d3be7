// A Deployment and a Service for every WebApp, as controller-runtime's users write it: a typed client, owned kinds, server-side apply, default
// settings. It listens on no port.
package main

import (
	"context"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const manager = client.FieldOwner("webapp-operator")

// Reconciler keeps a Deployment and a Service in shape.
type Reconciler struct {
	client.Client
}

// Reconcile is called for each WebApp, and when something that it owns changes.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var app WebApp
	if err := r.Get(ctx, request.NamespacedName, &app); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if err := r.Apply(ctx, deploymentOf(&app), manager, client.ForceOwnership); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.Apply(ctx, serviceOf(&app), manager, client.ForceOwnership); err != nil {
		return ctrl.Result{}, err
	}
	var deployment appsv1.Deployment
	if err := r.Get(ctx, request.NamespacedName, &deployment); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, err
	}
	if err := r.writeStatus(ctx, &app, deployment.Status.AvailableReplicas); err != nil {
		return ctrl.Result{}, err
	}
	logf.FromContext(ctx).Info("reconciled")
	return ctrl.Result{}, nil
}

func (r *Reconciler) writeStatus(ctx context.Context, app *WebApp, available int32) error {
	before := app.DeepCopy()
	ready := metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: "Progressing", ObservedGeneration: app.Generation}
	if available >= app.Spec.Replicas {
		ready.Status, ready.Reason = metav1.ConditionTrue, "Available"
	}
	meta.SetStatusCondition(&app.Status.Conditions, ready)
	app.Status.AvailableReplicas = &available
	app.Status.ObservedGeneration = app.Generation
	if equality.Semantic.DeepEqual(before.Status, app.Status) {
		return nil
	}
	return r.Status().Patch(ctx, app, client.MergeFrom(before))
}

func labels(app *WebApp) map[string]string {
	return map[string]string{"app": app.Name, "app.kubernetes.io/managed-by": "webapp-operator"}
}

func owner(app *WebApp) *metav1ac.OwnerReferenceApplyConfiguration {
	return metav1ac.OwnerReference().WithAPIVersion(version.String()).WithKind("WebApp").WithName(app.Name).WithUID(app.UID).
		WithController(true).WithBlockOwnerDeletion(true)
}

func deploymentOf(app *WebApp) *appsv1ac.DeploymentApplyConfiguration {
	selected := map[string]string{"app": app.Name}
	port := corev1ac.ContainerPort().WithContainerPort(app.Spec.Port)
	container := corev1ac.Container().WithName("web").WithImage(app.Spec.Image).WithPorts(port)
	return appsv1ac.Deployment(app.Name, app.Namespace).WithLabels(labels(app)).WithOwnerReferences(owner(app)).
		WithSpec(appsv1ac.DeploymentSpec().WithReplicas(app.Spec.Replicas).
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(selected)).
			WithTemplate(corev1ac.PodTemplateSpec().WithLabels(selected).WithSpec(corev1ac.PodSpec().WithContainers(container))))
}

func serviceOf(app *WebApp) *corev1ac.ServiceApplyConfiguration {
	port := corev1ac.ServicePort().WithPort(app.Spec.Port).WithTargetPort(intstr.FromInt32(app.Spec.Port))
	return corev1ac.Service(app.Name, app.Namespace).WithLabels(labels(app)).WithOwnerReferences(owner(app)).
		WithSpec(corev1ac.ServiceSpec().WithClusterIP(corev1.ClusterIPNone).WithSelector(map[string]string{"app": app.Name}).WithPorts(port))
}

func must(err error) {
	if err != nil {
		logf.Log.Error(err, "cannot go on")
		os.Exit(1)
	}
}

func main() {
	ctrl.SetLogger(zap.New())
	scheme := runtime.NewScheme()
	must(clientgoscheme.AddToScheme(scheme))
	must(addWebApps(scheme))
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		Scheme:  scheme,
		Metrics: server.Options{BindAddress: "0"},
		Cache:   cache.Options{DefaultNamespaces: map[string]cache.Config{os.Args[1]: {}}},
	})
	must(err)
	must(ctrl.NewControllerManagedBy(mgr).For(&WebApp{}).Owns(&appsv1.Deployment{}).Owns(&corev1.Service{}).
		Complete(&Reconciler{mgr.GetClient()}))
	must(mgr.Start(ctrl.SetupSignalHandler()))
}
