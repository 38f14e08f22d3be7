// A controller-runtime program as people write them: a manager with cache, leader election and events; a finalizer, owned objects,
// a status with conditions. The program is its own user, too, and prints what that user sees. No webhooks.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	extensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"kopf-rs.test/clients/await"
	"kopf-rs.test/clients/say"
)

const (
	namespace = "go-controller"
	finalizer = "controller.example.com/cleanup"
)

// Reconciler makes of every Website a ConfigMap and a Deployment.
type Reconciler struct {
	client.Client
	scheme *runtime.Scheme
	events events.EventRecorder
}

// Reconcile is called for each Website, and when something that it owns changes.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	site := &Website{}
	if err := r.Get(ctx, request.NamespacedName, site); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !site.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, r.cleanUp(ctx, site)
	}
	if controllerutil.AddFinalizer(site, finalizer) {
		if err := r.Update(ctx, site); err != nil {
			return ctrl.Result{}, err
		}
	}
	if err := r.children(ctx, site); err != nil {
		return ctrl.Result{}, err
	}
	before := site.DeepCopyObject().(*Website)
	changed := meta.SetStatusCondition(&site.Status.Conditions, metav1.Condition{
		Type: "Ready", Status: metav1.ConditionTrue, Reason: "Made", Message: "children are there", ObservedGeneration: site.Generation,
	})
	site.Status.Text = site.Spec.Text
	if changed || before.Status.Text != site.Status.Text {
		if err := r.Status().Patch(ctx, site, client.MergeFrom(before)); err != nil {
			return ctrl.Result{}, err
		}
		r.events.Eventf(site, nil, "Normal", "Made", "Making", "text is %s", site.Spec.Text)
	}
	return ctrl.Result{}, nil
}

func (r *Reconciler) children(ctx context.Context, site *Website) error {
	page := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: site.Name, Namespace: site.Namespace}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, page, func() error {
		page.Data = map[string]string{"index.html": site.Spec.Text}
		return controllerutil.SetControllerReference(site, page, r.scheme)
	})
	if err != nil {
		return err
	}
	run := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: site.Name, Namespace: site.Namespace}}
	labels := map[string]string{"site": site.Name}
	_, err = controllerutil.CreateOrPatch(ctx, r.Client, run, func() error {
		run.Spec.Replicas = &site.Spec.Replicas
		run.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
		run.Spec.Template.Labels = labels
		if len(run.Spec.Template.Spec.Containers) == 0 {
			run.Spec.Template.Spec.Containers = []corev1.Container{{Name: "web", Image: "nginx:1"}}
		}
		return controllerutil.SetControllerReference(site, run, r.scheme)
	})
	return err
}

// What is outside of the cluster is cleaned up before the finalizer goes: here, a ConfigMap that nobody owns.
func (r *Reconciler) cleanUp(ctx context.Context, site *Website) error {
	note := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: site.Name + "-gone", Namespace: site.Namespace}}
	if err := r.Create(ctx, note); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	if controllerutil.RemoveFinalizer(site, finalizer) {
		return r.Update(ctx, site)
	}
	return nil
}

func main() {
	log.SetLogger(logr.Discard())
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	say.Must("reading the kubeconfig", err)
	config.QPS, config.Burst = 200, 400
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, extensionsv1.AddToScheme, addWebsites} {
		say.Must("building the scheme", add(scheme))
	}
	ctx, cancel := context.WithCancel(context.Background())
	user, err := client.New(config, client.Options{Scheme: scheme})
	say.Must("a client", err)
	prepare(ctx, user)

	release, lease, renew, retry := true, 15*time.Second, 10*time.Second, time.Second
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme, Metrics: server.Options{BindAddress: "0"},
		LeaderElection: true, LeaderElectionID: "websites", LeaderElectionNamespace: namespace, LeaderElectionReleaseOnCancel: release,
		LeaseDuration: &lease, RenewDeadline: &renew, RetryPeriod: &retry,
		Cache: cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}},
	})
	say.Must("a manager", err)
	say.Must("an index", manager.GetFieldIndexer().IndexField(ctx, &Website{}, "spec.text", func(it client.Object) []string {
		return []string{it.(*Website).Spec.Text}
	}))
	reconciler := &Reconciler{Client: manager.GetClient(), scheme: scheme, events: manager.GetEventRecorder("websites")}
	say.Must("a controller", ctrl.NewControllerManagedBy(manager).For(&Website{}).Owns(&corev1.ConfigMap{}).Owns(&appsv1.Deployment{}).Complete(reconciler))
	ended := make(chan error)
	go func() { ended <- manager.Start(ctx) }()
	select {
	case <-manager.Elected():
		say.Line("elected")
	case err := <-ended:
		say.Must("running the manager", err)
	}
	use(ctx, user)
	cached(ctx, manager.GetClient())
	farewell(ctx, user)
	cancel()
	say.Line("ended", <-ended)
	leave(user)
}

func prepare(ctx context.Context, user client.Client) {
	say.Must("a namespace", user.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
	definition := websites()
	result, err := controllerutil.CreateOrUpdate(ctx, user, definition, func() error { return nil })
	say.Must("defining", err)
	say.Line("defined", result)
	say.Line("established", await.That(func() bool {
		say.Must("reading", user.Get(ctx, client.ObjectKeyFromObject(definition), definition))
		for _, condition := range definition.Status.Conditions {
			if condition.Type == extensionsv1.Established && condition.Status == extensionsv1.ConditionTrue {
				return true
			}
		}
		return false
	}))
	say.Line("served", await.That(func() bool { return user.List(ctx, &WebsiteList{}) == nil }))
}

func until(ctx context.Context, user client.Client, it client.Object, name string, condition func() bool) {
	say.Line("until "+fmt.Sprintf("%T", it)+" "+name, await.That(func() bool {
		err := user.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, it)
		return err == nil && condition()
	}))
}

