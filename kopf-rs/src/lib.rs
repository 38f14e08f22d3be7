//! Kubernetes operators from annotated async functions.
