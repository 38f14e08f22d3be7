//! Recreates children with immutable fields, where the handler allows it: deletes the child, and the next apply creates it again.
//!
//! Guarantees that no child is deleted whose new content the server would refuse, and that a child which is recreated again and again is
//! recreated at growing intervals. Must not know why a handler wants the content.

use parking_lot::Mutex;
use serde_json::Value;

use crate::cluster::child::{ApplyRequest, Propagation};
use crate::cluster::error::ClusterError;
use crate::cluster::request::ObjectPath;
use crate::engine::children::ChildApplier;
use crate::engine::children::removing::verdict;
use crate::engine::children::task::{Task, Trouble};
use crate::handler::child_requests::ChildError;
use crate::happening::working::ChildHappening;
use crate::object::child::claim;
use crate::object::essence::digest;
use crate::reaction::recreated_children::RecreatedChildren;

/// The recreated children of one owner, stored in its memo.
type OfMemo = Mutex<RecreatedChildren>;

impl ChildApplier {
    /// Deletes a child that the server refuses to change for this reason. Returns the error of the present apply.
    ///
    /// Deletes in the foreground: a new Job or `StatefulSet` must not run beside the Pods of the former one.
    pub(super) async fn recreate(&self, task: &Task<'_>, refusal: String) -> Trouble {
        let (target, context) = (&task.target, &task.wish.context);
        let child = target.child.clone();
        let recreated = context.memo.get_or_default::<OfMemo>();
        let wait = recreated.lock().wait(&child, self.begun.elapsed());
        if let Some(wait) = wait {
            return Trouble::Final(ChildError::RecreatedAgain { child, error: refusal, wait });
        }
        match self.is_creatable(task).await {
            Ok(()) => {}
            Err(ClusterError::Invalid(error)) => {
                let error = format!(
                    "{refusal}. It is not deleted to be recreated, because the server would refuse the new object, too: {error}"
                );
                return Trouble::Final(ChildError::Refused { child, error });
            }
            Err(error) => return target.trouble(error),
        }
        target.tell(&ChildHappening::Recreated { child: child.clone(), why: refusal.clone() });
        let judge = |found: &Value| verdict(claim(found, &task.owner, context.ownership, &self.marks));
        let error = match self.delete_target(target, None, &judge, Propagation::Foreground).await {
            Ok(true) => {
                recreated.lock().note(&child, self.begun.elapsed());
                ChildError::Recreated { child, error: refusal }
            }
            Ok(false) => ChildError::Vanished(child),
            Err(error) => error,
        };
        Trouble::Final(error)
    }

    /// Asks the server whether it would create the child. As the child exists, the question is about another name.
    async fn is_creatable(&self, task: &Task<'_>) -> Result<(), ClusterError> {
        let name = digest(&task.body).to_lowercase();
        let name: String = name.chars().filter(char::is_ascii_alphanumeric).take(10).collect();
        let name = format!("dry-run-{name}");
        let mut body = task.body.clone();
        if let Some(metadata) = body["metadata"].as_object_mut() {
            metadata.remove("uid");
            metadata.insert("name".to_owned(), name.clone().into());
        }
        let object = ObjectPath { name: &name, ..task.target.path() };
        let request = ApplyRequest { object, dry_run: true, ..self.request(task, &body, false) };
        task.target.cluster.apply(request).await.map(|_| ())
    }
}
