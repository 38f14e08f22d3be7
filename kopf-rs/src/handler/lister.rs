//! The argument [`Lister`]: reads all objects of a kind from memory.
//!
//! The objects are those of an index, which the argument declares. So they share the watch of their kind with all other handlers, and no
//! handler runs before all existing objects are known. This module does not know when objects are stored.

use std::any::type_name;
use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::handler::cause::Cause;
use crate::handler::error::{HandlerError, PermanentError};
use crate::handler::extract::FromCause;
use crate::handler::extract::extractors::ByType;
use crate::handler::index::Index;
use crate::handler::index::erased::IndexType;
use crate::handler::indexer::index_returned;
use crate::handler::listed::ListedKind;
use crate::handler::options::Callback;
use crate::handler::read::to_json;
use crate::handler::required::RequiredState;
use crate::object::key::full_name;
use crate::object::label_selector::LabelSelector;
use crate::object::labels::Labels;
use crate::object::selector::Selector;
use crate::object::typed::HasKind;

/// All objects of a kind in the namespaces of the operator, read from memory: `pods: Lister<Pod>`.
///
/// A handler of any kind gets it as an argument by its type; a closure declares it by [`Callback::listing`] and gets it
/// by [`Cause::lister`]:
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// use kopf_rs::prelude::*;
///
/// #[timer("kopfexamples", interval = 60)]
/// async fn count(name: &str, namespace: Option<&str>, pods: Lister<Pod>, patch: &mut Patch) -> HandlerResult {
///     patch.set("status.pods", pods.select(&format!("app={name}"))?.len());
///     if let Some(first) = pods.get(namespace, &format!("{name}-0")) {
///         patch.set("status.node", first.spec.as_ref().and_then(|it| it.node_name.clone()));
///     }
///     Ok(())
/// }
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// // In a unit test:
/// let pod = json!({"metadata": {"name": "web-0", "namespace": "ns", "labels": {"app": "web"}}, "spec": {"nodeName": "n1", "containers": []}});
/// let pods = Lister::of([serde_json::from_value::<Pod>(pod).unwrap()]);
/// let mut patch = Patch::default();
/// count("web", Some("ns"), pods, &mut patch).await.unwrap();
/// assert_eq!(patch["status"], json!({"pods": 1, "node": "n1"}));
/// # });
/// ```
///
/// It is an [`index`](macro@crate::index) of whole objects: all handlers share one copy and one watch per kind, and
/// `--manifests` prints the permissions `get`, `list` and `watch`. The operator calls no handler of objects before it
/// knows all existing ones, unless it may not list them: then the list is empty. An object that does not fit the type is
/// logged, and stays in its former state.
///
/// Each read returns a snapshot. A change of an object calls no handler; for that, name the kind in `watches` of a
/// [`reconcile`](macro@crate::reconcile) function, too. To keep less than whole objects, write an index.
pub struct Lister<T> {
    objects: Index<Box<str>, Listed<T>>,
}

/// An object with the labels to select it by.
struct Listed<T> {
    object: Arc<T>,
    labels: Arc<Labels>,
}

