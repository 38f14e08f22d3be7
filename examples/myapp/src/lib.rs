//! `MyApp`: every object of this kind gets a Pod that shows its banner. The Pod is built in code.
//!
//! ```sh
//! kopf-rs run examples/myapp --embedded --apply examples/myapp --verbose
//! ```

use k8s_openapi::api::core::v1::{Container, ContainerPort, EnvVar, Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kopf_rs::prelude::*;
use kube::api::{Api, PostParams};

/// Prints the banner, if there is one, and stays.
const SCRIPT: &str = r#"if [ -n "$BANNER" ]; then echo "$BANNER"; fi; exec sleep infinity"#;

/// What an object asks for.
#[derive(Debug, Deserialize)]
pub struct MyAppSpec {
    image: Option<String>,
    banner: Option<String>,
}

/// Gives a new object its Pod.
///
/// # Errors
///
/// Permanently without an image; until it works where the Pod is refused.
#[on_create("demo.rtfm.co.ua", "v1", "myapps")]
pub async fn create_myapp(
    spec: MyAppSpec,
    name: &str,
    namespace: &str,
    client: Client,
) -> HandlerResult {
    let Some(image) = spec.image else {
        fail!("Field 'spec.image' must be provided.");
    };
    let pod = pod(name, &image, &spec.banner.unwrap_or_default());
    let pods = Api::<Pod>::namespaced(client, namespace);
    match pods.create(&PostParams::default(), &pod).await {
        Ok(_) => info!("Pod {name}-pod created."),
        // An attempt before this one was cut off after it had done its work.
        Err(kube::Error::Api(status)) if status.is_already_exists() => {}
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

fn pod(name: &str, image: &str, banner: &str) -> Pod {
    let container = Container {
        name: name.to_owned(),
        image: Some(image.to_owned()),
        command: Some(vec!["/bin/sh".into(), "-c".into(), SCRIPT.into()]),
        ports: Some(vec![ContainerPort {
            container_port: 80,
            ..ContainerPort::default()
        }]),
        env: Some(vec![EnvVar {
            name: "BANNER".into(),
            value: Some(banner.to_owned()),
            ..EnvVar::default()
        }]),
        ..Container::default()
    };
    Pod {
        metadata: ObjectMeta {
            name: Some(format!("{name}-pod")),
            labels: Some([("app".to_owned(), name.to_owned())].into()),
            ..ObjectMeta::default()
        },
        spec: Some(PodSpec {
            containers: vec![container],
            ..PodSpec::default()
        }),
        ..Pod::default()
    }
}

#[cfg(test)]
mod tests {
    use kopf_rs_apiserver::ApiServer;

    use super::*;

    // An annotated function stays an ordinary one: a test calls it with whatever it likes.
    async fn create(image: Option<&str>, banner: Option<&str>) -> (HandlerResult, Vec<Pod>) {
        let client = Client::new(ApiServer::new().service(), "default");
        let spec = MyAppSpec {
            image: image.map(str::to_owned),
            banner: banner.map(str::to_owned),
        };
        let created = create_myapp(spec, "x", "default", client.clone()).await;
        let pods = Api::<Pod>::namespaced(client, "default");
        let pods = pods.list(&kube::api::ListParams::default()).await.unwrap();
        (created, pods.items)
    }

    #[tokio::test]
    async fn the_pod_has_image_and_banner() {
        let (created, pods) = create(Some("nginx:latest"), Some("hi 🚀")).await;
        created.unwrap();
        let [pod] = pods.as_slice() else {
            panic!("{pods:?}")
        };
        let container = &pod.spec.as_ref().unwrap().containers[0];
        assert_eq!(pod.metadata.name.as_deref(), Some("x-pod"));
        assert_eq!(container.image.as_deref(), Some("nginx:latest"));
        let env = container.env.as_ref().unwrap();
        assert_eq!(env[0].value.as_deref(), Some("hi 🚀"));
    }

    #[tokio::test]
    async fn without_an_image_there_is_no_pod() {
        let (created, pods) = create(None, None).await;
        assert!(matches!(created, Err(HandlerError::Permanent(_))));
        assert_eq!(pods.len(), 0);
    }
}
