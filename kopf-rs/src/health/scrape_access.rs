//! Decides which clients may read the metrics, by the bearer tokens that they present.
//!
//! Guarantees that a verdict is at most a minute old, that unknown tokens make few requests to the API server, and that no token is kept. It
//! does not know how metrics are served.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use blake2::{Blake2s256, Digest};
use http::header::AUTHORIZATION;
use http::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};
use tokio_util::task::AbortOnDropHandle;

use crate::cluster::Cluster;
use crate::cluster::token_review::Verdict;
use crate::health::address::METRICS;
use crate::health::http::Reply;

/// A verdict is reused for this long.
const FRESH: Duration = Duration::from_secs(60);
/// A refusal is reused for a shorter time, because a permission may be given.
const FRESH_REFUSAL: Duration = Duration::from_secs(10);
/// The maximum number of tokens with a verdict.
const TOKENS: usize = 128;
/// The maximum number of refusals among them: while there are so many, tokens that had no permission so far are not reviewed.
const REFUSALS: usize = 32;
/// The maximum number of tokens that are being reviewed.
const REVIEWS: usize = 4;
/// The time limit for a review.
const PATIENCE: Duration = Duration::from_secs(4);

type TokenDigest = [u8; 32];

/// Checks clients of the metrics.
pub(crate) struct ScrapeAccess {
    cluster: Cluster,
    /// The operator's own runtime, to which the connections of its client belong.
    runtime: Handle,
    known: Mutex<HashMap<TokenDigest, (Verdict, Instant)>>,
    reviews: Semaphore,
}

impl ScrapeAccess {
    pub(crate) fn new(cluster: Cluster, runtime: Handle) -> Arc<Self> {
        let (known, reviews) = (Mutex::default(), Semaphore::new(REVIEWS));
        Arc::new(Self { cluster, runtime, known, reviews })
    }

    /// Returns the refusal for a request with these headers, if it has no permission.
    pub(super) async fn refusal(&self, headers: &HeaderMap) -> Option<Reply> {
        let Some(token) = bearer(headers) else {
            let text = "401: expected the header `Authorization: Bearer TOKEN`\n";
            return Some(Reply::text(StatusCode::UNAUTHORIZED, text));
        };
        match self.verdict(token).await {
            Ok(Verdict::Permitted) => None,
            Ok(Verdict::Unknown) => {
                let text = "401: the API server does not know the token, or it has expired\n";
                Some(Reply::text(StatusCode::UNAUTHORIZED, text))
            }
            Ok(Verdict::Denied(user)) => {
                let text = format!(
                    "403: {user} may not read the metrics: expected a ClusterRole with `nonResourceURLs: [{METRICS}], verbs: [get]`\n"
                );
                Some(Reply::text(StatusCode::FORBIDDEN, text))
            }
            Err(problem) => {
                let text = format!("503: the token could not be checked: {problem}\n");
                Some(Reply::text(StatusCode::SERVICE_UNAVAILABLE, text))
            }
        }
    }

    async fn verdict(&self, token: &str) -> Result<Verdict, String> {
        let digest: TokenDigest = Blake2s256::digest(token).into();
        if let Some(verdict) = self.known(&digest)? {
            return Ok(verdict);
        }
        let reviewed = async {
            let _place = self.reviews.acquire().await;
            // Other reviews may have ended meanwhile.
            if let Some(verdict) = self.known(&digest)? {
                return Ok(verdict);
            }
            let (cluster, token) = (self.cluster.clone(), token.to_owned());
            let review = async move { cluster.judge_token(&token, METRICS).await };
            let reviewed = AbortOnDropHandle::new(self.runtime.spawn(review)).await;
            let reviewed = reviewed.map_err(|_| "the operator has ended".to_owned())?;
            let verdict = reviewed.map_err(|error| error.to_string())?;
            self.remember(digest, verdict.clone());
            Ok(verdict)
        };
        let reviewed = timeout(PATIENCE, reviewed).await;
        reviewed.unwrap_or_else(|_| Err("no answer in time".to_owned()))
    }

    /// Returns the verdict if it is fresh, or an error if the token must not be reviewed now.
    fn known(&self, digest: &TokenDigest) -> Result<Option<Verdict>, String> {
        let mut known = self.known.lock();
        // A permission that is no longer fresh still entitles its token to a review.
        known.retain(|_, (verdict, since)| *verdict == Verdict::Permitted || is_fresh(verdict, *since));
        if let Some((verdict, since)) = known.get(digest) {
            return Ok(is_fresh(verdict, *since).then(|| verdict.clone()));
        }
        let refusals = known.values().filter(|(verdict, _)| *verdict != Verdict::Permitted).count();
        if refusals >= REFUSALS {
            return Err(format!(
                "{refusals} other tokens were refused within {FRESH_REFUSAL:?}; try again later"
            ));
        }
        Ok(None)
    }

    /// Keeps a verdict, if necessary in place of the oldest refusal or else of the oldest permission.
    fn remember(&self, digest: TokenDigest, verdict: Verdict) {
        let mut known = self.known.lock();
        if known.len() >= TOKENS {
            let worth =
                |(_, (verdict, since)): &(_, &(Verdict, Instant))| (*verdict == Verdict::Permitted, *since);
            let first = known.iter().min_by_key(worth).map(|(it, _)| *it);
            first.map(|it| known.remove(&it));
        }
        known.insert(digest, (verdict, Instant::now()));
    }
}

