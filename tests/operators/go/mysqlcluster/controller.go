// Database servers for each MySQLCluster, as kubebuilder's users write it.
package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/yaml"
)

const script = `curl --fail --silent --show-error "$BACKUP" | mysql --host="$HOST" --port="$PORT" --user=root`

// MySQLClusterReconciler keeps the servers in shape.
type MySQLClusterReconciler struct {
	client.Client
	Scheme *runtime.Scheme
}

// Register registers the kind, from the definition that controller-gen has made.
func Register(ctx context.Context, c client.Client, definition []byte) error {
	var wanted apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal(definition, &wanted); err != nil {
		return err
	}
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: wanted.Name}}
	if _, err := controllerutil.CreateOrUpdate(ctx, c, crd, func() error {
		crd.Spec = wanted.Spec
		return nil
	}); err != nil {
		return err
	}
	return wait.PollUntilContextTimeout(ctx, time.Second, time.Minute, true, func(ctx context.Context) (bool, error) {
		if err := c.Get(ctx, client.ObjectKeyFromObject(crd), crd); err != nil {
			return false, err
		}
		for _, condition := range crd.Status.Conditions {
			if condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue {
				return true, nil
			}
		}
		return false, nil
	})
}

// Reconcile lets the servers be as the object wants them, and fills them once they are ready.
func (r *MySQLClusterReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var cluster MySQLCluster
	if err := r.Get(ctx, req.NamespacedName, &cluster); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !cluster.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	before := cluster.DeepCopy()
	err := r.keepInShape(ctx, &cluster)
	cluster.Status.ObservedGeneration = cluster.Generation
	if !equality.Semantic.DeepEqual(before.Status, cluster.Status) {
		if err := r.Status().Update(ctx, &cluster); err != nil {
			return ctrl.Result{}, err
		}
	}
	return ctrl.Result{}, err
}

func (r *MySQLClusterReconciler) keepInShape(ctx context.Context, cluster *MySQLCluster) error {
	if err := r.keepSecret(ctx, cluster); err != nil {
		return err
	}
	if err := r.keepService(ctx, cluster); err != nil {
		return err
	}
	servers, err := r.keepServers(ctx, cluster)
	if err != nil {
		return err
	}
	ready := servers.Status.ReadyReplicas
	cluster.Status.ReadyReplicas = &ready
	if ready < cluster.Spec.Replicas {
		message := fmt.Sprintf("%d of %d servers are ready", ready, cluster.Spec.Replicas)
		setCondition(cluster, "Ready", metav1.ConditionFalse, "TooFewServers", message)
		return nil
	}
	url := cluster.Spec.FromBackup
	if url != "" && !meta.IsStatusConditionTrue(cluster.Status.Conditions, "Restored") {
		job, err := r.keepRestoration(ctx, cluster)
		if err != nil {
			return err
		}
		if job.Status.Succeeded != 1 {
			reason := "Restoring"
			if job.Status.Failed > 0 {
				reason = "RestoreFailed"
			}
			setCondition(cluster, "Restored", metav1.ConditionFalse, reason, url)
			setCondition(cluster, "Ready", metav1.ConditionFalse, reason, url)
			return nil
		}
		setCondition(cluster, "Restored", metav1.ConditionTrue, "Restored", url)
	}
	setCondition(cluster, "Ready", metav1.ConditionTrue, "AllServers", "")
	return nil
}

func (r *MySQLClusterReconciler) keepSecret(ctx context.Context, cluster *MySQLCluster) error {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: cluster.Spec.Secret, Namespace: cluster.Namespace}}
	err := r.Get(ctx, client.ObjectKeyFromObject(secret), secret)
	if !apierrors.IsNotFound(err) {
		return err
	}
	if cluster.Status.ReadyReplicas != nil {
		setCondition(cluster, "Ready", metav1.ConditionFalse, "PasswordLost", secret.Name)
		return reconcile.TerminalError(fmt.Errorf("the Secret %s is gone, and with it the password", secret.Name))
	}
	secret.StringData = map[string]string{"password": rand.Text()}
	if err := controllerutil.SetControllerReference(cluster, secret, r.Scheme); err != nil {
		return err
	}
	return r.Create(ctx, secret)
}

func (r *MySQLClusterReconciler) keepService(ctx context.Context, cluster *MySQLCluster) error {
	service := &corev1.Service{ObjectMeta: named(cluster, "")}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, service, func() error {
		service.Spec.ClusterIP = corev1.ClusterIPNone
		service.Spec.Selector = map[string]string{"app": cluster.Name}
		service.Spec.Ports = []corev1.ServicePort{{
			Name: "mysql", Port: cluster.Spec.Port, TargetPort: intstr.FromInt32(cluster.Spec.Port), Protocol: corev1.ProtocolTCP,
		}}
		return controllerutil.SetControllerReference(cluster, service, r.Scheme)
	})
	return err
}

