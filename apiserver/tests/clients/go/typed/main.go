// Client-go as Go programs use it: typed clients over protobuf, informers, leader election, dynamic and metadata clients, discovery.
// What it sees it prints; the server is that of $KUBECONFIG.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	coreapply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"

	"kopf-rs.test/clients/await"
	"kopf-rs.test/clients/say"
)

const namespace = "go-typed"

var ctx = context.Background()

func main() {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	config := mustConfig()
	// Informers and dynamic clients ask a lot within a second.
	config.QPS, config.Burst = 200, 400
	binary := rest.CopyConfig(config)
	binary.ContentType = "application/vnd.kubernetes.protobuf"
	binary.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	client := kubernetes.NewForConfigOrDie(binary)

	_, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	say.Must("creating the namespace", err)
	discovered(client)
	objects(client)
	refusals(client)
	kinds(client)
	patches(client)
	subresources(client)
	deletions(client)
	watches(client)
	conflicts(client)
	rights(client)
	informed(client)
	elections(client)
	recorded(client)
	definitions(config)
	dynamics(config)
	err = client.CoreV1().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{})
	say.Must("deleting the namespace", err)
}

func discovered(client kubernetes.Interface) {
	version, err := client.Discovery().ServerVersion()
	say.Must("asking for the version", err)
	say.Line("version", version.Major, version.Minor)
	groups, err := client.Discovery().ServerGroups()
	say.Must("asking for groups", err)
	known := map[string]string{}
	for _, group := range groups.Groups {
		known[group.Name] = group.PreferredVersion.GroupVersion
	}
	for _, name := range []string{"", "apps", "batch", "coordination.k8s.io", "rbac.authorization.k8s.io", "apiextensions.k8s.io"} {
		say.Line("group", name, known[name])
	}
	core, err := client.Discovery().ServerResourcesForGroupVersion("v1")
	say.Must("asking for resources", err)
	var names []string
	for _, it := range core.APIResources {
		// Subresources that need nodes, or are no objects, are not compared.
		if strings.Contains(it.Name, "/") && !strings.HasSuffix(it.Name, "/status") && !strings.HasSuffix(it.Name, "/scale") || it.Name == "bindings" {
			continue
		}
		names = append(names, it.Name+" "+it.Kind+" "+fmt.Sprint(it.Verbs))
	}
	sort.Strings(names)
	for _, name := range names {
		say.Line("resource", name)
	}
	for _, path := range []string{"/healthz", "/readyz", "/livez"} {
		text, err := client.Discovery().RESTClient().Get().AbsPath(path).DoRaw(ctx)
		say.Must(path, err)
		say.Line(path, string(text))
	}
}

func objects(client kubernetes.Interface) {
	maps := client.CoreV1().ConfigMaps(namespace)
	made, err := maps.Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "one", Labels: map[string]string{"app": "x"}, Annotations: map[string]string{"n": "\u00e4\n\"q\""}},
		Data:       map[string]string{"a": "1"},
		BinaryData: map[string][]byte{"bytes": {0, 1, 2, 255}},
	}, metav1.CreateOptions{FieldManager: "typed"})
	say.Must("creating a map", err)
	say.Line("made", made.Name, made.Labels, made.Annotations, made.Data, made.BinaryData, made.UID != "", made.ResourceVersion != "", made.CreationTimestamp.IsZero(), made.ManagedFields[0].Manager)
	made.Data["b"] = "2"
	changed, err := maps.Update(ctx, made, metav1.UpdateOptions{})
	say.Must("updating a map", err)
	say.Line("changed", changed.Data, changed.ResourceVersion != made.ResourceVersion)
	same, err := maps.Update(ctx, changed, metav1.UpdateOptions{})
	say.Must("updating without a change", err)
	say.Line("same", same.ResourceVersion == changed.ResourceVersion)
	dry, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "dry-"}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	say.Must("a dry run", err)
	say.Line("dry", len(dry.Name), dry.UID != "")
	for at := range 7 {
		_, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("many-", at), Labels: map[string]string{"many": strconv.Itoa(at % 2)}}}, metav1.CreateOptions{})
		say.Must("creating many", err)
	}
	var token string
	for {
		page, err := maps.List(ctx, metav1.ListOptions{LabelSelector: "many", Limit: 3, Continue: token})
		say.Must("listing a page", err)
		var names []string
		for _, item := range page.Items {
			names = append(names, item.Name)
		}
		say.Line("page", names, page.RemainingItemCount, page.Continue != "")
		if token = page.Continue; token == "" {
			break
		}
	}
	list, err := maps.List(ctx, metav1.ListOptions{LabelSelector: "many in (1)", ResourceVersion: "0"})
	say.Must("listing by labels", err)
	say.Line("odd", len(list.Items))
	list, err = maps.List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=one"})
	say.Must("listing by fields", err)
	say.Line("by name", len(list.Items), list.Items[0].Data)
}

