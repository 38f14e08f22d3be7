//! Who asks, and whether they may: tokens, impersonation, RBAC, and the reviews that tell of them.
//!
//! Promise: every request is somebody's; members of `system:masters` may do everything, and no rule is looked at for them.
//! Must not know transports, nor what a request does.

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

/// The group of roles and bindings.
pub(crate) const GROUP: &str = "rbac.authorization.k8s.io";

/// What the server knows of users and their rights.
#[derive(Debug, Default)]
pub(crate) struct Access {
    pub(crate) tokens: Tokens,
    /// Signs the tokens of service accounts; made when the first is asked for.
    signer: Option<Signer>,
    /// How each user last came to impersonate somebody.
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

    /// From now on this token is that user's.
    pub(crate) fn add_token(&self, token: String, user: User) {
        self.tokens.add(token, user);
    }
}

/// Find out whose a call is, and refuse it if they may not make it.
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

/// Refuse what a user may not do.
fn demand(store: &mut Store, user: &User, attributes: &Attributes) -> Result<(), Refusal> {
    let decision = index::current(store).decide(user, attributes);
    if decision.allowed {
        return Ok(());
    }
    Err(attributes.refusal(user, &decision.reason))
}
