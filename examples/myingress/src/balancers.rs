//! Load balancers, identified by the name and the owner of their object.
//!
//! Creation is idempotent: names are unique in the cloud, and tags identify the object and the attempt that created a
//! load balancer. This module does not depend on handlers.

use aws_config::BehaviorVersion;
use aws_sdk_elasticloadbalancingv2::Client as Elb;
use aws_sdk_elasticloadbalancingv2::error::{DisplayErrorContext, ProvideErrorMetadata};
use aws_sdk_elasticloadbalancingv2::types::{
    IpAddressType, LoadBalancer, LoadBalancerSchemeEnum, LoadBalancerTypeEnum, Tag, TagDescription,
};
use aws_smithy_http_client::{Builder, tls};
use kopf_rs::prelude::*;

/// The tag with the object that a load balancer belongs to.
const OWNER: &str = "demo.rtfm.co.ua/owner";

/// The tag with the key of the attempt that created it.
const ATTEMPT: &str = "demo.rtfm.co.ua/attempt";

/// The back-off in seconds after an error of the cloud.
const PAUSE: u64 = 30;

/// A client for the cloud's load balancers. Clones share the connection.
#[derive(Clone, Debug)]
pub struct Balancers(Elb);

/// One load balancer.
#[derive(Clone, Debug)]
pub struct Balancer {
    /// Its unique name in the cloud.
    pub arn: String,
    /// Its DNS name.
    pub dns: String,
}

/// Handlers get the client by its type: `balancers: Balancers`.
impl FromCause<'_> for Balancers {
    fn from_cause(cause: &Cause) -> HandlerResult<Self> {
        let connected = cause.memo().get::<Self>();
        let connected = connected.ok_or_else(|| PermanentError::new("connect() has not run"))?;
        Ok((*connected).clone())
    }
}

impl Balancers {
    /// Connects as the environment configures it: `AWS_REGION`, `AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT_URL` and so on.
    pub async fn from_env() -> Self {
        let https = Builder::new()
            .tls_provider(tls::Provider::Rustls(tls::rustls_provider::CryptoMode::Ring))
            .build_https();
        let config = aws_config::defaults(BehaviorVersion::latest()).http_client(https);
        Self(Elb::new(&config.load().await))
    }

    /// Returns the load balancer of an object, if it has one.
    ///
    /// # Errors
    ///
    /// Returns a permanent error if the name belongs to another object.
    pub async fn find(&self, name: &str, owner: &str) -> HandlerResult<Option<Balancer>> {
        let named = balancer_name(name);
        let asked = self.0.describe_load_balancers().names(&named).send().await;
        let found = match asked {
            Ok(found) => found,
            Err(error) if error.code() == Some("LoadBalancerNotFound") => return Ok(None),
            Err(error) => return Err(refused(&DisplayErrorContext(error))),
        };
        let Some(balancer) = found.load_balancers().first().and_then(Balancer::of) else {
            return Ok(None);
        };
        let asked = self.0.describe_tags().resource_arns(&balancer.arn).send();
        let tags = asked.await.map_err(|error| refused(&DisplayErrorContext(error)))?;
        let mut tags = tags.tag_descriptions().iter().flat_map(TagDescription::tags);
        if tags.any(|tag| tag.key() == Some(OWNER) && tag.value() == Some(owner)) {
            return Ok(Some(balancer));
        }
        let taken = format!("the load balancer {named} exists and belongs to somebody else");
        Err(PermanentError::new(taken).into())
    }

    /// Creates the load balancer of an object.
    ///
    /// With the same key, the request and its tags are identical, so the cloud returns the load balancer of the first
    /// request. If the first request differed, or if the cloud does not compare requests, the name is taken: by the
    /// same object, or by another one.
    ///
    /// # Errors
    ///
    /// Returns a permanent error if the name belongs to another object, and a temporary one if the cloud rejects the
    /// request.
    pub async fn make(
        &self,
        name: &str,
        owner: &str,
        key: &str,
        subnets: &[String],
        scheme: &str,
    ) -> HandlerResult<Balancer> {
        let made = self
            .0
            .create_load_balancer()
            .name(balancer_name(name))
            .r#type(LoadBalancerTypeEnum::Application)
            .ip_address_type(IpAddressType::Ipv4)
            .scheme(LoadBalancerSchemeEnum::from(scheme))
            .set_subnets(Some(subnets.to_vec()))
            .tags(tag("ManagedBy", "kopf-rs"))
            .tags(tag(OWNER, owner))
            .tags(tag(ATTEMPT, key))
            .send();
        let found = match made.await {
            Ok(made) => made.load_balancers().first().and_then(Balancer::of),
            Err(error) if error.code() == Some("DuplicateLoadBalancerName") => self.find(name, owner).await?,
            Err(error) => return Err(refused(&DisplayErrorContext(error))),
        };
        found.ok_or_else(|| refused(&"the answer names no load balancer"))
    }

    /// Moves a load balancer to other subnets.
    ///
    /// # Errors
    ///
    /// Returns a temporary error if the cloud rejects the request.
    pub async fn place(&self, balancer: &Balancer, subnets: &[String]) -> HandlerResult {
        let asked = self.0.set_subnets().load_balancer_arn(&balancer.arn);
        let asked = asked.set_subnets(Some(subnets.to_vec())).send();
        asked.await.map_err(|error| refused(&DisplayErrorContext(error)))?;
        Ok(())
    }

    /// Deletes a load balancer, which may be gone already.
    ///
    /// # Errors
    ///
    /// Returns a temporary error if the cloud rejects the request.
    pub async fn delete(&self, balancer: &Balancer) -> HandlerResult {
        let asked = self.0.delete_load_balancer().load_balancer_arn(&balancer.arn);
        match asked.send().await {
            Err(error) if error.code() != Some("LoadBalancerNotFound") => {
                Err(refused(&DisplayErrorContext(error)))
            }
            _ => Ok(()),
        }
    }
}

impl Balancer {
    fn of(answer: &LoadBalancer) -> Option<Self> {
        Some(Self {
            arn: answer.load_balancer_arn()?.to_owned(),
            dns: answer.dns_name().unwrap_or_default().to_owned(),
        })
    }
}

fn balancer_name(name: &str) -> String {
    format!("{name}-alb")
}

fn tag(key: &str, value: &str) -> Tag {
    Tag::builder().key(key).value(value).build()
}

/// Makes a temporary error, since a later request may succeed.
fn refused(why: &dyn std::fmt::Display) -> HandlerError {
    TemporaryError::new(why.to_string()).delay(PAUSE).into()
}
