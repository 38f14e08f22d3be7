//! What a user of the operator does, and sees.

use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{
    Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, ResourceExt as _,
};
use kube::core::GroupVersionKind;
use kube::runtime::reflector::{self, store};
use kube::runtime::wait::{await_condition, conditions};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Client, CustomResourceExt as _, Discovery, discovery};
use serde_json::{Value, json};

use crate::kinds::{Garden, GardenSpec, Gnome};
use crate::{Failure, NAMESPACE};

fn say(title: &str, value: impl serde::Serialize) {
    println!("{title}: {}", json!(value));
}

async fn within<T, E>(what: impl Future<Output = Result<T, E>>) -> Result<T, Failure>
where
    Failure: From<E>,
{
    Ok(tokio::time::timeout(Duration::from_secs(60), what).await??)
}

/// A namespace and a kind.
pub async fn prepare(client: &Client) -> Result<(), Failure> {
    let version = client.apiserver_version().await?;
    say("version", [version.major, version.minor]);
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace = serde_json::from_value(json!({"metadata": {"name": NAMESPACE}}))?;
    namespaces
        .create(&PostParams::default(), &namespace)
        .await?;
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let ours = PatchParams::apply("user");
    let name = Garden::crd_name();
    let definition = definitions
        .patch(name, &ours, &Patch::Apply(Garden::crd()))
        .await?;
    say("defined", &definition.spec.names);
    within(await_condition(
        definitions,
        name,
        conditions::is_crd_established(),
    ))
    .await?;
    let gardens: Api<Garden> = Api::namespaced(client.clone(), NAMESPACE);
    // What is established may be served a moment later.
    within(async {
        let mut pulse = tokio::time::interval(Duration::from_millis(50));
        while gardens.list(&ListParams::default()).await.is_err() {
            pulse.tick().await;
        }
        Ok::<(), Failure>(())
    })
    .await?;
    let found = discovery::pinned_kind(
        client,
        &GroupVersionKind::gvk("kube-rs.example.com", "v1", "Garden"),
    )
    .await?;
    say(
        "discovered",
        [found.0.plural, format!("{:?}", found.1.scope)],
    );
    let all = Discovery::new(client.clone())
        .filter(&["apps", "batch"])
        .run_aggregated()
        .await?;
    let mut groups: Vec<&str> = all.groups().map(|group| group.name()).collect();
    groups.sort_unstable();
    say("groups", groups);
    Ok(())
}

/// A garden's life.
pub async fn garden(client: &Client) -> Result<(), Failure> {
    let gardens: Api<Garden> = Api::namespaced(client.clone(), NAMESPACE);
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    let mut wanted = Garden::new(
        "home",
        GardenSpec {
            flowers: 3,
            colour: "blue".into(),
            gnome: Some(Gnome::Fishing),
        },
    );
    let made = gardens.create(&PostParams::default(), &wanted).await?;
    say("made", (&made.spec, made.metadata.generation));
    let planted = |count: u32| {
        move |it: Option<&Garden>| {
            it.and_then(|it| it.status.as_ref())
                .is_some_and(|it| it.planted == count)
        }
    };
    within(await_condition(gardens.clone(), "home", planted(3))).await?;
    let seen = gardens.get("home").await?;
    say("seen", (seen.finalizers(), &seen.status));
    let map = maps.get("home").await?;
    let owner = &map.owner_references()[0];
    say(
        "child",
        (
            &map.data,
            &owner.kind,
            owner.uid == seen.uid().unwrap_or_default(),
        ),
    );
    // What is lost comes back.
    let uid = map.uid().unwrap_or_default();
    maps.delete("home", &DeleteParams::default()).await?;
    within(await_condition(
        maps.clone(),
        "home",
        move |it: Option<&ConfigMap>| it.is_some_and(|it| it.uid().unwrap_or_default() != uid),
    ))
    .await?;
    // What changes is followed.
    gardens
        .patch(
            "home",
            &PatchParams::default(),
            &Patch::Merge(json!({"spec": {"flowers": 5}})),
        )
        .await?;
    within(await_condition(gardens.clone(), "home", planted(5))).await?;
    within(await_condition(
        maps.clone(),
        "home",
        |it: Option<&ConfigMap>| {
            it.is_some_and(|it| it.data.as_ref().is_some_and(|data| data["flowers"] == "5"))
        },
    ))
    .await?;
    say(
        "managers",
        gardens
            .get("home")
            .await?
            .managed_fields()
            .iter()
            .map(|it| {
                (
                    it.manager.clone(),
                    it.operation.clone(),
                    it.subresource.clone(),
                )
            })
            .collect::<Vec<_>>(),
    );
    wanted.spec.flowers = 500;
    wanted.metadata.name = Some("large".into());
    let refused = gardens.create(&PostParams::default(), &wanted).await;
    if let Err(kube::Error::Api(status)) = refused {
        say("refused", (status.code, status.reason, status.message));
    }
    let events: Api<Event> = Api::namespaced(client.clone(), NAMESPACE);
    let of_garden = ListParams::default().fields("reason=Planted,regarding.name=home");
    let event = events.list(&of_garden).await?.items.remove(0);
    say(
        "event",
        (event.note, event.action, event.reporting_controller),
    );
    gardens.delete("home", &DeleteParams::foreground()).await?;
    within(await_condition(
        maps.clone(),
        "home-cleared",
        |it: Option<&ConfigMap>| it.is_some(),
    ))
    .await?;
    within(await_condition(
        gardens.clone(),
        "home",
        |it: Option<&Garden>| it.is_none(),
    ))
    .await?;
    within(await_condition(maps, "home", |it: Option<&ConfigMap>| {
        it.is_none()
    }))
    .await?;
    say("gone", gardens.get_opt("home").await?.is_none());
    Ok(())
}