impl<T> Lister<T> {
    /// Returns an object by its namespace and name: `pods.get("default", "web-0")`, or `nodes.get(None, "n1")`.
    #[must_use]
    pub fn get<'a>(&self, namespace: impl Into<Option<&'a str>>, name: &str) -> Option<Arc<T>> {
        let found = self.objects.get(&full_name(namespace.into(), name));
        // An object that was deleted and created again may have been seen before its deletion is.
        found.iter().last().map(|it| it.object.clone())
    }

    /// Returns all objects in the order of their namespaces and names.
    #[must_use]
    pub fn list(&self) -> Vec<Arc<T>> {
        self.matching(|_, _| true)
    }

    /// Returns the objects of a namespace in the order of their names.
    #[must_use]
    pub fn list_in(&self, namespace: &str) -> Vec<Arc<T>> {
        self.matching(|name, _| name.split_once('/').is_some_and(|(it, _)| it == namespace))
    }

    /// Returns the objects that a label selector selects, in all namespaces: `pods.select("app=web,tier in (a, b)")`.
    ///
    /// # Errors
    /// Returns an error if the text is no label selector.
    pub fn select(&self, labels: &str) -> Result<Vec<Arc<T>>, PermanentError> {
        let selector = LabelSelector::parse(labels);
        let selector = selector.map_err(|error| {
            PermanentError::new(format!("expected a label selector, such as `app=web,!test`: {error}"))
        })?;
        Ok(self.matching(|_, labels| selector.selects(labels)))
    }

    fn matching(&self, is_meant: impl Fn(&str, &Labels) -> bool) -> Vec<Arc<T>> {
        let mut found = self.objects.filtered(|name, it| is_meant(name, &it.labels));
        found.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        found.into_iter().map(|(_, it)| it.object).collect()
    }
}

impl<T: Serialize> Lister<T> {
    /// Returns a lister of these objects, for unit tests.
    ///
    /// # Panics
    /// Panics if an object cannot be written as JSON.
    #[must_use]
    pub fn of(objects: impl IntoIterator<Item = T>) -> Self {
        let listed = objects.into_iter().map(|object| {
            let json = to_json(&object, "the object").expect("an object is JSON");
            let metadata = &json["metadata"];
            let name = metadata["name"].as_str().unwrap_or_default();
            let labels = Arc::new(Labels::of(&metadata["labels"]));
            let full_name = full_name(metadata["namespace"].as_str(), name);
            (full_name, Listed { object: Arc::new(object), labels })
        });
        Self { objects: listed.collect() }
    }
}

impl<T: HasKind + DeserializeOwned + Send + Sync + 'static> Lister<T> {
    fn kind() -> ListedKind {
        ListedKind {
            id: || format!("Lister<{}>", type_name::<T>()),
            selector: Selector::of_kind::<T>,
            index: IndexType::of::<Box<str>, Listed<T>>().of_lister(),
            store: |cause| index_returned(cause, stored::<T>(cause)),
        }
    }
}

/// Returns the entry of an object.
fn stored<T: DeserializeOwned>(cause: &Cause) -> Result<(Box<str>, Listed<T>), String> {
    let object = serde_path_to_error::deserialize(&**cause.body());
    let object = object.map_err(|error| format!("the object is no `{}`: {error}", type_name::<T>()))?;
    let (object, labels) = (Arc::new(object), Arc::new(cause.labels().clone()));
    Ok((full_name(cause.namespace(), cause.name()), Listed { object, labels }))
}

impl Cause {
    /// Returns all objects of a kind, which the handler must have declared by [`Callback::listing`].
    ///
    /// # Errors
    /// Returns a permanent error if no handler has declared it.
    pub fn lister<T>(&self) -> Result<Lister<T>, HandlerError>
    where
        T: HasKind + DeserializeOwned + Send + Sync + 'static,
    {
        let found = self.index(&(Lister::<T>::kind().id)());
        let objects = found.map_err(|_| {
            PermanentError::new(format!(
                "the operator keeps no objects of `{0}`: declare the handler with `.listing::<{0}>()` (in a unit test, call the function with \
                 `Lister::of`)",
                type_name::<T>()
            ))
        })?;
        Ok(Lister { objects })
    }
}

impl Callback {
    /// Keeps all objects of a kind in memory for [`Cause::lister`]. Annotated functions take a [`Lister`] instead.
    #[must_use]
    pub fn listing<T>(self) -> Self
    where
        T: HasKind + DeserializeOwned + Send + Sync + 'static,
    {
        self.requiring(Some(RequiredState::of_listed::<Lister<T>>(Lister::<T>::kind())))
    }
}

