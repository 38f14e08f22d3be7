//! Asks the API server about the permissions of the operator's account.
//!
//! These requests are permitted to every authenticated account, unless an administrator has withdrawn that. This module must not depend on
//! which permissions are needed.

use http::Method;
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::cluster::error::{Asked, ClusterError};
use crate::cluster::read::value;
use crate::cluster::request::{Call, JSON};
use crate::object::granted::{GrantedRule, Question};
use crate::object::resource::Resource;

/// In place of a namespace. No namespace can have this name, so no role in a namespace adds rules to those of the whole cluster.
const NOWHERE: &str = "kopf-rs:cluster-wide";

/// The rules of an account in one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReviewedRules {
    pub(crate) rules: Vec<GrantedRule>,
    /// False if the server cannot list all rules, for example because another program authorizes requests, too.
    pub(crate) are_complete: bool,
}

impl Cluster {
    /// Returns the rules of the operator's account in a namespace, or those in the whole cluster.
    pub(crate) async fn reviewed_rules(
        &self,
        namespace: Option<&str>,
    ) -> Result<ReviewedRules, ClusterError> {
        let spec = json!({"namespace": namespace.unwrap_or(NOWHERE)});
        let review = self.review("authorization.k8s.io", "SelfSubjectRulesReview", &spec).await?;
        let status = &review["status"];
        let rules = status["resourceRules"].as_array().into_iter().flatten();
        Ok(ReviewedRules {
            rules: rules.map(GrantedRule::of).collect(),
            are_complete: status["incomplete"] != true,
        })
    }

    /// Returns whether the operator's account may send this request.
    pub(crate) async fn is_granted(&self, question: &Question<'_>) -> Result<bool, ClusterError> {
        let (resource, subresource) = question.resource.split_once('/').unwrap_or((question.resource, ""));
        let spec = json!({"resourceAttributes": {
            "namespace": question.namespace.unwrap_or_default(), "verb": question.verb, "group": question.group,
            "resource": resource, "subresource": subresource, "name": question.name.unwrap_or_default(),
        }});
        let review = self.review("authorization.k8s.io", "SelfSubjectAccessReview", &spec).await?;
        Ok(review["status"]["allowed"] == true)
    }

    /// Returns the name of the operator's account.
    pub(crate) async fn account(&self) -> Result<String, ClusterError> {
        let review = self.review("authentication.k8s.io", "SelfSubjectReview", &json!({})).await?;
        let name = review["status"]["userInfo"]["username"].as_str();
        Ok(name.unwrap_or_default().to_owned())
    }

    /// Sends a review of this kind, and returns it with its answer.
    pub(super) async fn review(&self, group: &str, kind: &str, spec: &Value) -> Result<Value, ClusterError> {
        let resource = Resource::built_in(group, kind, false);
        let body = json!({"apiVersion": resource.api_version(), "kind": kind, "spec": spec});
        let asked = Asked::of(&resource, None, &["create"]);
        let call = Call::with(Method::POST, resource.path(None, None, None), (JSON, &body), asked);
        value(&self.exchange(&call).await?)
    }
}
