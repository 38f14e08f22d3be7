//! `MyApp`: creates a Pod that shows the banner of each object of this kind. The Pod is built from a YAML template.
//!
//! ```sh
//! kopf-rs run examples/myapp-template --embedded --apply examples/myapp-template --verbose
//! ```

use k8s_openapi::api::core::v1::Pod;
use kopf_rs::prelude::*;
use kube::api::{Api, PostParams};

const TEMPLATE: &str = include_str!("../templates/pod.yaml");

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
#[on_create("demo.rtfm.co.ua", "v1", "myapps")]
pub async fn create_myapp(spec: MyAppSpec, name: &str, namespace: &str, client: Client) -> HandlerResult {
    let Some(image) = spec.image else {
        fail!("Field 'spec.image' must be provided.");
    };
    let pod = pod(name, &image, &spec.banner.unwrap_or_default())?;
    let pods = Api::<Pod>::namespaced(client, namespace);
    match pods.create(&PostParams::default(), &pod).await {
        Ok(_) => info!("Pod {name}-pod created."),
        // An earlier attempt was interrupted after it had created the Pod.
        Err(kube::Error::Api(status)) if status.is_already_exists() => {}
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

fn pod(name: &str, image: &str, banner: &str) -> HandlerResult<Pod> {
    let values = [
        ("pod", &*format!("{name}-pod")),
        ("name", name),
        ("image", image),
        // The only free text. It comes last, so that placeholders in it are not replaced.
        ("banner", banner),
    ];
    let filled = values.iter().fold(TEMPLATE.to_owned(), |text, (key, value)| {
        text.replace(&format!("${{{key}}}"), &json!(value).to_string())
    });
    Ok(serde_saphyr::from_str(&filled)?)
}

#[cfg(test)]
mod tests {
    use kopf_rs::Registry;
    use kopf_rs::testing::TestCluster;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_app_gets_its_pod() {
        let cluster = TestCluster::with(include_str!("../crd.yaml")).await;
        let operator = cluster.start(Registry::collected().unwrap());
        cluster.apply(include_str!("../example-app.yaml")).await;
        cluster.line("[default/example-app] Handler 'create_myapp' succeeded.").await;
        let pod = cluster.get("pods", "example-app-pod").await.unwrap();
        assert_eq!(pod["metadata"]["labels"]["app"], "example-app");
        operator.stop().await;
    }

    #[test]
    fn text_stays_in_its_place() {
        let banner = "\"quoted\": ${image}\n- 🚀";
        let pod = pod("x", "nginx:latest", banner).unwrap();
        let container = &pod.spec.unwrap().containers[0];
        assert_eq!(pod.metadata.name.as_deref(), Some("x-pod"));
        assert_eq!(container.image.as_deref(), Some("nginx:latest"));
        let env = container.env.as_ref().unwrap();
        assert_eq!(env[0].value.as_deref(), Some(banner));
    }
}
