//! Authentication and authorization: tokens, impersonation, RBAC, and the review APIs.
//!
//! Every request has a user. Members of `system:masters` may do everything, without a look at the rules.
//! Independent of transports and of the effects of requests.

pub(crate) mod aggregate;
pub(crate) mod attributes;
mod authenticate;
pub(crate) mod bootstrap;
pub(crate) mod check;
pub(crate) mod escalate;
mod impersonate;
pub(crate) mod index;
mod question;
mod request;
pub(crate) mod review;
mod rule;
pub(crate) mod token;
mod user;

use std::collections::HashMap;
use std::sync::Arc;

use crate::call::Call;
use crate::kind::Kinds;
use crate::status::Refusal;
use crate::store::Store;
use attributes::Attributes;
pub(crate) use authenticate::Tokens;
use index::Index;
use token::Signer;
pub use user::User;

/// The API group of roles and bindings.
pub(crate) const GROUP: &str = "rbac.authorization.k8s.io";

/// The users that the server knows, and their permissions.
#[derive(Debug, Default)]
pub(crate) struct Access {
    pub(crate) tokens: Tokens,
    /// Signs the tokens of service accounts; created with the first token.
    signer: Option<Signer>,
    /// The impersonation mode that last succeeded for each user, which is tried first.
    modes: HashMap<String, usize>,
    pub(crate) index: Index,
}

// === impl Access ===

impl Access {
    pub(crate) fn new(kinds: &Kinds) -> Self {
        Self {
            index: Index::new(kinds),
            ..Self::default()
        }
    }

    /// Accepts a bearer token for a user.
    pub(crate) fn add_token(&self, token: String, user: User) {
        self.tokens.add(token, user);
    }
}

/// Authenticates the caller and applies impersonation; returns an error if the user may not make this call.
pub(crate) fn admit(
    store: &mut Store,
    call: &mut Call,
    unnamed: Option<&Arc<User>>,
) -> Result<(), Refusal> {
    call.user = authenticate::identify(store, call.authorization.as_deref(), unnamed)?;
    if let Some(user) = impersonate::impersonated(store, call)? {
        call.user = Arc::new(user);
    }
    if call.user.is_master() {
        return Ok(());
    }
    let attributes = Attributes::of_call(call);
    demand(store, &call.user, &attributes)
}

/// Returns an error if RBAC does not allow the user to do this.
fn demand(store: &mut Store, user: &User, attributes: &Attributes) -> Result<(), Refusal> {
    let decision = index::current(store).decide(user, attributes);
    if decision.allowed {
        return Ok(());
    }
    Err(attributes.refusal(user, &decision.reason))
}