fn is_fresh(verdict: &Verdict, since: Instant) -> bool {
    let fresh = if *verdict == Verdict::Permitted { FRESH } else { FRESH_REFUSAL };
    since.elapsed() < fresh
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim()).filter(|it| !it.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cluster::fake::{Answer, Fake};

    fn access(fake: &Fake) -> Arc<ScrapeAccess> {
        ScrapeAccess::new(fake.cluster(), Handle::current())
    }

    fn answers(user: &str, allowed: bool) -> [Answer; 2] {
        let user = json!({"status": {"authenticated": true, "user": {"username": user, "groups": ["g"]}}});
        let access = json!({"status": {"allowed": allowed}});
        [Answer::new(201, user.to_string()), Answer::new(201, access.to_string())]
    }

    async fn code(access: &ScrapeAccess, token: &str) -> Option<u16> {
        let mut headers = HeaderMap::new();
        if !token.is_empty() {
            let value = format!("Bearer {token}").parse().expect("a header");
            headers.insert(AUTHORIZATION, value);
        }
        access.refusal(&headers).await.map(|refusal| refusal.code.as_u16())
    }

    #[tokio::test(start_paused = true)]
    async fn the_api_server_is_asked_about_each_token_once_a_minute() {
        let fake = Fake::new(answers("prometheus", true));
        let access = access(&fake);
        assert_eq!(code(&access, "").await, Some(401));
        assert_eq!(code(&access, "good").await, None);
        assert_eq!(code(&access, "good").await, None);
        let seen = fake.seen();
        let lines: Vec<_> = seen.iter().map(|it| it.line.as_str()).collect();
        let expected = [
            "POST /apis/authentication.k8s.io/v1/tokenreviews",
            "POST /apis/authorization.k8s.io/v1/subjectaccessreviews",
        ];
        assert_eq!(lines, expected);
        let asked: serde_json::Value = serde_json::from_str(&seen[1].body).unwrap();
        assert_eq!(asked["spec"]["user"], "prometheus");
        assert_eq!(asked["spec"]["nonResourceAttributes"], json!({"path": "/metrics", "verb": "get"}));
        tokio::time::sleep(FRESH).await;
        // The fake gives no further answer.
        assert_eq!(code(&access, "good").await, Some(503));
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_is_remembered_for_a_short_time() {
        let unknown = Answer::new(201, json!({"status": {"authenticated": false}}).to_string());
        let [first, second] = answers("curious", false);
        let [third, fourth] = answers("curious", true);
        let fake = Fake::new([unknown, first, second, third, fourth]);
        let access = access(&fake);
        assert_eq!(code(&access, "stranger").await, Some(401));
        assert_eq!(code(&access, "user").await, Some(403));
        assert_eq!(code(&access, "user").await, Some(403));
        tokio::time::sleep(FRESH_REFUSAL).await;
        assert_eq!(code(&access, "user").await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn the_table_of_tokens_is_bounded() {
        let access = access(&Fake::new([]));
        for number in 0..2 * TOKENS {
            let mut digest = TokenDigest::default();
            digest[..8].copy_from_slice(&number.to_be_bytes());
            access.remember(digest, Verdict::Permitted);
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        assert_eq!(access.known.lock().len(), TOKENS);
        // Others cannot displace a permission.
        for number in 0..2 * TOKENS {
            let mut digest = TokenDigest::default();
            digest[8..16].copy_from_slice(&number.to_be_bytes());
            access.remember(digest, Verdict::Unknown);
        }
        let known = access.known.lock();
        let refused = known.values().filter(|(verdict, _)| *verdict != Verdict::Permitted).count();
        assert_eq!((known.len(), refused), (TOKENS, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn unknown_tokens_make_few_requests() {
        let unknown = || Answer::new(201, json!({"status": {"authenticated": false}}).to_string());
        let refusals = (0..2 * REFUSALS).map(|_| unknown());
        let fake = Fake::new(answers("prometheus", true).into_iter().chain(refusals));
        let access = access(&fake);
        assert_eq!(code(&access, "good").await, None);
        // Later, the permission is no longer fresh.
        tokio::time::sleep(FRESH).await;
        for number in 0..REFUSALS {
            assert_eq!(code(&access, &number.to_string()).await, Some(401));
        }
        assert_eq!(code(&access, "another").await, Some(503));
        assert_eq!(fake.seen().len(), 2 + REFUSALS);
        // The server still reviews a token that had a permission.
        assert_eq!(code(&access, "good").await, Some(401));
        tokio::time::sleep(FRESH_REFUSAL).await;
        assert_eq!(code(&access, "another").await, Some(401));
    }

    #[tokio::test(start_paused = true)]
    async fn a_review_ends_with_its_patience() {
        let access = access(&Fake::new([]));
        let before = Handle::current().metrics().num_alive_tasks();
        assert_eq!(code(&access, "good").await, Some(503));
        tokio::task::yield_now().await;
        assert_eq!(Handle::current().metrics().num_alive_tasks(), before);
    }
}