func refusals(client kubernetes.Interface) {
	maps := client.CoreV1().ConfigMaps(namespace)
	_, err := maps.Get(ctx, "none", metav1.GetOptions{})
	say.Error("absent", err)
	_, err = maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "one"}}, metav1.CreateOptions{})
	say.Error("twice", err)
	_, err = maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "Bad_Name", Labels: map[string]string{"a b": "c d"}}}, metav1.CreateOptions{})
	say.Error("invalid", err)
	_, err = maps.Update(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "one", ResourceVersion: "1"}}, metav1.UpdateOptions{})
	say.Error("outdated", err)
	_, err = maps.Update(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "one", UID: "other"}}, metav1.UpdateOptions{})
	say.Error("another", err)
	_, err = maps.List(ctx, metav1.ListOptions{FieldSelector: "spec.none=1"})
	say.Error("selector", err)
	_, err = maps.List(ctx, metav1.ListOptions{Continue: "nonsense"})
	say.Error("token", err)
	_, err = client.CoreV1().ConfigMaps("nowhere").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, metav1.CreateOptions{})
	say.Error("nowhere", err)
	uid := types.UID("other")
	err = maps.Delete(ctx, "one", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	say.Line("precondition", err != nil)
	wrong := rest.CopyConfig(mustConfig())
	wrong.BearerToken, wrong.BearerTokenFile = "wrong", ""
	_, err = kubernetes.NewForConfigOrDie(wrong).CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	say.Error("stranger", err)
}

func mustConfig() *rest.Config {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	say.Must("reading the kubeconfig", err)
	return config
}

