//! Asks the API server whom a bearer token belongs to, and whether that user may read a path of ours.
//!
//! This module does not know who presents the token, and keeps none.

use serde_json::json;

use crate::cluster::Cluster;
use crate::cluster::error::ClusterError;

/// The verdict on a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Permitted,
    /// The token belongs to no user.
    Unknown,
    /// This user has no permission.
    Denied(String),
}

impl Cluster {
    /// Returns whether the user of the token may `get` the path, by a `TokenReview` and a `SubjectAccessReview`. The operator needs the verb
    /// `create` for both.
    pub(crate) async fn judge_token(&self, token: &str, path: &str) -> Result<Verdict, ClusterError> {
        let review = self.review("authentication.k8s.io", "TokenReview", &json!({"token": token})).await?;
        let status = &review["status"];
        if status["authenticated"] != true {
            return Ok(Verdict::Unknown);
        }
        let user = &status["user"];
        let asked = json!({
            "user": user["username"], "uid": user["uid"], "groups": user["groups"], "extra": user["extra"],
            "nonResourceAttributes": {"path": path, "verb": "get"},
        });
        let review = self.review("authorization.k8s.io", "SubjectAccessReview", &asked).await?;
        if review["status"]["allowed"] == true {
            return Ok(Verdict::Permitted);
        }
        Ok(Verdict::Denied(user["username"].as_str().unwrap_or_default().to_owned()))
    }
}