impl<T: HasKind + DeserializeOwned + Send + Sync + 'static> FromCause<'_> for Lister<T> {
    fn from_cause(cause: &Cause) -> Result<Self, HandlerError> {
        cause.lister()
    }
}

impl<T: HasKind + DeserializeOwned + Send + Sync + 'static, O> ByType<Lister<T>, O> {
    /// Requires that the operator keeps the objects.
    #[must_use]
    pub fn required_state() -> Option<RequiredState> {
        Some(RequiredState::of_listed::<Lister<T>>(Lister::<T>::kind()))
    }
}

impl<T> Clone for Lister<T> {
    fn clone(&self) -> Self {
        Self { objects: self.objects.clone() }
    }
}

impl<T> fmt::Debug for Lister<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lister<{}>({} objects)", type_name::<T>(), self.objects.len())
    }
}

impl<T> Clone for Listed<T> {
    fn clone(&self) -> Self {
        Self { object: self.object.clone(), labels: self.labels.clone() }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::handler::registry::Registry;
    use crate::handler::registry::callback::handler;

    #[derive(serde::Deserialize)]
    struct Pod;

    impl HasKind for Pod {
        fn api_version() -> String {
            "v1".to_owned()
        }
        fn kind() -> String {
            "Pod".to_owned()
        }
    }

    fn object(namespace: Option<&str>, name: &str, app: &str) -> Value {
        json!({"metadata": {"namespace": namespace, "name": name, "labels": {"app": app}}})
    }

    #[test]
    fn objects_are_found_by_name_by_namespace_and_by_labels() {
        let all = [("b", "x", "web"), ("a", "y", "web"), ("a", "x", "db"), ("ab", "x", "db")];
        let objects = all.map(|(namespace, name, app)| object(Some(namespace), name, app));
        let lister = Lister::of(objects.into_iter().chain([object(None, "x", "node")]));
        let names = |found: Vec<Arc<Value>>| -> Vec<String> {
            let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
            let found = found.iter().map(|it| &it["metadata"]);
            found.map(|it| format!("{}/{}", text(&it["namespace"]), text(&it["name"]))).collect()
        };
        assert_eq!(names(lister.list()), ["/x", "a/x", "a/y", "ab/x", "b/x"]);
        assert_eq!(names(lister.list_in("a")), ["a/x", "a/y"]);
        assert_eq!(names(lister.select("app=web").unwrap()), ["a/y", "b/x"]);
        assert_eq!(lister.select("").unwrap().len(), 5);
        let app = |namespace: Option<&str>| {
            lister.get(namespace, "x").map(|it| it["metadata"]["labels"]["app"].clone())
        };
        assert_eq!(
            (app(Some("a")), app(None), app(Some("c"))),
            (Some(json!("db")), Some(json!("node")), None)
        );
        assert!(lister.get("b", "x").is_some() && lister.get(None, "y").is_none());
        let refused = lister.select("app in web").unwrap_err().to_string();
        assert!(refused.contains("expected a label selector") && refused.contains("app in web"), "{refused}");
    }

    #[test]
    fn a_kind_is_kept_once_for_all_handlers() {
        let listing = |id: &str| handler(id, |_| async { Ok(()) }).listing::<Pod>();
        let one = Registry::new().on_create("configmaps", listing("a")).on_event("configmaps", listing("b"));
        let both = one.and(Registry::new().on_startup(listing("c")));
        both.check().unwrap();
        let indexers: Vec<_> = both.handlers().iter().filter(|it| it.index.is_some()).collect();
        assert_eq!(indexers.len(), 1);
        assert_eq!(indexers[0].selector, Some(Selector::of_kind::<Pod>()));
        assert_eq!(both.requirements().len(), 0);
        let undeclared = Cause::of(json!({})).lister::<Pod>().unwrap_err().to_string();
        assert!(undeclared.contains("declare the handler with `.listing::<"), "{undeclared}");
    }
}