func kinds(client kubernetes.Interface) {
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "x"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "main", Image: "nginx:1",
			Ports:         []corev1.ContainerPort{{ContainerPort: 80}},
			Resources:     corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse("0.5"), "memory": resource.MustParse("1Gi")}},
			LivenessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(80)}}},
			Env:           []corev1.EnvVar{{Name: "NODE", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.nodeName"}}}},
		}}},
	}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}
	meta := metav1.ObjectMeta{Name: "x"}
	percent := intstr.FromString("25%")

	pod, err := client.CoreV1().Pods(namespace).Create(ctx, &corev1.Pod{ObjectMeta: meta, Spec: template.Spec}, metav1.CreateOptions{})
	say.Must("a pod", err)
	pod.Spec.Tolerations = nil
	say.Line("pod", pod.Spec.RestartPolicy, pod.Spec.Containers[0].Resources.Limits, pod.Status.Phase, pod.Status.QOSClass)
	deployment, err := client.AppsV1().Deployments(namespace).Create(ctx, &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Selector: selector, Template: template,
		Strategy: appsv1.DeploymentStrategy{RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &percent}}}}, metav1.CreateOptions{})
	say.Must("a deployment", err)
	say.Line("deployment", deployment.Spec.Replicas, deployment.Spec.Strategy, deployment.Status, deployment.Generation)
	set, err := client.AppsV1().StatefulSets(namespace).Create(ctx, &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Selector: selector, Template: template, ServiceName: "x"}}, metav1.CreateOptions{})
	say.Must("a stateful set", err)
	say.Line("stateful set", set.Spec.Replicas, set.Spec.UpdateStrategy, set.Spec.PodManagementPolicy, set.Status)
	daemons, err := client.AppsV1().DaemonSets(namespace).Create(ctx, &appsv1.DaemonSet{ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{Selector: selector, Template: template}}, metav1.CreateOptions{})
	say.Must("a daemon set", err)
	say.Line("daemon set", daemons.Spec.UpdateStrategy, daemons.Spec.RevisionHistoryLimit, daemons.Status)
	once := *template.DeepCopy()
	once.Spec.RestartPolicy = corev1.RestartPolicyNever
	cron, err := client.BatchV1().CronJobs(namespace).Create(ctx, &batchv1.CronJob{ObjectMeta: meta, Spec: batchv1.CronJobSpec{Schedule: "* * * * *", JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: once}}}}, metav1.CreateOptions{})
	say.Must("a cron job", err)
	say.Line("cron job", cron.Spec.Schedule, cron.Spec.ConcurrencyPolicy, cron.Spec.SuccessfulJobsHistoryLimit, cron.Status)
	service, err := client.CoreV1().Services(namespace).Create(ctx, &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{ClusterIP: "None", Selector: selector.MatchLabels, Ports: []corev1.ServicePort{{Port: 80}}}}, metav1.CreateOptions{})
	say.Must("a service", err)
	say.Line("service", service.Spec.ClusterIP, service.Spec.Type, service.Spec.Ports, service.Status)
	prefix := networkingv1.PathTypePrefix
	ingress, err := client.NetworkingV1().Ingresses(namespace).Create(ctx, &networkingv1.Ingress{ObjectMeta: meta, Spec: networkingv1.IngressSpec{Rules: []networkingv1.IngressRule{{Host: "a.com", IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
		Paths: []networkingv1.HTTPIngressPath{{Path: "/", PathType: &prefix, Backend: networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "x", Port: networkingv1.ServiceBackendPort{Number: 80}}}}}}}}}}}, metav1.CreateOptions{})
	say.Must("an ingress", err)
	say.Line("ingress", ingress.Spec)
	budget, err := client.PolicyV1().PodDisruptionBudgets(namespace).Create(ctx, &policyv1.PodDisruptionBudget{ObjectMeta: meta, Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: &percent, Selector: selector}}, metav1.CreateOptions{})
	say.Must("a budget", err)
	say.Line("budget", budget.Spec)
	secret, err := client.CoreV1().Secrets(namespace).Create(ctx, &corev1.Secret{ObjectMeta: meta, StringData: map[string]string{"a": "b"}, Data: map[string][]byte{"c": {1}}}, metav1.CreateOptions{})
	say.Must("a secret", err)
	say.Line("secret", secret.Data, secret.StringData, secret.Type)
	claim, err := client.CoreV1().PersistentVolumeClaims(namespace).Create(ctx, &corev1.PersistentVolumeClaim{ObjectMeta: meta, Spec: corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{"ReadWriteOnce"}, Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse("1.5Gi")}}}}, metav1.CreateOptions{})
	say.Must("a claim", err)
	say.Line("claim", claim.Spec.Resources, claim.Status)
	role, err := client.RbacV1().Roles(namespace).Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}}}}, metav1.CreateOptions{})
	say.Must("a role", err)
	say.Line("role", role.Rules)
}

