//! Classifies refused requests for children: the content is at fault, or a repetition may succeed.
//!
//! Pure.

use crate::cluster::error::ClusterError;
use crate::handler::child_requests::ChildError;
use crate::object::child::ChildName;

/// The message of the server for content that does not fit the schema, or for duplicate items in the stored object. It comes with a status
/// of 5xx, as if the server were at fault.
const SCHEMA: &str = "failed to create typed";
/// The message of the server for a second controller.
const CONTROLLER: &str = "Only one reference can have Controller set to true";

/// Returns whether an error looks transient but is permanent.
pub(super) fn is_for_good(error: &ClusterError) -> bool {
    matches!(error, ClusterError::Busy { message, .. } if message.contains(SCHEMA))
}

/// Returns the error for the handler if repeating the request does not help.
pub(super) fn refused(child: &ChildName, error: &ClusterError) -> ChildError {
    let child = child.clone();
    let text = match error {
        ClusterError::Denied { message, rule } if !rule.is_empty() => {
            format!("{message}\nTo grant it, add {rule}")
        }
        ClusterError::Denied { message, .. } | ClusterError::Invalid(message) => message.clone(),
        // The text of the error would say that the server cannot answer now, which is untrue here.
        ClusterError::Busy { message, .. } if is_for_good(error) => message.clone(),
        error => error.to_string(),
    };
    let is_refusal = matches!(error, ClusterError::Denied { .. } | ClusterError::Invalid(_));
    if is_final(error) || is_for_good(error) {
        ChildError::Refused { child, error: text }
    } else if is_refusal {
        ChildError::RefusedForNow { child, error: text }
    } else {
        ChildError::NotNow { child, error: text }
    }
}

/// Returns whether the server refuses the same content every time.
fn is_final(error: &ClusterError) -> bool {
    match error {
        // A denial by a webhook or a policy may change later.
        ClusterError::Invalid(message) => !message.contains("denied"),
        // A terminating namespace accepts no new objects.
        ClusterError::Denied { message, .. } => message.contains("is being terminated"),
        _ => false,
    }
}

/// Parts of the messages of the server for content that the existing object cannot change to.
const IMMUTABLE: [&str; 5] = [
    "immutable",
    "may not be changed once set",
    "may not change once set",
    "cannot change roleRef",
    "for fields other than",
];

/// Returns whether the server refuses the content because of the existing object, so that a new object could have it. Rules in definitions
/// count if their message says that the value is immutable.
pub(super) fn is_immutable(message: &str) -> bool {
    IMMUTABLE.iter().any(|part| message.contains(part))
}

/// Returns the error of a first apply that was refused because the object of that name belongs to another owner.
pub(super) fn refused_as_first(child: &ChildName, error: &ClusterError) -> Option<ChildError> {
    let why = match error {
        ClusterError::FieldConflicts(conflicts) => {
            let fields = conflicts.iter();
            let fields = fields.map(|it| format!("{} ({})", it.field, it.message));
            format!("somebody else's, who wants other values: {}", fields.collect::<Vec<_>>().join(", "))
        }
        ClusterError::Invalid(message) if message.contains(CONTROLLER) => {
            format!("controlled by another object: {message}")
        }
        _ => return None,
    };
    let child = child.clone();
    Some(ChildError::NotOurs { child, why })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::error::FieldConflict;

    fn child() -> ChildName {
        ChildName {
            group: "apps".to_owned(),
            kind: "Deployment".to_owned(),
            namespace: None,
            name: "d".to_owned(),
        }
    }

    #[test]
    fn the_content_is_at_fault_or_it_may_be_accepted_later() {
        let child = child();
        let denied = |message: &str, rule: &str| ClusterError::Denied {
            message: message.to_owned(),
            rule: rule.to_owned(),
        };
        let busy =
            |message: &str| ClusterError::Busy { code: 500, message: message.to_owned(), retry_after: None };
        for (error, for_good) in [
            (ClusterError::Invalid("spec.selector: field is immutable".to_owned()), true),
            (ClusterError::Invalid("admission webhook \"w\" denied the request".to_owned()), false),
            (denied("exceeded quota", ""), false),
            (denied("User cannot patch", "to a ClusterRole"), false),
            (denied("unable to create new content in namespace x because it is being terminated", ""), true),
            (busy("failed to create typed patch object: .spec.x: field not declared in schema"), true),
            (ClusterError::NotFound("namespaces \"x\" not found".to_owned().into()), false),
        ] {
            let refused = refused(&child, &error);
            let is_for_good = matches!(refused, ChildError::Refused { .. });
            assert_eq!(is_for_good, for_good, "{refused}");
        }
        let conflict = FieldConflict {
            field: ".spec.replicas".to_owned(),
            message: "conflict with \"kubectl\"".to_owned(),
        };
        let conflicts = ClusterError::FieldConflicts(vec![conflict]);
        let refused = refused_as_first(&child, &conflicts).unwrap().to_string();
        assert!(refused.contains(".spec.replicas (conflict with \"kubectl\")"), "{refused}");
        let second = ClusterError::Invalid(format!("metadata.ownerReferences: {CONTROLLER}."));
        assert!(refused_as_first(&child, &second).is_some());
    }

    #[test]
    fn only_the_existing_object_is_the_reason_for_an_immutable_field() {
        for (message, expected) in [
            ("spec.template: Invalid value: {}: field is immutable", true),
            (
                "spec: Forbidden: updates to statefulset spec for fields other than 'replicas' are forbidden",
                true,
            ),
            ("spec.clusterIPs[0]: Invalid value: [\"None\"]: may not change once set", true),
            ("roleRef: Invalid value: {}: cannot change roleRef", true),
            ("spec.replicas: Invalid value: -1: must be greater than or equal to 0", false),
        ] {
            assert_eq!(is_immutable(message), expected, "{message}");
        }
    }

    #[test]
    fn what_does_not_fit_the_schema_is_not_told_as_a_trouble_of_the_server() {
        let child = child();
        let error = ClusterError::Busy {
            code: 500,
            message: format!("{SCHEMA} patch object: .spec.x: field not declared in schema"),
            retry_after: None,
        };
        let unfit = refused(&child, &error).to_string();
        assert!(unfit.contains(".spec.x") && !unfit.contains("now"), "{unfit}");
    }
}
