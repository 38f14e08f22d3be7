package main

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	extensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	extensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/scale"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"

	"kopf-rs.test/clients/await"
	"kopf-rs.test/clients/say"
)

var gadgets = schema.GroupVersionResource{Group: "typed.example.com", Version: "v1", Resource: "gadgets"}

// What a handler saw, in order.
func seen(informer cache.SharedIndexInformer, name func(any) string) <-chan string {
	lines := make(chan string, 100)
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(it any) { lines <- "add " + name(it) },
		UpdateFunc: func(_, it any) { lines <- "update " + name(it) },
		DeleteFunc: func(it any) { lines <- "delete " + name(it) },
	})
	say.Must("adding a handler", err)
	return lines
}

func informersOf(client kubernetes.Interface) informers.SharedInformerFactory {
	return informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace), informers.WithTweakListOptions(func(options *metav1.ListOptions) {
		options.LabelSelector = "informed"
	}))
}

func informed(client kubernetes.Interface) {
	maps := client.CoreV1().ConfigMaps(namespace)
	labels := map[string]string{"informed": "1"}
	made, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "before", Labels: labels}}, metav1.CreateOptions{})
	say.Must("creating", err)
	factory := informersOf(client)
	informer, lister := factory.Core().V1().ConfigMaps().Informer(), factory.Core().V1().ConfigMaps().Lister()
	pods := factory.Core().V1().Pods().Informer()
	lines := seen(informer, func(it any) string {
		object := it.(*corev1.ConfigMap)
		return object.Name + " " + object.Data["a"]
	})
	stop := make(chan struct{})
	factory.Start(stop)
	say.Line("synced", cache.WaitForCacheSync(stop, informer.HasSynced, pods.HasSynced))
	say.Line("informed", <-lines)
	_, err = maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "after", Labels: labels}}, metav1.CreateOptions{})
	say.Must("creating", err)
	say.Line("informed", <-lines)
	made.Data = map[string]string{"a": "1"}
	_, err = maps.Update(ctx, made, metav1.UpdateOptions{})
	say.Must("updating", err)
	say.Line("informed", <-lines)
	got, err := lister.ConfigMaps(namespace).Get("before")
	say.Must("reading the cache", err)
	say.Line("cached", got.Data, got.Kind, got.ManagedFields != nil)
	// It leaves the selection.
	_, err = maps.Patch(ctx, "before", types.MergePatchType, []byte(`{"metadata": {"labels": null}}`), metav1.PatchOptions{})
	say.Must("patching", err)
	say.Line("informed", <-lines)
	say.Must("deleting", maps.Delete(ctx, "after", metav1.DeleteOptions{}))
	say.Line("informed", <-lines)
	left, err := lister.List(byLabel("informed"))
	say.Must("listing the cache", err)
	say.Line("left", len(left))
	close(stop)
	factory.Shutdown()
}

func elections(client kubernetes.Interface) {
	began, ended := make(chan string, 10), make(chan string, 10)
	elector := func(name string) context.CancelFunc {
		inner, cancel := context.WithCancel(ctx)
		lock := &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Name: "leader", Namespace: namespace},
			Client:     client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: name},
		}
		go leaderelection.RunOrDie(inner, leaderelection.LeaderElectionConfig{
			Lock: lock, ReleaseOnCancel: true, Name: name,
			LeaseDuration: 4 * time.Second, RenewDeadline: 3 * time.Second, RetryPeriod: 200 * time.Millisecond,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(context.Context) { began <- name },
				OnStoppedLeading: func() { ended <- name },
			},
		})
		return cancel
	}
	first := elector("first")
	say.Line("leads", <-began)
	second := elector("second")
	lease, err := client.CoordinationV1().Leases(namespace).Get(ctx, "leader", metav1.GetOptions{})
	say.Must("reading the lease", err)
	say.Line("lease", lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds, lease.Spec.LeaseTransitions)
	first()
	say.Line("ended", <-ended)
	say.Line("leads", <-began)
	lease, err = client.CoordinationV1().Leases(namespace).Get(ctx, "leader", metav1.GetOptions{})
	say.Must("reading the lease", err)
	say.Line("lease", lease.Spec.HolderIdentity, *lease.Spec.LeaseTransitions > 0)
	second()
	say.Line("ended", <-ended)
}

