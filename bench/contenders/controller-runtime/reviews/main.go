// Reviews as controller-runtime's users answer them: a typed validator and a typed defaulter, default settings. No other port is listened to.
package main

import (
	"context"
	"errors"
	"os"
	"strconv"

	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

type hooks struct{}

// Default sets a label.
func (hooks) Default(_ context.Context, object *BenchObj) error {
	if object.Labels == nil {
		object.Labels = map[string]string{}
	}
	object.Labels["bench"] = "yes"
	return nil
}

// ValidateCreate denies objects.
func (hooks) ValidateCreate(_ context.Context, object *BenchObj) (admission.Warnings, error) {
	if object.Spec.N < 0 {
		return nil, errors.New("spec.n must not be negative")
	}
	return nil, nil
}

// ValidateUpdate denies the same.
func (it hooks) ValidateUpdate(ctx context.Context, _, object *BenchObj) (admission.Warnings, error) {
	return it.ValidateCreate(ctx, object)
}

// ValidateDelete denies nothing.
func (hooks) ValidateDelete(context.Context, *BenchObj) (admission.Warnings, error) {
	return nil, nil
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
	must(addBenchObjs(scheme))
	port, err := strconv.Atoi(os.Getenv("BENCH_PORT"))
	must(err)
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		Scheme:  scheme,
		Metrics: server.Options{BindAddress: "0"},
		WebhookServer: webhook.NewServer(webhook.Options{
			Host: "127.0.0.1", Port: port, CertDir: os.Getenv("BENCH_CERTIFICATES"),
		}),
	})
	must(err)
	must(ctrl.NewWebhookManagedBy(mgr, &BenchObj{}).WithDefaulter(hooks{}).WithValidator(hooks{}).Complete())
	must(mgr.Start(ctrl.SetupSignalHandler()))
}
