//! Rust types for objects of one kind.
//!
//! This module must not depend on the concrete types.

/// A Rust type for objects of one kind: every type that implements `kube::Resource`, such as those of `k8s-openapi` and those that derive
/// `kube::CustomResource`.
pub trait HasKind {
    /// `apiVersion`
    fn api_version() -> String;
    /// `kind`
    fn kind() -> String;
}