func use(ctx context.Context, user client.Client) {
	site := &Website{ObjectMeta: metav1.ObjectMeta{Name: "home", Namespace: namespace}, Spec: WebsiteSpec{Text: "hello", Replicas: 2}}
	say.Must("creating", user.Create(ctx, site))
	gvk, err := apiutil.GVKForObject(site, user.Scheme())
	say.Must("a kind", err)
	say.Line("made", gvk.Kind, site.Spec, site.Generation)
	until(ctx, user, site, "home", func() bool { return site.Status.Text == "hello" })
	condition := meta.FindStatusCondition(site.Status.Conditions, "Ready")
	say.Line("site", site.Finalizers, site.Status.Text, condition.Reason, condition.ObservedGeneration, site.Generation)
	page, run := &corev1.ConfigMap{}, &appsv1.Deployment{}
	until(ctx, user, page, "home", func() bool { return true })
	owner := metav1.GetControllerOf(page)
	say.Line("page", page.Data, owner.Kind, owner.APIVersion, owner.UID == site.UID, *owner.BlockOwnerDeletion)
	until(ctx, user, run, "home", func() bool { return true })
	say.Line("run", *run.Spec.Replicas, run.Spec.Template.Spec.Containers[0].Image, run.Generation)
	// What is lost comes back.
	say.Must("deleting the page", user.Delete(ctx, page, client.Preconditions{UID: &page.UID}))
	lost := page.UID
	page = &corev1.ConfigMap{}
	until(ctx, user, page, "home", func() bool { return page.UID != lost })
	say.Line("page", page.Data)
	// What changes is followed.
	until(ctx, user, site, "home", func() bool {
		site.Spec.Text, site.Spec.Replicas = "changed", 3
		return user.Update(ctx, site) == nil
	})
	until(ctx, user, site, "home", func() bool { return site.Status.Text == "changed" })
	until(ctx, user, page, "home", func() bool { return page.Data["index.html"] == "changed" })
	until(ctx, user, run, "home", func() bool { return *run.Spec.Replicas == 3 })
	say.Line("run", run.Generation)
	// By other ways.
	patched := site.DeepCopyObject().(*Website)
	patched.Labels = map[string]string{"tier": "front"}
	say.Must("patching", user.Patch(ctx, patched, client.MergeFromWithOptions(site, client.MergeFromWithOptimisticLock{})))
	say.Line("patched", patched.Labels, patched.Generation == site.Generation)
	stale := site.DeepCopyObject().(*Website)
	stale.Labels = map[string]string{"tier": "stale"}
	err = user.Patch(ctx, stale, client.MergeFromWithOptions(site, client.MergeFromWithOptimisticLock{}))
	say.Line("stale", apierrors.IsConflict(err))
	err = user.Create(ctx, &Website{ObjectMeta: metav1.ObjectMeta{Name: "bad", Namespace: namespace}, Spec: WebsiteSpec{Text: "x", Replicas: 100}})
	say.Error("refused", err)
	say.Must("a dry run", client.NewDryRunClient(user).Create(ctx, &Website{ObjectMeta: metav1.ObjectMeta{Name: "dry", Namespace: namespace}, Spec: WebsiteSpec{Text: "x"}}))
	say.Error("not there", user.Get(ctx, types.NamespacedName{Namespace: namespace, Name: "dry"}, &Website{}))
	scaleOf(ctx, user, run)
	recorded := &eventsv1.EventList{}
	say.Line("events", await.That(func() bool {
		say.Must("listing events", user.List(ctx, recorded, client.InNamespace(namespace), client.MatchingFields{"reason": "Made"}))
		return len(recorded.Items) > 0
	}))
	say.Line("event", recorded.Items[0].Regarding.Kind, recorded.Items[0].Type, recorded.Items[0].ReportingController)
}

func cached(ctx context.Context, reader client.Client) {
	list := &WebsiteList{}
	say.Line("by text", await.That(func() bool {
		say.Must("listing by an index", reader.List(ctx, list, client.InNamespace(namespace), client.MatchingFields{"spec.text": "changed"}))
		return len(list.Items) == 1
	}))
	say.Must("listing by labels", reader.List(ctx, list, client.MatchingLabels{"tier": "none"}))
	say.Line("by label", len(list.Items))
	partial := &metav1.PartialObjectMetadataList{}
	partial.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	say.Must("listing metadata", reader.List(ctx, partial))
	say.Line("secrets", len(partial.Items))
}

func farewell(ctx context.Context, user client.Client) {
	site, note := &Website{}, &corev1.ConfigMap{}
	site.Name, site.Namespace = "home", namespace
	say.Must("deleting", user.Delete(ctx, site, client.PropagationPolicy(metav1.DeletePropagationForeground)))
	until(ctx, user, note, "home-gone", func() bool { return true })
	for _, it := range []client.Object{&Website{}, &corev1.ConfigMap{}, &appsv1.Deployment{}} {
		say.Line(fmt.Sprintf("gone %T", it), await.That(func() bool {
			return apierrors.IsNotFound(user.Get(ctx, types.NamespacedName{Namespace: namespace, Name: "home"}, it))
		}))
	}
}

func leave(user client.Client) {
	ctx := context.Background()
	say.Must("removing the definition", user.Delete(ctx, websites()))
	say.Must("removing the namespace", user.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
}
