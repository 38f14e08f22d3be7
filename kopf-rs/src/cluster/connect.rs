//! Finding the cluster: a kubeconfig, a context, or the service account of the Pod.
