//! `MyApp`: creates a Pod that shows the banner of each object of this kind. The Pod is built in code.
//!
//! ```sh
//! kopf-rs run examples/myapp --embedded --apply examples/myapp --verbose
//! ```

use k8s_openapi::api::core::v1::{Container, ContainerPort, EnvVar, Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kopf_rs::prelude::*;
use kube::api::{Api, PostParams};

/// Prints the banner, if there is one, and keeps running.
const SCRIPT: &str = r#"if [ -n "$BANNER" ]; then echo "$BANNER"; fi; exec sleep infinity"#;

/// The spec of the object.
#[derive(Debug, Deserialize)]
pub struct MyAppSpec {
    image: Option<String>,
    banner: Option<String>,
}

/// Creates the Pod of a new object.
///
/// # Errors
///
/// Fails permanently without an image. If the API server rejects the Pod, the handler is retried.
#[on_create("demo.rtfm.co.ua", "v1", "myapps", requires = ["create pods"])]
pub async fn create_myapp(spec: MyAppSpec, name: &str, namespace: &str, client: Client) -> HandlerResult {
    let Some(image) = spec.image else {
        fail!("Field 'spec.image' must be provided.");
    };
    let pod = pod(name, &image, &spec.banner.unwrap_or_default());
    let pods = Api::<Pod>::namespaced(client, namespace);
    match pods.create(&PostParams::default(), &pod).await {
        Ok(_) => info!("Pod {name}-pod created."),
        // An earlier attempt was interrupted after it had created the Pod.
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
        ports: Some(vec![ContainerPort { container_port: 80, ..ContainerPort::default() }]),
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
        spec: Some(PodSpec { containers: vec![container], ..PodSpec::default() }),
        ..Pod::default()
    }
}

#[cfg(test)]
mod tests {
    use kopf_rs::Registry;
    use kopf_rs::testing::TestCluster;

    use super::*;

    const CRD: &str = include_str!("../crd.yaml");

    /// Runs the whole operator on an in-memory API server.
    #[tokio::test(start_paused = true)]
    async fn an_app_gets_its_pod() {
        let cluster = TestCluster::with(CRD).await;
        let operator = cluster.start(Registry::collected().unwrap());
        cluster.apply(include_str!("../example-app.yaml")).await;
        cluster.line("[default/example-app] Pod example-app-pod created.").await;
        cluster.line("[default/example-app] Handler 'create_myapp' succeeded.").await;
        let pod = cluster.get("pods", "example-app-pod").await.unwrap();
        let container = &pod["spec"]["containers"][0];
        assert_eq!(container["image"], "nginx:latest");
        assert_eq!(container["env"][0]["value"], "Hello from kopf-rs! 🚀");
        assert_eq!(operator.stop().await.failed, []);
    }

    // An annotated function stays an ordinary function, so a test can call it with any arguments.
    #[tokio::test]
    async fn without_an_image_there_is_no_pod() {
        let cluster = TestCluster::new();
        let spec = MyAppSpec { image: None, banner: None };
        let created = create_myapp(spec, "x", "default", cluster.client()).await;
        assert!(matches!(created, Err(HandlerError::Permanent(_))));
        assert_eq!(cluster.list("pods").await, Vec::<Value>::new());
    }
}