func patches(client kubernetes.Interface) {
	maps := client.CoreV1().ConfigMaps(namespace)
	for _, patch := range []struct {
		kind types.PatchType
		text string
	}{
		{types.MergePatchType, `{"data": {"a": null, "m": "1"}}`},
		{types.StrategicMergePatchType, `{"data": {"s": "1"}}`},
		{types.JSONPatchType, `[{"op": "add", "path": "/data/j", "value": "1"}]`},
		{types.ApplyYAMLPatchType, `{"apiVersion": "v1", "kind": "ConfigMap", "data": {"y": "1"}}`},
	} {
		got, err := maps.Patch(ctx, "one", patch.kind, []byte(patch.text), metav1.PatchOptions{FieldManager: "patcher"})
		say.Must(string(patch.kind), err)
		say.Line("patched", patch.kind, got.Data)
	}
	_, err := maps.Patch(ctx, "one", types.JSONPatchType, []byte(`[{"op": "test", "path": "/data/j", "value": "2"}]`), metav1.PatchOptions{})
	say.Error("failed test", err)
	applied := coreapply.ConfigMap("applied", namespace).WithData(map[string]string{"a": "1"}).WithLabels(map[string]string{"l": "1"})
	got, err := maps.Apply(ctx, applied, metav1.ApplyOptions{FieldManager: "first"})
	say.Must("applying", err)
	say.Line("applied", got.Data, got.ManagedFields[0].Manager, got.ManagedFields[0].Operation, got.ManagedFields[0].FieldsV1)
	_, err = maps.Apply(ctx, coreapply.ConfigMap("applied", namespace).WithData(map[string]string{"a": "2"}), metav1.ApplyOptions{FieldManager: "second"})
	say.Error("conflict", err)
	got, err = maps.Apply(ctx, coreapply.ConfigMap("applied", namespace).WithData(map[string]string{"a": "2"}), metav1.ApplyOptions{FieldManager: "second", Force: true})
	say.Must("forcing", err)
	say.Line("forced", got.Data, len(got.ManagedFields))
	extracted, err := coreapply.ExtractConfigMap(got, "first")
	say.Must("extracting", err)
	say.Line("extracted", extracted)
}

func subresources(client kubernetes.Interface) {
	deployments := client.AppsV1().Deployments(namespace)
	scale, err := deployments.GetScale(ctx, "x", metav1.GetOptions{})
	say.Must("reading the scale", err)
	say.Line("scale", scale.Spec, scale.Status)
	scale.Spec.Replicas = 4
	scale, err = deployments.UpdateScale(ctx, "x", scale, metav1.UpdateOptions{})
	say.Must("scaling", err)
	say.Line("scaled", scale.Spec)
	_, err = deployments.UpdateScale(ctx, "x", &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Spec: autoscalingv1.ScaleSpec{Replicas: -1}}, metav1.UpdateOptions{})
	say.Error("scaled below nothing", err)
	deployment, err := deployments.Get(ctx, "x", metav1.GetOptions{})
	say.Must("reading", err)
	deployment.Status.Replicas = 4
	deployment.Spec.Paused = true
	deployment, err = deployments.UpdateStatus(ctx, deployment, metav1.UpdateOptions{})
	say.Must("updating the status", err)
	say.Line("status", deployment.Status.Replicas, deployment.Spec.Paused, *deployment.Spec.Replicas, deployment.Generation)
	pod, err := client.CoreV1().Pods(namespace).Patch(ctx, "x", types.StrategicMergePatchType, []byte(`{"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}`), metav1.PatchOptions{}, "status")
	say.Must("patching the status", err)
	say.Line("pod", pod.Status.Phase, len(pod.Status.Conditions))
}

func deletions(client kubernetes.Interface) {
	maps := client.CoreV1().ConfigMaps(namespace)
	err := maps.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "many=1"})
	say.Must("deleting a collection", err)
	list, err := maps.List(ctx, metav1.ListOptions{LabelSelector: "many"})
	say.Must("listing", err)
	say.Line("left", len(list.Items))
	parent, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "parent"}}, metav1.CreateOptions{})
	say.Must("a parent", err)
	controller := true
	_, err = maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "child", OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "parent", UID: parent.UID, Controller: &controller, BlockOwnerDeletion: &controller}}}}, metav1.CreateOptions{})
	say.Must("a child", err)
	foreground := metav1.DeletePropagationForeground
	err = maps.Delete(ctx, "parent", metav1.DeleteOptions{PropagationPolicy: &foreground, Preconditions: &metav1.Preconditions{UID: &parent.UID}})
	say.Must("deleting the parent", err)
	for _, name := range []string{"child", "parent"} {
		say.Line("gone", name, await.That(func() bool {
			_, err := maps.Get(ctx, name, metav1.GetOptions{})
			return err != nil
		}))
	}
	grace := int64(0)
	err = client.CoreV1().Pods(namespace).Delete(ctx, "x", metav1.DeleteOptions{GracePeriodSeconds: &grace})
	say.Must("deleting a pod", err)
	_, err = client.CoreV1().Pods(namespace).Get(ctx, "x", metav1.GetOptions{})
	say.Error("no pod", err)
}