func (r *MySQLClusterReconciler) keepServers(ctx context.Context, cluster *MySQLCluster) (*appsv1.StatefulSet, error) {
	storage, err := resource.ParseQuantity(cluster.Spec.Storage)
	if err != nil {
		return nil, reconcile.TerminalError(err)
	}
	servers := &appsv1.StatefulSet{ObjectMeta: named(cluster, "")}
	_, err = controllerutil.CreateOrUpdate(ctx, r.Client, servers, func() error {
		labels := map[string]string{"app": cluster.Name}
		if servers.CreationTimestamp.IsZero() {
			servers.Spec.ServiceName = cluster.Name
			servers.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
			servers.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{
				ObjectMeta: metav1.ObjectMeta{Name: "data"},
				Spec: corev1.PersistentVolumeClaimSpec{
					AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Resources: corev1.VolumeResourceRequirements{
						Requests: corev1.ResourceList{corev1.ResourceStorage: storage},
					},
				},
			}}
		}
		servers.Spec.Replicas = &cluster.Spec.Replicas
		servers.Spec.Template.Labels = labels
		containers := &servers.Spec.Template.Spec.Containers
		if len(*containers) == 0 {
			*containers = []corev1.Container{{Name: "mysql"}}
		}
		container := &(*containers)[0]
		container.Image = cluster.Spec.Image
		container.Args = []string{fmt.Sprintf("--port=%d", cluster.Spec.Port)}
		container.Env = []corev1.EnvVar{passwordAs("MYSQL_ROOT_PASSWORD", cluster)}
		container.Ports = []corev1.ContainerPort{{Name: "mysql", ContainerPort: cluster.Spec.Port, Protocol: corev1.ProtocolTCP}}
		if container.ReadinessProbe == nil {
			container.ReadinessProbe = &corev1.Probe{}
		}
		container.ReadinessProbe.TCPSocket = &corev1.TCPSocketAction{Port: intstr.FromString("mysql")}
		container.VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/var/lib/mysql"}}
		return controllerutil.SetControllerReference(cluster, servers, r.Scheme)
	})
	return servers, err
}

// Fills the first server. A Job cannot be changed once it is there.
func (r *MySQLClusterReconciler) keepRestoration(ctx context.Context, cluster *MySQLCluster) (*batchv1.Job, error) {
	job := &batchv1.Job{ObjectMeta: named(cluster, "-restore")}
	err := r.Get(ctx, client.ObjectKeyFromObject(job), job)
	if !apierrors.IsNotFound(err) {
		return job, err
	}
	tries := int32(3)
	job.Spec = batchv1.JobSpec{
		BackoffLimit: &tries,
		Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever,
			Containers: []corev1.Container{{
				Name:    "restore",
				Image:   cluster.Spec.Image,
				Command: []string{"bash", "-o", "pipefail", "-c", script},
				Env: []corev1.EnvVar{
					{Name: "BACKUP", Value: cluster.Spec.FromBackup},
					{Name: "HOST", Value: fmt.Sprintf("%s-0.%s", cluster.Name, cluster.Name)},
					{Name: "PORT", Value: fmt.Sprint(cluster.Spec.Port)},
					passwordAs("MYSQL_PWD", cluster),
				},
			}},
		}},
	}
	if err := controllerutil.SetControllerReference(cluster, job, r.Scheme); err != nil {
		return nil, err
	}
	return job, r.Create(ctx, job)
}

func named(cluster *MySQLCluster, suffix string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: cluster.Name + suffix, Namespace: cluster.Namespace}
}

func passwordAs(variable string, cluster *MySQLCluster) corev1.EnvVar {
	key := corev1.SecretKeySelector{Key: "password"}
	key.Name = cluster.Spec.Secret
	return corev1.EnvVar{Name: variable, ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &key}}
}

func setCondition(cluster *MySQLCluster, kind string, status metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&cluster.Status.Conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: cluster.Generation,
	})
}

// SetupWithManager says what calls Reconcile.
func (r *MySQLClusterReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&MySQLCluster{}).
		Owns(&corev1.Secret{}).
		Owns(&corev1.Service{}).
		Owns(&appsv1.StatefulSet{}).
		Owns(&batchv1.Job{}).
		Complete(r)
}