func recorded(client kubernetes.Interface) {
	subject, err := client.CoreV1().ConfigMaps(namespace).Get(ctx, "one", metav1.GetOptions{})
	say.Must("reading", err)
	old := record.NewBroadcaster()
	old.StartRecordingToSink(&typedcore.EventSinkImpl{Interface: client.CoreV1().Events(namespace)})
	recorder := old.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "typed"})
	for range 3 {
		recorder.Eventf(subject, "Normal", "Repeated", "it happened to %s", subject.Name)
	}
	say.Line("counted", await.That(func() bool {
		list, err := client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "reason=Repeated,involvedObject.name=one"})
		say.Must("listing events", err)
		return len(list.Items) == 1 && list.Items[0].Count == 3
	}))
	old.Shutdown()
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	stop := make(chan struct{})
	broadcaster.StartRecordingToSink(stop)
	modern := broadcaster.NewRecorder(scheme.Scheme, "typed")
	modern.Eventf(subject, nil, "Warning", "Modern", "Testing", "note %d", 1)
	var found *eventsv1.Event
	say.Line("recorded", await.That(func() bool {
		list, err := client.EventsV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "reason=Modern"})
		say.Must("listing events", err)
		if len(list.Items) > 0 {
			found = &list.Items[0]
		}
		return found != nil
	}))
	say.Line("event", found.Type, found.Action, found.Note, found.ReportingController, found.Regarding.Kind, found.EventTime.IsZero())
	// The same through the other version.
	again, err := client.CoreV1().Events(namespace).Get(ctx, found.Name, metav1.GetOptions{})
	say.Must("reading an event", err)
	say.Line("event", again.Type, again.Action, again.Message, again.ReportingController, again.InvolvedObject.Kind)
	close(stop)
	broadcaster.Shutdown()
}

func definitions(config *rest.Config) {
	client := extensions.NewForConfigOrDie(config)
	yes, minimum := true, 1.0
	definition := &extensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "gadgets.typed.example.com"},
		Spec: extensionsv1.CustomResourceDefinitionSpec{
			Group: gadgets.Group, Scope: extensionsv1.NamespaceScoped,
			Names: extensionsv1.CustomResourceDefinitionNames{Plural: "gadgets", Kind: "Gadget"},
			Versions: []extensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Subresources: &extensionsv1.CustomResourceSubresources{Status: &extensionsv1.CustomResourceSubresourceStatus{}, Scale: &extensionsv1.CustomResourceSubresourceScale{SpecReplicasPath: ".spec.replicas", StatusReplicasPath: ".status.replicas"}},
				Schema: &extensionsv1.CustomResourceValidation{OpenAPIV3Schema: &extensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]extensionsv1.JSONSchemaProps{
					"spec": {Type: "object", Required: []string{"size"}, Properties: map[string]extensionsv1.JSONSchemaProps{
						"size":     {Type: "integer", Minimum: &minimum},
						"replicas": {Type: "integer", Default: &extensionsv1.JSON{Raw: []byte("2")}},
					}},
					"status": {Type: "object", XPreserveUnknownFields: &yes},
				}}},
			}},
		},
	}
	made, err := client.ApiextensionsV1().CustomResourceDefinitions().Create(ctx, definition, metav1.CreateOptions{})
	say.Must("defining", err)
	say.Line("defined", made.Spec.Names, made.Spec.Conversion)
	say.Line("established", await.That(func() bool {
		it, err := client.ApiextensionsV1().CustomResourceDefinitions().Get(ctx, made.Name, metav1.GetOptions{})
		say.Must("reading a definition", err)
		for _, condition := range it.Status.Conditions {
			if condition.Type == extensionsv1.Established && condition.Status == extensionsv1.ConditionTrue {
				return true
			}
		}
		return false
	}))
	list, err := client.ApiextensionsV1().CustomResourceDefinitions().List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + made.Name})
	say.Must("listing definitions", err)
	say.Line("listed", len(list.Items))
}