func watches(client kubernetes.Interface) {
	maps := client.CoreV1().ConfigMaps(namespace)
	begin := true
	open, err := maps.Watch(ctx, metav1.ListOptions{LabelSelector: "watched", SendInitialEvents: &begin, AllowWatchBookmarks: true, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan})
	say.Must("watching", err)
	map1, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "watched", Labels: map[string]string{"watched": "1"}}}, metav1.CreateOptions{})
	say.Must("creating", err)
	map1.Data = map[string]string{"a": "1"}
	_, err = maps.Update(ctx, map1, metav1.UpdateOptions{})
	say.Must("updating", err)
	say.Must("deleting", maps.Delete(ctx, "watched", metav1.DeleteOptions{}))
	for event := range open.ResultChan() {
		it := event.Object.(*corev1.ConfigMap)
		// Other bookmarks come when the server sees fit.
		if event.Type == watch.Bookmark && it.Annotations == nil {
			continue
		}
		say.Line("event", event.Type, it.Name, it.Data, it.Annotations)
		if event.Type == watch.Deleted {
			break
		}
	}
	open.Stop()
	seconds := int64(1)
	short, err := maps.Watch(ctx, metav1.ListOptions{TimeoutSeconds: &seconds, LabelSelector: "none"})
	say.Must("watching for a second", err)
	_, more := <-short.ResultChan()
	say.Line("after a second", more)
	_, err = maps.Watch(ctx, metav1.ListOptions{ResourceVersion: "nonsense"})
	say.Error("from nowhere", err)
}

func conflicts(client kubernetes.Interface) {
	maps := client.CoreV1().ConfigMaps(namespace)
	_, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "counter"}, Data: map[string]string{"n": "0"}}, metav1.CreateOptions{})
	say.Must("a counter", err)
	increment := func() error {
		counter, err := maps.Get(ctx, "counter", metav1.GetOptions{})
		if err != nil {
			return err
		}
		number, _ := strconv.Atoi(counter.Data["n"])
		counter.Data["n"] = strconv.Itoa(number + 1)
		_, err = maps.Update(ctx, counter, metav1.UpdateOptions{})
		return err
	}
	patient := wait.Backoff{Steps: 100, Duration: 10 * time.Millisecond, Factor: 1.1, Jitter: 0.5}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 5 {
				say.Must("counting", retry.RetryOnConflict(patient, increment))
			}
		})
	}
	all.Wait()
	counter, err := maps.Get(ctx, "counter", metav1.GetOptions{})
	say.Must("reading the counter", err)
	say.Line("counted", counter.Data)
}

func rights(client kubernetes.Interface) {
	review, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "get", Resource: "pods"}}}, metav1.CreateOptions{})
	say.Must("asking for rights", err)
	say.Line("rights", review.Status.Allowed)
	_, err = client.CoreV1().ServiceAccounts(namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "bob"}}, metav1.CreateOptions{})
	say.Must("an account", err)
	token, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, "bob", &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{"a"}}}, metav1.CreateOptions{})
	if err != nil {
		say.Error("token", err)
		return
	}
	say.Line("token", token.Spec.Audiences, *token.Spec.ExpirationSeconds, len(token.Status.Token) > 100)
}

func byLabel(text string) labels.Selector {
	selector, err := labels.Parse(text)
	say.Must("parsing a selector", err)
	return selector
}