/// A reflector, and what it stores; objects without types.
pub async fn watch(client: &Client) -> Result<(), Failure> {
    let resource = discovery::pinned_kind(client, &GroupVersionKind::gvk("", "v1", "ConfigMap"))
        .await?
        .0;
    let maps: Api<DynamicObject> = Api::namespaced_with(client.clone(), NAMESPACE, &resource);
    for number in 0..3 {
        let mut map = DynamicObject::new(&format!("m{number}"), &resource);
        map.data = json!({"data": {"n": number.to_string()}});
        map.labels_mut().insert("mirrored".into(), "yes".into());
        maps.create(&PostParams::default(), &map).await?;
    }
    let writer = store::Writer::new(resource.clone());
    let config = watcher::Config::default()
        .labels("mirrored=yes")
        .page_size(2);
    let stream = reflector::reflector(writer, watcher(maps.clone(), config)).applied_objects();
    let mut stream = std::pin::pin!(stream);
    let mut names: Vec<String> = Vec::new();
    while names.len() < 3 {
        let object =
            within(async { Ok::<_, Failure>(stream.try_next().await?.ok_or("the watch ended")?) })
                .await?;
        names.push(object.name_any());
    }
    names.sort();
    say("mirrored", names);
    maps.patch(
        "m1",
        &PatchParams::default(),
        &Patch::Strategic(json!({"data": {"n": "changed"}})),
    )
    .await?;
    let changed =
        within(async { Ok::<_, Failure>(stream.next().await.ok_or("the watch ended")??) }).await?;
    say("changed", (changed.name_any(), &changed.data["data"]));
    let patch: json_patch::Patch =
        serde_json::from_value(json!([{"op": "replace", "path": "/data/n", "value": "again"}]))?;
    let again = maps
        .patch("m1", &PatchParams::default(), &Patch::Json::<()>(patch))
        .await?;
    say("again", &again.data["data"]);
    let meta = maps
        .list_metadata(&ListParams::default().labels("mirrored").limit(2))
        .await?;
    say(
        "page",
        (meta.items.len(), meta.metadata.continue_.is_some()),
    );
    let either = maps
        .delete_collection(
            &DeleteParams::default(),
            &ListParams::default().labels("mirrored"),
        )
        .await?;
    say("deleted", either.is_left());
    Ok(())
}

/// Leadership by a lease: taken, refused to another, given back.
pub async fn lead(client: &Client) -> Result<(), Failure> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), NAMESPACE);
    let claim = |holder: &str| -> Value {
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "leader"}, "spec": {
            "holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z",
        }})
    };
    let first = leases
        .patch(
            "leader",
            &PatchParams::apply("first"),
            &Patch::Apply(claim("first")),
        )
        .await?;
    say("leads", first.spec.and_then(|spec| spec.holder_identity));
    let second = leases
        .patch(
            "leader",
            &PatchParams::apply("second"),
            &Patch::Apply(claim("second")),
        )
        .await;
    if let Err(kube::Error::Api(status)) = second {
        say("refused", (status.code, status.reason, status.message));
    }
    let back = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "leader"}, "spec": {}});
    leases
        .patch("leader", &PatchParams::apply("first"), &Patch::Apply(back))
        .await?;
    let second = leases
        .patch(
            "leader",
            &PatchParams::apply("second"),
            &Patch::Apply(claim("second")),
        )
        .await?;
    say(
        "leads",
        second
            .spec
            .map(|spec| (spec.holder_identity, spec.renew_time)),
    );
    Ok(())
}

/// Nothing stays.
pub async fn leave(client: &Client) -> Result<(), Failure> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    definitions
        .delete(Garden::crd_name(), &DeleteParams::default())
        .await?;
    let namespaces: Api<Namespace> = Api::all(client.clone());
    namespaces
        .delete(NAMESPACE, &DeleteParams::default())
        .await?;
    Ok(())
}