func gadget(name string, size int64) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "typed.example.com/v1", "kind": "Gadget",
		"metadata": map[string]any{"name": name, "namespace": namespace},
		"spec":     map[string]any{"size": size},
	}}
}

func dynamics(config *rest.Config) {
	client := dynamic.NewForConfigOrDie(config)
	things := client.Resource(gadgets).Namespace(namespace)
	var made *unstructured.Unstructured
	say.Line("served", await.That(func() bool {
		it, err := things.Create(ctx, gadget("a", 1), metav1.CreateOptions{})
		made = it
		return err == nil
	}))
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(client, 0, namespace, nil)
	lines := seen(factory.ForResource(gadgets).Informer(), func(it any) string {
		object := it.(*unstructured.Unstructured)
		phase, _, _ := unstructured.NestedString(object.Object, "status", "phase")
		return object.GetName() + " " + phase
	})
	stop := make(chan struct{})
	factory.Start(stop)
	factory.WaitForCacheSync(stop)
	say.Line("informed", <-lines)
	say.Line("made", made.Object["spec"], made.GetGeneration())
	say.Must("setting", unstructured.SetNestedField(made.Object, "Ready", "status", "phase"))
	made, err := things.UpdateStatus(ctx, made, metav1.UpdateOptions{})
	say.Must("updating the status", err)
	say.Line("status", made.Object["status"], made.GetGeneration())
	say.Line("informed", <-lines)
	_, err = things.Create(ctx, gadget("b", 0), metav1.CreateOptions{})
	say.Error("invalid", err)
	applied, err := things.Apply(ctx, "c", gadget("c", 3), metav1.ApplyOptions{FieldManager: "dynamic"})
	say.Must("applying", err)
	say.Line("applied", applied.Object["spec"])
	say.Line("informed", <-lines)

	discovery := kubernetes.NewForConfigOrDie(config).Discovery()
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discovery))
	var mapping any
	say.Line("mapped", await.That(func() bool {
		mapper.Reset()
		found, err := mapper.RESTMapping(schema.GroupKind{Group: gadgets.Group, Kind: "Gadget"})
		mapping = found
		return err == nil
	}))
	_ = mapping
	scales, err := scale.NewForConfig(config, mapper, dynamic.LegacyAPIPathResolverFunc, scale.NewDiscoveryScaleKindResolver(discovery))
	say.Must("a client of scales", err)
	it, err := scales.Scales(namespace).Get(ctx, gadgets.GroupResource(), "a", metav1.GetOptions{})
	say.Must("reading a scale", err)
	say.Line("scale", it.Spec)
	it.Spec.Replicas = 5
	it, err = scales.Scales(namespace).Update(ctx, gadgets.GroupResource(), it, metav1.UpdateOptions{})
	say.Must("scaling", err)
	say.Line("scaled", it.Spec)
	say.Line("informed", <-lines)

	partial := metadata.NewForConfigOrDie(config).Resource(gadgets).Namespace(namespace)
	metas, err := partial.List(ctx, metav1.ListOptions{})
	say.Must("listing metadata", err)
	for _, meta := range metas.Items {
		say.Line("meta", meta.Name, meta.Generation)
	}
	open, err := partial.Watch(ctx, metav1.ListOptions{ResourceVersion: metas.ResourceVersion})
	say.Must("watching metadata", err)
	say.Must("deleting", things.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "metadata.name=c"}))
	event := <-open.ResultChan()
	say.Line("event", event.Type, event.Object.(*metav1.PartialObjectMetadata).Name)
	open.Stop()
	say.Line("informed", <-lines)
	close(stop)
	typed := &struct {
		Spec struct {
			Size     int64 `json:"size"`
			Replicas int64 `json:"replicas"`
		} `json:"spec"`
	}{}
	got, err := things.Get(ctx, "a", metav1.GetOptions{})
	say.Must("reading", err)
	say.Must("converting", runtime.DefaultUnstructuredConverter.FromUnstructured(got.Object, typed))
	say.Line("typed", typed)
	say.Must("removing the definition", client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}).Delete(ctx, "gadgets.typed.example.com", metav1.DeleteOptions{}))
	say.Line("unserved", await.That(func() bool {
		_, err := things.List(ctx, metav1.ListOptions{})
		return err != nil
	}))
}
